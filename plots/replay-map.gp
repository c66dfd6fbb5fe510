# The segments of an allocator at one moment. num: rows, power of 1024, largest segment in bytes.
# Columns: row, from, to (bytes, segments of a row beside each other), colour, state. Second file: row, label.
rows = num(1)
power = num(2)
scale = bytes_scale(power)

set label 1 "Where does memory lie that cannot be used?" at screen 0.012, screen 1 - 18 / H left font "sans:Bold,15"
set xrange [0 : num(3) / scale * 1.01]
set yrange [rows - 0.4 : -0.6]
set xlabel "bytes (" . bytes_unit(power) . ")" textcolor rgb black
unset ytics
set grid noy
set border 1 lc rgb soft lw 1
set style fill solid 1.0 noborder
set key at graph 0, screen 1 - 36 / H left top horizontal samplen 0.8 Left reverse textcolor rgb black

plot data using ($2 / scale):1:($2 / scale):($3 / scale):($1 - 0.38):($1 + 0.38):4 with boxxyerror lc rgb variable notitle, \
	NaN with boxes lc rgb blue title "in use", \
	NaN with boxes lc rgb orange title "waits for a stream", \
	NaN with boxes lc rgb "#d3d9df" title "cached", \
	more using (0):1:2 with labels right offset -0.6, 0 textcolor rgb black notitle

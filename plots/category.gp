# Memory at the peak, stacked bars. num: rows, power of 1024, largest, categories,
# then a colour for each. Columns: name, reserved, note, failed, categories.
# No NaN for a label: gnuplot 5.4 dies where a single row leaves none defined.
rows = num(1)
power = num(2)
scale = bytes_scale(power)
categories = int(num(4))
below(k) = (k > 1) ? (sum [j = 1 : k - 1] column(4 + j)) : 0.0

set label 1 "Where does the memory go, at the peak?" at screen 0.012, screen 1 - 18 / H left font "sans:Bold,15"
set xrange [0 : num(3) / scale * 1.01]
set yrange [rows - 0.4 : -0.6]
set xlabel "memory at the peak (" . bytes_unit(power) . ")" textcolor rgb black
set border 1 lc rgb soft
set ytics scale 0
unset grid
set grid xtics lt 1 lc rgb rule lw 0.6
set key at screen 0.012, screen 1 - 36 / H left top horizontal maxrows 1 samplen 1.2 width 1 Left reverse textcolor rgb black
set style fill solid 1.0 noborder

plot for [k = 1 : categories] data \
		using (0.0):0:(below(k) / scale):((below(k) + column(4 + k)) / scale):($0 - 0.33):($0 + 0.33):ytic(1) \
		with boxxyerror lc rgb int(num(4 + k)) title columnheader(4 + k), \
	data using ($2 / scale):0:(0.0):(0.4) with vectors nohead lc rgb black lw 1.6 notitle, \
	data using ($2 / scale):0:(0.0):(-0.4) with vectors nohead lc rgb black lw 1.6 notitle, \
	data using ($2 / scale):0:3 with labels left offset 0.7, 0 textcolor rgb black notitle, \
	data using (0.0):0:($4 == 1 ? stringcolumn(3) : "") with labels left offset 0.5, 0 textcolor rgb red notitle

# Step times, one box a configuration. num: rows, logarithmic, from, to.
# Columns: name, steps, min, p5, p25, median, p75, p95, max, note, missing. Second file: row, ms.
rows = num(1)
set label 1 "How long does a step take, and how steadily?" at screen 0.012, screen 1 - 18 / H left font "sans:Bold,15"
if (num(2)) { set logscale x }
set xrange [num(3) : num(4)]
set yrange [rows - 0.4 : -0.6]
set xlabel "step time (ms)" textcolor rgb black
set border 1 lc rgb soft
set ytics scale 0
unset grid
set grid xtics lt 1 lc rgb rule lw 0.6
set style fill solid 0.35 border

# Dots spread over the row in a fixed pattern (golden ratio), so that equal ones do not hide each other.
spread(i) = (i * 0.6180339 - floor(i * 0.6180339) - 0.5) * 0.56
plot data using (num(3)):0:ytic(1) with points pt -2, \
	data using 6:0:4:8 with xerrorbars pt -2 lc rgb blue lw 1.3, \
	data using 6:0:5:7:($0 - 0.27):($0 + 0.27) with boxxyerror lc rgb blue lw 1, \
	more using 2:($1 + spread($0)) with points pt 7 ps 0.22 lc rgb "#60767c85", \
	data using 6:($0 - 0.27):(0):(0.54) with vectors nohead lc rgb black lw 2, \
	data using (num(4)):0:($11 == 0 ? strcol(10) : "") with labels left offset 0.7, 0 textcolor rgb black, \
	data using (num(3)):0:($11 == 1 ? strcol(10) : "") with labels left offset 0.7, 0 textcolor rgb red

# What is reserved over a recording. num: events, power of 1024, largest value, limit
# (0: none), lines, a colour for each, rows of the key.
# Columns: event, requested, allocated, reserved of each setting (empty in the rows of the others).
power = num(2)
scale = bytes_scale(power)
top = num(3) / scale * 1.05
limit = num(4) / scale
lines = int(num(5))

set label 1 "What does each setting reserve, and when?" at screen 0.012, screen 1 - 18 / H left font "sans:Bold,15"
set xrange [0 : num(1)]
set yrange [0 : top]
set xlabel "event of the recording" textcolor rgb black
set ylabel "memory (" . bytes_unit(power) . ")" textcolor rgb black
set key at graph 0, screen 1 - 34 / H left top vertical maxrows int(num(6 + lines)) samplen 1.6 Left reverse textcolor rgb black
set style fill solid 1.0 noborder
if (limit > 0) {
	set arrow 1 from graph 0, first limit to graph 1, first limit nohead lc rgb red lw 1.2 dt (6, 4)
}

plot data using 1:($2 / scale) with fillsteps lc rgb "#9fd3f0" title columnheader(2), \
	data using 1:($3 / scale) with steps lc rgb soft lw 0.8 dt (2, 2) title columnheader(3), \
	for [k = lines : 2 : -1] data using 1:(column(3 + k) / scale) with steps lc rgb int(num(5 + k)) lw 1.4 title columnheader(3 + k), \
	data using 1:($4 / scale) with steps lc rgb black lw 2 title columnheader(4)

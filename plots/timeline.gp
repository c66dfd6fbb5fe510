# Memory within a step. num: time from, to (us), us per unit (1 or 1000), power of
# 1024, largest value, categories, a colour for each, rows of phase names, end of the
# scale in bytes.
# Columns: us, requested, allocated, reserved, categories. Second file: us, row, phase.
tick = num(3)
power = num(4)
scale = bytes_scale(power)
categories = int(num(6))
upto(k) = sum [j = 1 : k] column(4 + j)

set label 1 "Who holds memory within a step, and when?" at screen 0.012, screen 1 - 18 / H left font "sans:Bold,15"
set xrange [num(1) / tick : num(2) / tick]
set xlabel "time in the step (" . (tick > 1 ? "ms" : "µs") . ")" textcolor rgb black
set ylabel "memory (" . bytes_unit(power) . ")" textcolor rgb black
set key at graph 1.015, graph 1 left top vertical samplen 1.2 Left reverse textcolor rgb black
set style fill solid 1.0 noborder

# The names of the phases stand in rows inside the top of the plotted area.
top_y = num(6 + categories + 2) / scale
row_px = 15.0
inner = H - frame(6) - frame(7)
row_y(r) = top_y * (1 - (9 + row_px * r) / inner)
set yrange [0 : top_y]

# A phase that begins near the right edge has its name to the left of its line.
at_end(us) = us > num(1) + 0.9 * (num(2) - num(1))

# From the whole stack down to the lowest layer, each painted over the one before.
plot data using ($1 / tick):($4 / scale) with steps lc rgb black lw 2 title "reserved", \
	data using ($1 / tick):($3 / scale) with steps lc rgb black lw 0.8 dt (2, 2) title "allocated", \
	for [k = categories : 1 : -1] data using ($1 / tick):(upto(k) / scale) with fillsteps lc rgb int(num(6 + k)) title columnheader(4 + k), \
	data using ($1 / tick):($4 / scale) with steps lc rgb black lw 2 notitle, \
	data using ($1 / tick):($3 / scale) with steps lc rgb black lw 0.8 dt (2, 2) notitle, \
	more using ($1 / tick):(0):(0):(top_y) with vectors nohead lc rgb soft lw 0.8 dt (3, 3) notitle, \
	more using ($1 / tick):($2 < 0 || at_end($1) ? NaN : row_y($2)):3 with labels left offset 0.4, 0 textcolor rgb black notitle, \
	more using ($1 / tick):($2 < 0 || !at_end($1) ? NaN : row_y($2)):3 with labels right offset -0.4, 0 textcolor rgb black notitle

# Peak memory against throughput. num: x from, to, y from, to, power of 1024,
# cap or 0, points on the front (the first rows, by memory), labels.
power = num(5)
scale = bytes_scale(power)
cap = num(6)
front_n = int(num(7))
floor_y = num(3)

set label 1 "Which trade-offs are worth it?" at screen 0.012, screen 1 - 18 / H left font "sans:Bold,15"
set xrange [num(1) / scale : num(2) / scale]
set yrange [num(3) : num(4)]
set xlabel "peak reserved memory (" . bytes_unit(power) . ")" textcolor rgb black
set ylabel "throughput (tokens/s)" textcolor rgb black
set format y "%.0f"
if (cap > 0) {
	set arrow 1 from first cap / scale, graph 0 to first cap / scale, graph 1 nohead lc rgb red lw 1.5 dt (8, 4)
	set label 2 "cap" at first cap / scale, graph 1 center offset 0, 0.7 textcolor rgb red
}

# More memory than the last point of the front needs buys no more speed.
set arrow 3 from first num(9) / scale, first num(10) to graph 1, first num(10) nohead lc rgb blue lw 1.2 dt (4, 4)

plot data using ($2 / scale):3 every ::0::(front_n - 1) with steps lc rgb blue lw 2, \
	data using ($2 / scale):4:(0):($5 - $4) with vectors nohead lw 3 lc rgb "#80767c85", \
	data using ($2 / scale):($6 == 0 ? $3 : NaN) with points pt 7 ps 0.7 lc rgb grey, \
	data using ($2 / scale):($6 == 1 ? $3 : NaN) with points pt 7 ps 0.9 lc rgb blue, \
	data using ($8 / scale):(strcol(7) eq "ok" ? NaN : floor_y) with points pt 2 ps 1.1 lw 3 lc rgb red, \
	more using ($6 / scale):2:(($4 - $6) / scale):($5 - $2) with vectors nohead lc rgb soft lw 0.8, \
	more using ($1 / scale):2:3 with labels left textcolor rgb black

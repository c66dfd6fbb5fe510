# Loss curves. num: curves, last step, from, to, draw every n-th point.
# Columns: step, curves. Second file: last step, loss, place of the name, name, colour.
curves = int(num(1))
array palette_of[8] = [0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xe69f00, 0x8c8c8c, 0xf0e442]
# Beyond eight curves the colours come again, dashed.
colour(k) = palette_of[(k - 1) % 8 + 1]
set label 1 "Do they train the same?" at screen 0.012, screen 1 - 18 / H left font "sans:Bold,15"
lead = num(2) * 0.03
set xrange [0 : num(2) + lead]
set yrange [num(3) : num(4)]
set xlabel "step" textcolor rgb black
set ylabel "loss" textcolor rgb black

plot for [k = 1 : (curves < 8 ? curves : 8)] data using 1:(column(k + 1)) every int(num(5)) with lines lw 1.8 lc rgb colour(k), \
	for [k = 9 : curves] data using 1:(column(k + 1)) every int(num(5)) with lines lw 1.8 lc rgb colour(k) dt (6, 4), \
	more using 1:2:(num(2) + lead - $1):($3 - $2):5 with vectors nohead lw 1 lc rgb variable, \
	more using 1:2:5 with points pt 7 ps 0.5 lc rgb variable, \
	more using (num(2) + lead):3:4 with labels left offset 0.5, 0 textcolor rgb black

# Operators of one run. num: rows, divisor, unit (0-3 powers of 1024, 4 us, 5 ms),
# largest, phases, then a colour for each. Columns: name, note, sum, phases.
rows = num(1)
scale = num(2)
unit = word("B KiB MiB GiB µs ms", int(num(3)) + 1)
phases = int(num(5))
memory = num(3) < 4
below(k) = (k > 1) ? (sum [j = 1 : k - 1] column(3 + j)) : 0.0

set label 1 (memory ? "Which operators hold the memory at the peak?" : "Which operators take the time?") \
	at screen 0.012, screen 1 - 18 / H left font "sans:Bold,15"
set xrange [0 : num(4) / scale * 1.01]
set yrange [rows - 0.4 : -0.6]
set xlabel (memory ? "memory alive at the peak (" : "time over the recorded steps (") . unit . ")" textcolor rgb black
set border 1 lc rgb soft
set ytics scale 0
unset grid
set grid xtics lt 1 lc rgb rule lw 0.6
set key at screen 0.012, screen 1 - 36 / H left top horizontal maxrows 1 samplen 1.2 width 1 Left reverse textcolor rgb black
if (phases == 1) { set key off }
set style fill solid 1.0 noborder

plot for [k = 1 : phases] data \
		using (0.0):0:(below(k) / scale):((below(k) + column(3 + k)) / scale):($0 - 0.33):($0 + 0.33):ytic(1) \
		with boxxyerror lc rgb int(num(5 + k)) title columnheader(3 + k), \
	data using ($3 / scale):0:2 with labels left offset 0.7, 0 textcolor rgb black notitle

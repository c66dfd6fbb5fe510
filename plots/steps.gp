# Step times, one box a configuration. num: rows, relative, from, to.
# Columns: name, steps, min, p5, p25, median, p75, p95, max, note, missing.
# Second file: row, ms, median of the row.
rows = num(1)
relative = int(num(2))
shown(v, median) = relative ? 100 * (v / median - 1) : v

set label 1 "How long does a step take, and how steadily?" at screen 0.012, screen 1 - 18 / H left font "sans:Bold,15"
set label 2 "median" at graph 1, screen 1 - 40 / H left offset 0.7, 0 textcolor rgb soft
set xrange [num(3) : num(4)]
set yrange [rows - 0.4 : -0.6]
set xlabel (relative ? "difference from the median of the configuration (%)" : "step time (ms)") textcolor rgb black
set border 1 lc rgb soft
set ytics scale 0
unset grid
set grid xtics lt 1 lc rgb rule lw 0.6
set style fill solid 0.30 border

# Dots spread over the row in a fixed pattern (golden ratio), so that equal ones do not hide each other.
spread(i) = (i * 0.6180339 - floor(i * 0.6180339) - 0.5) * 0.6
inside(v) = (v > num(4)) ? num(4) : v
plot data using (num(3)):0:ytic(1) with points pt -2, \
	more using (inside(shown($2, $3))):($1 + spread($0)) with points pt 7 ps 0.25 lc rgb "#70767c85", \
	data using (shown($6, $6)):0:(shown($4, $6)):(shown($8, $6)) with xerrorbars pt -2 lc rgb blue lw 1.4, \
	data using (shown($6, $6)):0:(shown($5, $6)):(shown($7, $6)):($0 - 0.3):($0 + 0.3) with boxxyerror lc rgb blue lw 1.2, \
	data using (shown($6, $6)):($0 - 0.3):(0):(0.6) with vectors nohead lc rgb blue lw 3, \
	data using (num(4)):0:($11 == 0 ? strcol(10) : "") with labels left offset 0.7, 0 textcolor rgb black, \
	data using (num(3)):0:($11 == 1 ? strcol(10) : "") with labels left offset 0.7, 0 textcolor rgb red

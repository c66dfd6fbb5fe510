# What each change does to memory (left) and speed (right). num: rows, power of
# 1024, largest bytes, largest tokens/s, width of the figures in pixels. Columns:
# name, indent in pixels, bytes, bytes above, note, tokens/s, tokens/s above, note, failed,
# bytes reserved.
rows = num(1)
power = num(2)
scale = bytes_scale(power)
notes = num(5)
left = frame(4)
panel = (W - left - frame(5) - notes) / 2

set multiplot
set label 1 "What does each change do to memory and speed?" at screen 0.012, screen 1 - 18 / H left font "sans:Bold,15"
set yrange [rows - 0.4 : -0.6]
set border 0
set ytics scale 0
set format y ""
unset grid
set grid xtics lt 1 lc rgb rule lw 0.6
set style fill solid 1.0 noborder
faint = "#c0a0a8b0"
better(a, b) = (a < b) ? 0x009e73 : 0xe69f00

# The names have an area of their own, since what lies beyond an axis is not drawn.
set lmargin at screen 0
set rmargin at screen left / W
set xrange [0 : left]
unset xtics
plot data using ($2 + 10):0:1 with labels left textcolor rgb black
unset label 1

to = num(3) * 1.02 / scale
set border 1 lc rgb soft
set xtics nomirror out scale 0.5 offset 0, 0.4 textcolor rgb black
set lmargin at screen left / W
set rmargin at screen (left + panel) / W
set xrange [0 : to]
set xlabel "peak allocated memory (" . bytes_unit(power) . ")" textcolor rgb black
plot data using (0.0):0:(0.0):($3 / scale):($0 - 0.34):($0 + 0.34) with boxxyerror lc rgb faint, \
	data using (0.0):0:($3 < $4 ? $3 / scale : $4 / scale):($3 < $4 ? $4 / scale : $3 / scale):($0 - 0.34):($0 + 0.34):(better($3, $4)) \
		with boxxyerror lc rgb variable, \
	data using ($9 == 1 ? NaN : $3 / scale):($0 - 0.34):(0.0):(0.68) with vectors nohead lc rgb black lw 1.6, \
	data using ($9 == 1 ? NaN : $10 / scale):($0 - 0.2):(0.0):(0.4) with vectors nohead lc rgb soft lw 1, \
	data using (to):0:($9 == 1 ? "" : stringcolumn(5)) with labels left offset 0.7, 0 textcolor rgb black, \
	data using (0.0):0:($9 == 1 ? stringcolumn(5) : "") with labels left offset 0.5, 0 textcolor rgb red

top = num(4) * 1.02
set lmargin at screen (left + panel + notes) / W
set rmargin at screen (left + 2 * panel + notes) / W
set xrange [0 : top]
set xlabel "throughput (tokens/s)" textcolor rgb black
set format x "%.0f"
# below that ticks come every 500, and 1500 would be written 2 k
if (top > 5000) {
	set format x "%.0s %c"
}
plot data using (0.0):0:(0.0):6:($0 - 0.34):($0 + 0.34) with boxxyerror lc rgb faint, \
	data using (0.0):0:($6 < $7 ? $6 : $7):($6 < $7 ? $7 : $6):($0 - 0.34):($0 + 0.34):(better($7, $6)) with boxxyerror lc rgb variable, \
	data using ($9 == 1 ? NaN : $6):($0 - 0.34):(0.0):(0.68) with vectors nohead lc rgb black lw 1.6, \
	data using (top):0:8 with labels left offset 0.7, 0 textcolor rgb black
unset multiplot

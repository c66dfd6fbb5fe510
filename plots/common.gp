# Put before every template. Arguments: data file, second data file, output,
# then two lists of numbers separated by blanks (gnuplot passes nine arguments at
# most): terminal (1 svg, 2 png by cairo, 3 png by gd), width, height, margins in
# pixels left right top bottom; and the template's own. Text comes only from the
# data files; nothing here is made from it.
data = ARG1
more = ARG2
frame(i) = word(ARG4, int(i)) + 0.0
num(i) = word(ARG5, int(i)) + 0.0
terminal = int(frame(1))
W = frame(2)
H = frame(3)

if (terminal == 1) {
	set terminal svg size W, H dynamic noenhanced font "sans,13" linewidth 1
}
if (terminal == 2) {
	set terminal pngcairo size W, H noenhanced font "sans,10"
}
if (terminal == 3) {
	set terminal png size W, H noenhanced
}
set output ARG3

set encoding utf8
set datafile separator "\t"
set datafile commentschars ""
set datafile columnheaders
set lmargin at screen frame(4) / W
set rmargin at screen 1 - frame(5) / W
set tmargin at screen 1 - frame(6) / H
set bmargin at screen frame(7) / H

black = "#000000"
soft = "#767c85"
rule = "#a0808890"
blue = "#0072b2"
orange = "#e69f00"
green = "#009e73"
pink = "#cc79a7"
sky = "#56b4e9"
red = "#d55e00"
yellow = "#f0e442"
grey = "#8c8c8c"

set border 3 lc rgb soft lw 1
set tics nomirror out scale 0.5 textcolor rgb black
set xtics offset 0, 0.4
set xlabel offset 0, 0.7
set grid lt 1 lc rgb rule lw 0.6
set key off
unset title

bytes_unit(power) = word("B KiB MiB GiB", int(power) + 1)
bytes_scale(power) = 1024.0 ** int(power)

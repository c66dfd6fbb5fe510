# Put before every template. Arguments: data file, second data file, output,
# terminal (1 svg, 2 png by cairo, 3 png by gd), width, height, margins in pixels
# left right top bottom, then the template's own numbers. Text comes only from
# the data files; nothing here is made from it.
data = ARGV[1]
more = ARGV[2]
terminal = int(ARGV[4] + 0)
W = ARGV[5] + 0.0
H = ARGV[6] + 0.0
num(i) = ARGV[10 + i] + 0.0

if (terminal == 1) {
	set terminal svg size W, H dynamic noenhanced font "sans,13" linewidth 1
}
if (terminal == 2) {
	set terminal pngcairo size W, H noenhanced font "sans,10"
}
if (terminal == 3) {
	set terminal png size W, H noenhanced
}
set output ARGV[3]

set encoding utf8
set datafile separator "\t"
set datafile commentschars ""
set datafile columnheaders
set lmargin at screen (ARGV[7] + 0.0) / W
set rmargin at screen 1 - (ARGV[8] + 0.0) / W
set tmargin at screen 1 - (ARGV[9] + 0.0) / H
set bmargin at screen (ARGV[10] + 0.0) / H

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
set grid lt 1 lc rgb rule lw 0.6
set key off
unset title

bytes_unit(power) = word("B KiB MiB GiB", int(power) + 1)
bytes_scale(power) = 1024.0 ** int(power)

# The sweep as a map. num: rows, columns. Columns: column, row, colour, text, second
# text, failed. Second file: x, y, kind (0 row name, 1 column name, 2 and 3 the names of
# the two parameters), text.
rows = num(1)
columns = num(2)

set label 1 "Which configurations fit, and at what price?" at screen 0.012, screen 1 - 18 / H left font "sans:Bold,15"
set xrange [-0.5 : columns - 0.5]
set yrange [rows - 0.5 : -0.5]
unset border
unset tics
unset grid
set style fill solid 1.0 noborder

plot data using 1:2:($1 - 0.485):($1 + 0.485):($2 - 0.46):($2 + 0.46):3 with boxxyerror lc rgb variable, \
	data using 1:($2 - 0.17):($6 == 0 ? strcol(4) : "") with labels center font "sans:Bold,13" textcolor rgb "#10151b", \
	data using 1:($2 + 0.2):($6 == 0 ? strcol(5) : "") with labels center font "sans,11" textcolor rgb "#39424d", \
	data using 1:($2 - 0.17):($6 == 1 ? strcol(4) : "") with labels center font "sans:Bold,13" textcolor rgb "#8a2f00", \
	data using 1:($2 + 0.2):($6 == 1 ? strcol(5) : "") with labels center font "sans,11" textcolor rgb "#8a2f00", \
	more using 1:2:($3 == 0 ? strcol(4) : "") with labels right offset -0.8, 0 textcolor rgb black, \
	more using 1:2:($3 == 1 ? strcol(4) : "") with labels center offset 0, -0.8 textcolor rgb black, \
	more using 1:2:($3 == 2 ? strcol(4) : "") with labels right offset -0.8, 0.7 textcolor rgb soft, \
	more using 1:2:($3 == 3 ? strcol(4) : "") with labels center offset 0, -2.0 textcolor rgb soft

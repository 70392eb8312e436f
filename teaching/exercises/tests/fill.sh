#!/bin/sh
# fill.sh EXERCISE LINES: prints the file of an exercise with these lines in its blank.
set -eu
awk -v lines="$2" '
/---- your lines/ { print; while ((getline line <lines) > 0) print "    " line; inside = 1; filled++; next }
/---- end of your lines/ { inside = 0 }
!inside { print }
END { if (filled != 1) { print "fill.sh: the file has " filled + 0 " blanks" >"/dev/stderr"; exit 1 } }' "$1"

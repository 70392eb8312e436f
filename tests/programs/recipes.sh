#!/bin/sh
# recipes.sh LANGUAGE_MODEL SOURCE: bench/recipes.py trains on nine tenths of a text without its last tenth, measures the loss that the
# program itself prints for this split, omits runs that it has made, and compares settings with equal seeds.
set -eu
program=$1 source=$2
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
. "$(dirname "$0")/language_model_checks.sh"

recipes() { # recipes COMMAND OPTION...
    python3 -B "$source/bench/recipes.py" "$@"
}
try() { # try TEXT NAME OPTION...: runs the settings on the text, and writes NAME.csv
    recipes run "$1" --settings settings --csv "$2.csv" --threads 1 --program "$program" 2>"$2.err" || { cat "$2.err"; fail "run $2"; }
}
column() { # column NAME FILE
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i } NR > 1 { print $c }' "$2"
}

awk 'BEGIN { for (i = 0; i < 60; i++) printf "line %03d of the text\n", i % 7 * i }' >text # 1260 bytes
{ head -c 1134 text; awk 'BEGIN { while (i++ < 126) printf "X" }'; } >other
size="--layers 1 --heads 2 --width 16 --length 8 --batch 4 --warmup 1 --steps 5"
cat >settings <<EOF

# a comment
$size
$size --llama # another
EOF

try text first
try other second
[ "$(column loss first.csv)" = "$(column loss second.csv)" ] || fail "the last tenth of the text changes the loss"
[ "$(column text_crc32 first.csv)" = "$(column text_crc32 second.csv)" ] || fail "the last tenth is part of the text's sum"
[ "$(column tokens first.csv)" = "160
160" ] || fail "the numbers of tokens are wrong: $(cat first.csv)"
head -c 1134 text >split
# shellcheck disable=SC2086 # options are words
"$program" train split run --recipe nanogpt $size --quiet --sample-tokens 0 >out 2>&1
[ "$(column loss first.csv | head -n 1)" = "$(sed -n 's/.* loss=\([0-9.]*\).*/\1/p' out)" ] || { cat first.csv out; fail "another loss"; }

# A session continues: the runs that are in the file are not made again.
cp first.csv once.csv
try text first
cmp -s first.csv once.csv || fail "a run was repeated"
head -n 2 once.csv >first.csv
try text first
[ "$(column loss first.csv)" = "$(column loss once.csv)" ] || fail "the session did not continue with the second run"

recipes run text --settings settings --seeds 2 --csv first.csv --threads 1 --program "$program" 2>err || fail "run with seed 2"
recipes table --csv first.csv >table
difference=$(column loss first.csv | awk '{ loss[NR] = $1 } END { printf "%+.4f", (loss[2] - loss[1] + loss[4] - loss[3]) / 2 }')
grep -F "| --llama | 2 |" table | grep -F "| $difference ± " >/dev/null || { cat table; fail "the table lacks $difference"; }
grep -F "| the reference | 2 |" table >/dev/null || { cat table; fail "the table lacks the reference"; }
recipes table --csv first.csv --against "$size --llama" | grep -F "| no --llama | 2 |" >/dev/null || fail "the other reference"

echo "--seed 3" >settings
expect 1 "which recipes.py sets itself" recipes run text --settings settings --csv new.csv --program "$program"
echo "--width 3 --heads 2" >settings
expect 1 "does not divide" recipes run text --settings settings --csv new.csv --program "$program"
[ ! -e new.csv ] || fail "a failed run has a line"

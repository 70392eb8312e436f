#!/bin/sh
# check.sh SOURCE BUILD PART [N]: checks the exercises with scripts/exercise.sh. N: only the mistakes of this exercise. The parts:
#   blanks     every exercise as it is: not yet, no marks
#   solutions  every reference solution: full marks
#   limits     every loop of every reference solution, limited to 32 passes: not full marks; an array that is too short
#   mistakes   every mistake of mistakes.txt: not full marks, and the sentence in teaching/exercises/teacher.md. The interpreter says the
#              same as the compiled code, about every check
#   incidents  crashes, endless loops, files that do not compile, names with spaces, output of the student's code
#   cheats     code that acts on the marker instead of computing: no full marks, and the next file is marked
#   autograder Gradescope's results
#   sample     the output in teaching/exercises/README.md, the sentences in teaching/lessons/teacher.md
#   write      writes the sentences of all mistakes into teaching/exercises/teacher.md
set -eu
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd) what=$3
here=$source/teaching/exercises/tests page=$source/teaching/exercises/teacher.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=

wrong() {
    printf 'WRONG: %s\n' "$*"
    failed=yes
}
exercise() { # exercise OPTION...: sets status and writes the file out
    status=0
    "$source/scripts/exercise.sh" --build "$build" "$@" >"$work/out" 2>"$work/err" || status=$?
}
name_of() { # name_of N: such as 4_softmax
    basename "$(echo "$source/teaching/exercises/$1"_*.c)" .c
}
solve() { # solve N LINES OUTPUT
    "$here/fill.sh" "$source/teaching/exercises/$(name_of "$1").c" "$2" >"$3"
}
solution_of() {
    echo "$here/solutions/$(name_of "$1").txt"
}
field() { # field NAME: of each JSON object in out, the string or number
    sed -E "s/,\"checks\":.*//; s/.*\"$1\":(\"([^\"]*)\"|([0-9a-z]+)).*/\2\3/" "$work/out"
}

# interpreted_equals N FILE...: the interpreter says what is in out, except for warnings: those of the compiler, and those of the
# interpreter. Other compilers than gcc may evaluate operands in another order, so that another wrong index is the first one.
interpreted_equals() {
    text='"\([^"\\]\|\\.\)*"'
    same="s/\"warning\":$text//; s/-nan/ nan/g; s/ *nan/ nan/g" # log(-1) has any sign
    ! ${CC:-cc} --version | grep -i clang >/dev/null || same="$same; s/\"checks\".*//"
    sed "$same" "$work/out" >"$work/compiled"
    exercise --json --interpret "$@"
    sed "$same" "$work/out" >"$work/interpreted"
    diff "$work/compiled" "$work/interpreted" >"$work/difference" || { wrong "exercise $1: interpreted and compiled differ"; cat "$work/difference"; }
}

blanks() {
    exercise --all --json
    [ "$status" -eq 1 ] || wrong "the blanks return $status"
    [ "$(field status | uniq -c | tr -s ' ')" = " 11 not yet" ] || wrong "not all blanks are \"not yet\": $(field status)"
    [ "$(field marks | sort -u)" = 0 ] || wrong "a blank gets marks"
    exercise 1
    grep "not yet: the blank in 1_multiply.c, line [0-9]*, is empty" "$work/out" || wrong "the text of a blank: $(cat "$work/out")"
}

solutions() {
    for n in $(seq 0 10); do
        solve "$n" "$(solution_of "$n")" "$work/solution.c"
        exercise --json "$n" "$work/solution.c"
        [ "$status" -eq 0 ] && [ "$(field status)" = passed ] && [ "$(field marks)" = "$(field max)" ] ||
            { wrong "the solution of exercise $n returns $status"; cat "$work/out" "$work/err"; }
        ! grep '"warning":"[^"]' "$work/out" || wrong "the compiler warns"
        interpreted_equals "$n" "$work/solution.c"
    done
}

# Writes a file for each loop of each solution: its counter also stays below 32.
limits() {
    for n in $(seq 0 10); do
        rm -rf "$work/limited" && mkdir "$work/limited"
        for line in $(grep -n 'for (' "$(solution_of "$n")" | cut -d : -f 1); do
            sed -e "${line}s/; \([a-z]*\) < \([^;]*\);/; \1 < \2 \&\& \1 < 32;/" -e "${line}s/; \([a-z]*\) >= 0;/; \1 >= 0 \&\& \1 >= M - 32;/" \
                "$(solution_of "$n")" >"$work/lines"
            ! cmp -s "$work/lines" "$(solution_of "$n")" || wrong "line $line of the solution of exercise $n has another form of loop"
            solve "$n" "$work/lines" "$work/limited/line$line.c"
        done
        exercise --json "$n" "$work/limited"/*.c
        ! grep '"passed":true' "$work/out" || wrong "exercise $n: a loop with 32 passes gets full marks"
        [ "$(grep -c '"status":"wrong"' "$work/out")" -eq "$(ls "$work/limited" | wc -l)" ] || wrong "exercise $n: $(cat "$work/out" "$work/err")"
    done
    # An array of the student has 8 elements, but a row has more.
    sed -e 's/double sum = 0;/double product[8], sum = 0;/' -e 's/sum += \(.*\);/sum += (product[k] = \1);/' "$(solution_of 4)" >"$work/lines"
    solve 4 "$work/lines" "$work/short.c"
    exercise --json 4 "$work/short.c"
    grep -F '"cause":"an index of an array that you declared is outside it' "$work/out" >/dev/null || wrong "a short array: $(cat "$work/out")"
}

# table N: runs the mistakes of exercise N and prints a row for each: the mistake and the marker's sentence.
table() {
    rm -rf "$work/$1" && mkdir "$work/$1"
    awk -v n="$1" -v folder="$work/$1" '
        /^[0-9]/ { mine = $1 == n; if (mine) { sub(/^[0-9]+ /, ""); print >(folder "/names"); file = sprintf("%s/%02d.sed", folder, ++count) }; next }
        /^    / && mine { print substr($0, 5) >file }' "$here/mistakes.txt"
    for script in "$work/$1"/*.sed; do
        sed -f "$script" "$(solution_of "$1")" >"$script.txt"
        ! cmp -s "$script.txt" "$(solution_of "$1")" || wrong "exercise $1: $(cat "$script") changes nothing"
        solve "$1" "$script.txt" "${script%.sed}.c"
    done
    exercise --json --seconds 5 "$1" "$work/$1"/*.c
    [ "$status" -eq 1 ] || wrong "the mistakes of exercise $1 return $status: $(cat "$work/err")"
    ! field passed | grep true >&2 || wrong "a mistake of exercise $1 gets full marks"
    field summary | paste -d '|' "$work/$1/names" - | sed 's/|/ | /; s/.*/| & |/'
    interpreted_equals "$1" "$work/$1"/*.c >&2
}
rows_of() { # rows_of N PAGE: the rows of the table below the heading of exercise N
    awk -v n="$1" '/^## / { mine = $0 ~ "^## " n "[:.]" } mine && /^\| / && !/^\| (mistake|---)/' "$2"
}

mistakes() { # mistakes [N]
    for n in ${1:-$(seq 0 10)}; do
        table "$n" >"$work/rows"
        rows_of "$n" "$page" >"$work/on_page"
        diff "$work/on_page" "$work/rows" || wrong "exercise $n: the sentences differ from teaching/exercises/teacher.md"
        [ "$(wc -l <"$work/rows")" -ge 5 ] || wrong "exercise $n has fewer than five mistakes"
        echo "exercise $n: $(wc -l <"$work/rows") mistakes get the sentences of teaching/exercises/teacher.md"
    done
}

# Gradescope's results for a submission with one solution and one mistake.
autograder() {
    command -v python3 >/dev/null || return 0
    mkdir -p "$work/grade/submission" "$work/grade/source"
    ln -s "$source" "$work/grade/source/tapehead"
    solve 4 "$(solution_of 4)" "$work/grade/submission/4_softmax.c"
    sed 's/- sum/+ sum/' "$work/grade/submission/4_softmax.c" >"$work/grade/submission/4_softmax_again.c"
    AUTOGRADER=$work/grade BUILD=$build "$source/teaching/exercises/autograder/gradescope/run_autograder"
    python3 - "$work/grade/results/results.json" <<'END' || wrong "Gradescope's results: $(cat "$work/grade/results/results.json")"
import json, sys
right, other = json.load(open(sys.argv[1]))["tests"]
assert right["score"] == right["max_score"] == 12, right
assert other["score"] < 12 and other["output"].startswith("the sum over the row is added"), other
END
    rm "$work/grade/submission"/*.c
    AUTOGRADER=$work/grade BUILD=$build "$source/teaching/exercises/autograder/gradescope/run_autograder"
    grep '"score": 0' "$work/grade/results/results.json" >/dev/null || wrong "a submission without files"
}

# The sample in teaching/exercises/README.md is what the marker prints about this mistake.
sample() {
    mkdir -p "$work/teaching/exercises"
    sed 's/(at(dy, n, j) - sum)/at(dy, n, j)/' "$(solution_of 4)" >"$work/lines"
    solve 4 "$work/lines" "$work/teaching/exercises/4_softmax.c"
    cd "$work"
    exercise 4 teaching/exercises/4_softmax.c
    awk '/^```console/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$source/teaching/exercises/README.md" >"$work/on_page"
    diff "$work/on_page" "$work/out" || wrong "the sample in teaching/exercises/README.md differs"
    # The sentences in the guide of the class are those of the tables.
    sed -n '/^| the marker says /,/^$/s/^| `\(.*\)` |.*/\1/p' "$source/teaching/lessons/teacher.md" >"$work/quoted"
    [ -s "$work/quoted" ] || wrong "teaching/lessons/teacher.md quotes no sentence"
    while IFS= read -r sentence; do
        grep -F "| $sentence |" "$page" >/dev/null || wrong "teaching/lessons/teacher.md quotes \"$sentence\""
    done <"$work/quoted"
}

write() {
    for n in $(seq 0 10); do
        table "$n" >"$work/rows"
        awk -v n="$n" -v rows="$work/rows" '
            /^## / { mine = $0 ~ "^## " n "[:.]" }
            mine && /^\| / && !/^\| (mistake|---)/ { next }
            { print }
            mine && /^\| ?---/ { while ((getline line <rows) > 0) print line }' "$page" >"$work/page"
        cp "$work/page" "$page"
    done
}

. "$here/incidents.sh"
case $what in
blanks | solutions | limits | mistakes | incidents | cheats | autograder | sample | write) "$what" ${4:+"$4"} ;;
*) echo "unknown part $what" >&2; exit 2 ;;
esac
[ -z "$failed" ]

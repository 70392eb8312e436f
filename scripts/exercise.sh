#!/bin/sh
# exercise.sh [OPTION...] N [FILE...]: marks exercise N of teaching/exercises/: installs missing packages, builds the core library, compiles the
# file with your lines, runs the gradient checker on your operation, and compares its results with known ones:
#   exercise.sh 4                        marks teaching/exercises/4_softmax.c
#   exercise.sh 4 ada.c bob.c            marks these files, which are copies of it
#   exercise.sh --all                    marks all of them and prints a table
#
# --all            all exercises of teaching/exercises/, a line for each
# --json           prints one JSON object on a line for each file: exercise, passed, marks, max, checks with their sentences
# --interpret      runs your lines in the interpreter of the class's page: it needs no compiler for them. It also names the line of
#                  an index outside an array and of a variable without a value
# --seconds S      the processor time of each check (default 10): after that the code has an endless loop
# --build DIR      uses the library and the marker in this build directory: installs and builds nothing
# --installed      uses the installed library (pkg-config tapehead): installs nothing, and compiles the marker only
#
# The first build of the library takes a minute or two. Exit status: 0 full marks, 1 not yet or wrong, 2 wrong option. The code that is
# marked runs in a separate process. On Linux it has no network, can read no files, and can write none. CC names the compiler.
set -eu
export LC_ALL=C # the marker reads the compiler's messages

root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
all= style= interpret= seconds=10 build= installed= count=$#
while [ $count -gt 0 ]; do # options move to the variables, all other words to the end
    case $1 in
    --all) all=yes ;;
    --json) style=--json ;;
    --interpret) interpret=--interpret ;;
    --installed) installed=yes ;;
    --build | --seconds)
        [ $count -gt 1 ] || need_value "$1"
        if [ "$1" = --build ]; then build=$2; else seconds=$2; fi
        shift
        count=$((count - 1))
        ;;
    -*) refuse "unknown option $1" ;;
    *) set -- "$@" "$1" ;;
    esac
    shift
    count=$((count - 1))
done
case $seconds in
'' | *[!0-9]* | 0*) refuse "--seconds takes a positive number, not $seconds" ;;
esac
if [ -n "$all" ]; then
    [ $# -eq 0 ] || refuse "--all takes no exercise and no file: $1"
    numbers=$(seq 0 10)
else
    case ${1:-} in
    [0-9] | 10) numbers=$1 ;;
    *) refuse "an exercise has a number from 0 to 10${1:+, not $1}" ;;
    esac
    shift
    for file; do
        [ -f "$file" ] || refuse "there is no file $file"
    done
fi

# -- the marker --

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile() { # compile SOURCE... -o OUTPUT: with the functions and errors that a student expects
    # shellcheck disable=SC2086 # (CC may be "ccache gcc")
    ${CC:-cc} -std=gnu11 -O1 -I "$root/teaching/exercises" $include "$@"
}
include=-I$root/include
if [ -n "$installed" ]; then
    include=$(pkg-config --cflags tapehead) || refuse "pkg-config finds no installed library"
    marker=$work/exercise_marker
    libraries="$(pkg-config --libs tapehead) -Wl,-rpath,$(pkg-config --variable=libdir tapehead) -ldl -lm" folder=$root/teaching/exercises
    for blank in "$folder"/[0-9]*_*.c; do
        number=$(basename "${blank%%_*}")
        compile -c "-Dexercise=exercise_$number" "$blank" -o "$work/blank_$number.o"
    done
    # shellcheck disable=SC2086 # (words)
    compile $(ls "$folder"/marker/*.c | grep -v guard_here) "$folder"/interpreter/*.c "$work"/blank_*.o -o "$marker" $libraries
    # shellcheck disable=SC2086
    compile -rdynamic "$folder"/runner/*.c "$folder/marker/access.c" "$folder/marker/given.c" -o "$work/exercise_runner" $libraries
elif [ -n "$build" ]; then
    marker=$build/teaching/exercises/exercise_marker
    [ -x "$marker" ] || refuse "there is no $marker: build the target exercise_marker"
else
    "$root/scripts/setup.sh" demo >&2
    build=$("$root/scripts/library/configure.sh" --core --new -DTAPEHEAD_TESTS=OFF --new -DTAPEHEAD_ISAS=native -DTAPEHEAD_EXAMPLES=ON 2>"$work/log") ||
        { cat "$work/log" >&2; exit 1; }
    marker=$build/teaching/exercises/exercise_marker
    if [ ! -x "$marker" ]; then
        echo "building the core library; this takes a minute or two, once" >&2
        cmake --build "$build" --target exercise_marker --parallel "$(nproc)" >&2
    else
        cmake --build "$build" --target exercise_marker --parallel "$(nproc)" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    fi
fi

# -- marking --

mark() { # mark N FILE
    rm -f "$work/exercise.so"
    set -- "$1" "${2#"$PWD/"}" --messages "$work/messages"
    if [ -n "$interpret" ]; then
        : >"$work/messages"
    elif compile -fPIC -shared -fsanitize=bounds -fsanitize-undefined-trap-on-error -Wall -Wextra -Wno-unused -Werror=implicit-function-declaration -Werror=return-type \
        -Werror=incompatible-pointer-types -Werror=int-conversion "$2" -o "$work/exercise.so" 2>"$work/messages"; then
        set -- "$@" --library "$work/exercise.so"
    fi
    "$marker" $style $interpret --seconds "$seconds" "$@" || status=$?
    [ "$status" -le 1 ] || exit "$status"
}

status=0
[ -z "$all" ] || [ -n "$style" ] || style=--row
for number in $numbers; do
    [ $# -gt 0 ] || set -- "$(echo "$root/teaching/exercises/$number"_*.c)"
    for file; do
        mark "$number" "$file"
    done
    [ -z "$all" ] || shift
done
exit "$status"

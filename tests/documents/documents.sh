#!/bin/sh
# documents.sh PAGE COMPILER FLAG..., or documents.sh PAGE find_package [TARGET]: each block of C in a page compiles without a warning.
#   - A block with a main is a program. The test runs it, with $EMULATOR in a cross build; if another block follows immediately, it must equal the output.
#   - Programs that include tapehead/mpi.h are left out. With TAPEHEAD_MPI, mpi/page.sh runs them.
#   - Other blocks are pieces. PAGE.h beside this script has the declarations that they need.
# The FLAGS let the compiler find Tapehead and Check. With find_package CMake finds Tapehead, and programs (only these are compiled) link
# TARGET, tapehead::tapehead by default.
set -eu
page=$1 compiler=$2
shift 2
given=$(dirname "$0")/$(basename "$page" .md).h
case $([ "$compiler" = find_package ] && uname -m || "$compiler" -dumpmachine) in
x86_64*) # without fused multiply-add the numbers differ
    case " ${BUILT_ISAS:-avx2} " in
    *" avx2 "*) export TAPEHEAD_ISA=avx2 ;;
    esac
    ;;
esac
warnings="-std=c11 -Wall -Wextra -Wpedantic -Werror"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Writes the blocks of C to 1.c, 2.c ...; 2.expected is the block after the second one, indented or fenced as text.
awk -v work="$work" '
/^```c$/ { file = work "/" ++n ".c"; inside = 1; printf "" >file; next }
inside && /^```$/ { inside = 0; close(file); waiting = 1; next }
inside { print >file; next }
waiting && /^$/ { next }
waiting && (/^    / || /^```text$/) { waiting = 0; output = work "/" n ".expected"; fenced = /^```/; if (!fenced) print substr($0, 5) >output; next }
{ waiting = 0 }
output && fenced && /^```$/ { close(output); output = ""; next }
output && fenced { print >output; next }
output && /^    / { print substr($0, 5) >output; next }
output { close(output); output = "" }
END { print n + 0 >(work "/count") }' "$page"

program() { # program FLAG...: compiles and runs block n, and compares its output
    if [ "$compiler" = find_package ]; then
        cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(page LANGUAGES C)
find_package(tapehead REQUIRED)
add_executable(program$n $n.c)
target_link_libraries(program$n ${1:-tapehead::tapehead})
END
        { cmake -S "$work" -B "$work/build" -DCMAKE_C_FLAGS="$warnings" && cmake --build "$work/build"; } >"$work/log" 2>&1 ||
            { cat "$work/log"; return 1; }
        run=$work/build/program$n
    else
        "$compiler" $warnings "$work/$n.c" "$@" -o "$work/program$n"
        run=$work/program$n
    fi
    if ! (cd "$work" && ${EMULATOR:-} "$run") >"$work/printed"; then
        cat "$work/printed"
        grep -q "this processor has no AVX2" "$work/printed" && exit 77
        return 1
    fi
    [ ! -e "$work/$n.expected" ] || diff "$work/$n.expected" "$work/printed"
}

piece() { # piece FLAG...: compiles block n as the statements of a function, or as declarations
    for form in statements declarations; do
        {
            grep '^#include' "$work/$n.c" || true
            [ ! -e "$given" ] || cat "$given"
            [ $form = declarations ] || echo 'int piece(void); int piece(void) {'
            grep -v '^#include' "$work/$n.c"
            [ $form = declarations ] || echo 'return 0; }'
        } >"$work/$n.$form.c"
        "$compiler" $warnings -Wno-unused -fsyntax-only "$work/$n.$form.c" "$@" 2>"$work/$n.$form.log" && return
    done
    cat "$work/$n.statements.log" "$work/$n.declarations.log"
    return 1
}

programs=0 pieces=0 n=0
while [ $((n += 1)) -le "$(cat "$work/count")" ]; do
    if grep -q '^#include <tapehead/mpi\.h>' "$work/$n.c"; then
        continue
    elif grep -q '^int main' "$work/$n.c"; then
        programs=$((programs + 1))
        try=program
    elif [ "$compiler" = find_package ]; then
        continue
    else
        pieces=$((pieces + 1))
        try=piece
    fi
    $try "$@" || { echo "$page: block $n of C does not compile, or prints something else"; exit 1; }
done
[ $((programs + pieces)) -gt 0 ] || { echo "$page has no C"; exit 1; }
echo "$page: $programs programs print the output on the page, $pieces pieces compile"

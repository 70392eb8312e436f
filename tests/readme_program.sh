#!/bin/sh
# readme_program.sh COMPILER INCLUDE LIBRARY README: the program in README's section "A transformer" compiles without a warning, and
# prints what stands below it.
set -eu
compiler=$1 include=$2 library=$3 readme=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^## /{ wanted = ($0 == "## A transformer") } wanted && /^```$/{ code = 0 } code; wanted && /^```c$/{ code = 1 }' \
    "$readme" >"$work/program.c"
awk '/^## /{ wanted = ($0 == "## A transformer") } wanted && /^    step /{ print substr($0, 5) }' "$readme" >"$work/expected"
test -s "$work/program.c" && test -s "$work/expected"
"$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror -I "$include" "$work/program.c" "$library" -o "$work/program" \
    -Wl,-rpath,"$(dirname "$library")"
if ! TAPEHEAD_ISA=avx2 "$work/program" >"$work/printed"; then
    cat "$work/printed"
    grep -q "this processor has no AVX2" "$work/printed" && exit 77 # without fused multiply-add the losses are others
    exit 1
fi
diff "$work/expected" "$work/printed" && echo "README's program prints what README says"

#!/bin/sh
# instructions.sh PROGRAM COMPILER FIGURES [write]: valgrind counts the instructions of one training step of PROGRAM
# (tests/steps/small_step.c). The test compares the count with the figure for this compiler ("gcc-12") in the file FIGURES, and fails at
# a difference of 5 %. Too few fail too, because an old figure would hide the next slowdown. The count does not depend on the
# machine's speed or load. With "write" the count replaces the figure in the file.
set -eu
program=$1 compiler=$2 figures=$3 write=${4:-}
few=3 many=8 percent=5

skip() {
    echo "skipped: $1"
    exit 77
}
command -v valgrind >/dev/null || skip "valgrind is not installed (scripts/setup.sh installs it)"
export TAPEHEAD_ISA=avx2 TAPEHEAD_GEMM=native OMP_NUM_THREADS=1 LC_ALL=C
if ! complaint=$("$program" 1 1 2>&1); then
    case $complaint in
    *"this processor has no AVX2"* | *"this library was built without"* | *"TAPEHEAD_ISA must be neon"*) skip "$complaint" ;;
    esac
    echo "$complaint"
    exit 1
fi

count() { # count STEPS: prints the instructions of a whole run
    report=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" 1 2>&1 >/dev/null) ||
        { echo "$report" >&2; return 1; }
    echo "$report" | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}
# The difference of two runs, so that start and end do not count.
low=$(count $few)
high=$(count $many)
counted=$(((high - low) / (many - few)))

if [ "$write" = write ]; then
    { grep -v "^$compiler " "$figures" || true; echo "$compiler $counted"; } >"$figures.new"
    mv "$figures.new" "$figures"
    echo "$compiler $counted: written to $figures"
    exit 0
fi

expected=$(sed -n "s/^$compiler \([0-9]*\)$/\1/p" "$figures")
[ -n "$expected" ] || skip "$counted instructions a step with $compiler; $figures has no figure for it"
change=$(awk "BEGIN { printf \"%+.2f\", 100 * ($counted - $expected) / $expected }")
echo "$counted instructions a step with $compiler, $change % from $expected"
how="$0 $program $compiler $figures write"
if [ $((100 * counted)) -gt $(((100 + percent) * expected)) ]; then
    echo "A step takes over $percent % more instructions than before. If the change is worth it, write the new figure:"
    echo "    $how"
    exit 1
fi
if [ $((100 * counted)) -lt $(((100 - percent) * expected)) ]; then
    echo "A step takes over $percent % fewer instructions than before. Good: write the new figure:"
    echo "    $how"
    exit 1
fi

#!/bin/sh
# instructions.sh PROGRAM COMPILER FIGURES [write]: the instructions that one training step of PROGRAM (tests/small_step.c) takes, as
# valgrind counts them, against the figure for this compiler ("gcc-12") in the file FIGURES. 5 % more fail, and so do 5 % less: then the
# figure is out of date and would hide the next step back. The count depends on neither the machine's speed nor its load.
# With "write" the figure in the file is replaced by what is counted.
set -eu
program=$1 compiler=$2 figures=$3 write=${4:-}
few=3 many=8 percent=5

skip() {
    echo "skipped: $1"
    exit 77
}
command -v valgrind >/dev/null || skip "there is no valgrind here (scripts/setup.sh installs it)"
export TAPEHEAD_ISA=avx2 TAPEHEAD_GEMM=native OMP_NUM_THREADS=1 LC_ALL=C
if ! complaint=$("$program" 1 1 2>&1); then
    case $complaint in
    *"this processor has no AVX2"*) skip "$complaint" ;;
    esac
    echo "$complaint"
    exit 1
fi

count() { # count STEPS: prints the instructions of a whole run
    report=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" 1 2>&1 >/dev/null) ||
        { echo "$report" >&2; return 1; }
    echo "$report" | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}
# The difference of two runs, so that starting up and ending do not count.
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
[ -n "$expected" ] || skip "$counted instructions a step with $compiler, for which $figures has no figure"
change=$(awk "BEGIN { printf \"%+.2f\", 100 * ($counted - $expected) / $expected }")
echo "$counted instructions a step with $compiler, $change % from $expected"
how="$0 $program $compiler $figures write"
if [ $((100 * counted)) -gt $(((100 + percent) * expected)) ]; then
    echo "A step takes over $percent % more instructions than it did. If that is worth it, change the figure on purpose:"
    echo "    $how"
    exit 1
fi
if [ $((100 * counted)) -lt $(((100 - percent) * expected)) ]; then
    echo "A step takes over $percent % fewer instructions than it did. Good: keep it so by changing the figure:"
    echo "    $how"
    exit 1
fi

#!/bin/sh
# decode_instructions.sh PROGRAM: one generated token of PROGRAM (tests/steps/decode.c) takes at most 2.5 times as many instructions in
# bfloat16 as in float32. valgrind counts them with AVX2. A token is mostly products of one row, which wait for memory, even with
# twice the instructions. Kernels that copied B took three times as many.
set -eu
program=$1
few=3 many=7

skip() {
    echo "skipped: $1"
    exit 77
}
command -v valgrind >/dev/null || skip "valgrind is not installed (scripts/setup.sh installs it)"
export TAPEHEAD_ISA=avx2 TAPEHEAD_GEMM=native OMP_NUM_THREADS=1 LC_ALL=C
if ! complaint=$("$program" 1 float32 2>&1); then
    case $complaint in
    *"this processor has no AVX2"* | *"this library was built without"* | *"TAPEHEAD_ISA must be neon"*) skip "$complaint" ;;
    esac
    echo "$complaint"
    exit 1
fi

count() { # count TOKENS PRECISION: prints the instructions of a whole run
    report=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" "$2" 2>&1 >/dev/null) ||
        { echo "$report" >&2; return 1; }
    echo "$report" | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}
token() { # token PRECISION: the difference of two runs, so that start and end do not count
    low=$(count $few "$1")
    high=$(count $many "$1")
    echo $(((high - low) / (many - few)))
}
float32=$(token float32)
bfloat16=$(token bfloat16)
echo "$float32 instructions a token in float32, $bfloat16 in bfloat16"
[ $((2 * bfloat16)) -le $((5 * float32)) ]

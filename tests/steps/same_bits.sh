#!/bin/sh
# same_bits.sh PROGRAM [ARGUMENT...]: a program that trains a model prints the same parameters_crc32c in all of these runs:
#   - with 1, 2, 3 and 4 threads, and a second time
#   - with each instruction set of this processor that has fused multiply-add
# With OpenBLAS too, all numbers of threads give one checksum. The test runs the program in an empty directory, with the number of
# threads as the last argument.
set -eu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"

crc() { # crc THREADS VARIABLES PROGRAM [ARGUMENT...]: prints the checksum of a run; VARIABLES: "" or NAME=value
    threads=$1 variables=$2
    shift 2
    env ${variables:+"$variables"} "$@" "$threads" | sed -n 's/.*parameters_crc32c=//p'
}

status=0
expect() { # expect WANTED GOT WHAT
    if [ -z "$2" ] || [ "$1" != "$2" ]; then
        echo "$3: $2, not $1"
        status=1
    fi
}

first=$(crc 1 "" "$@")
for threads in 1 2 3 4; do
    expect "$first" "$(crc "$threads" "" "$@")" "$threads threads"
done
openblas=$(crc 1 TAPEHEAD_GEMM=openblas "$@")
for threads in 2 3 4; do
    expect "$openblas" "$(crc "$threads" TAPEHEAD_GEMM=openblas "$@")" "OpenBLAS, $threads threads"
done
for isa in avx2 avx512 avx512_bf16 amx; do
    if env TAPEHEAD_ISA=$isa "$@" 1 >/dev/null 2>&1; then
        expect "$first" "$(crc 2 TAPEHEAD_ISA=$isa "$@")" "$isa"
    else
        echo "this processor has no $isa: not compared"
    fi
done
echo "parameters_crc32c=$first"
exit $status

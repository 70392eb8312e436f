#!/bin/sh
# same_bits.sh COPY_TASK: the parameters after some steps of the copy task have the same bits with 1, 2, 3 and 4 threads, in a second
# run, and on every instruction set with fused multiply-add that this processor has; through OpenBLAS, with any number of threads.
set -eu
program=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

crc() { # crc THREADS [VARIABLE=value...]: prints the checksum of a short run
    threads=$1
    shift
    env "$@" "$program" --quiet --steps 15 --dropout 0.1 --threads "$threads" --out "$out" | sed -n 's/.*parameters_crc32c=//p'
}

status=0
expect() { # expect WANTED GOT WHAT
    if [ -z "$2" ] || [ "$1" != "$2" ]; then
        echo "$3: $2, not $1"
        status=1
    fi
}

first=$(crc 1)
for threads in 1 2 3 4; do
    expect "$first" "$(crc "$threads")" "$threads threads"
done
openblas=$(crc 1 TAPEHEAD_GEMM=openblas)
for threads in 2 3 4; do
    expect "$openblas" "$(crc "$threads" TAPEHEAD_GEMM=openblas)" "OpenBLAS, $threads threads"
done
for isa in avx2 avx512; do
    if env TAPEHEAD_ISA=$isa "$program" --quiet --steps 1 --out "$out" >/dev/null 2>&1; then
        expect "$first" "$(crc 2 TAPEHEAD_ISA=$isa)" "$isa"
    else
        echo "this processor has no $isa: not compared"
    fi
done
echo "parameters_crc32c=$first"
exit $status

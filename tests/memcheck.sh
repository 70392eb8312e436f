#!/bin/sh
# memcheck.sh PROGRAM: runs PROGRAM (tests/memcheck.c) under valgrind. valgrind reports every branch on an uninitialized value, and
# every access outside allocated memory. It does not support AVX-512, so this tests AVX2.
set -eu
program=$1

skip() {
    echo "skipped: $1"
    exit 77
}
command -v valgrind >/dev/null || skip "valgrind is not installed (scripts/setup.sh installs it)"
export TAPEHEAD_ISA=avx2 TAPEHEAD_GEMM=native OMP_NUM_THREADS=1 LC_ALL=C
if ! complaint=$("$program" 2>&1); then
    case $complaint in
    *"this processor has no AVX2"*) skip "$complaint" ;;
    esac
    echo "$complaint"
    exit 1
fi
valgrind --quiet --error-exitcode=1 --leak-check=no "$program"

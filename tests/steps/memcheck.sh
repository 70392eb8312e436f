#!/bin/sh
# memcheck.sh PROGRAM: runs PROGRAM (tests/steps/memcheck.c or a suite) under valgrind. valgrind reports every branch on an uninitialized
# value, every access outside allocated memory, and lost memory. It does not support AVX-512, so this tests AVX2.
set -eu

command -v valgrind >/dev/null || {
    echo "skipped: valgrind is not installed (scripts/setup.sh installs it)"
    exit 77
}
export TAPEHEAD_ISA=avx2 TAPEHEAD_GEMM=native OMP_NUM_THREADS=1 LC_ALL=C
exec "$(dirname "$0")/../support/with_isa.sh" valgrind --quiet --error-exitcode=1 --leak-check=full --errors-for-leak-kinds=definite \
    --show-leak-kinds=definite "$1"

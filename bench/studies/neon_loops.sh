#!/bin/sh
# neon_loops.sh: predicts with llvm-mca how fast the innermost loops of the NEON kernels run on two processors, Neoverse N1 and V1.
# Builds the core library for aarch64 in build/neon-loops, finds the loops in its instructions, and writes bench/results/neon.md.
# Installs the cross compiler and llvm-mca (scripts/setup.sh mca). No aarch64 processor is necessary, and nothing is measured.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/library/help.sh"
answer_help "$@"
[ $# -eq 0 ] || refuse "unknown option $1"
build=$root/build/neon-loops
page=$root/bench/results/neon.md

"$root/scripts/setup.sh" mca
cmake -S "$root" -B "$build" --toolchain "$root/cmake/toolchains/aarch64-linux-gnu.cmake" -DCMAKE_BUILD_TYPE=Release \
    -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=OFF >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target tapehead_static >/dev/null

PYTHONPATH=$root/bench PYTHONDONTWRITEBYTECODE=1 python3 "$root/bench/studies/neon_loops.py" --library "$build/libtapehead.a" \
    --compiler "gcc $(aarch64-linux-gnu-gcc -dumpfullversion)" >"$build/neon.md"
mv "$build/neon.md" "$page"
print_written "$page"
print_next ../../scripts/platforms/cross.sh aarch64 kernels

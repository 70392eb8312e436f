#!/bin/sh
# team_clang.sh SOURCE: the tests of teams, compiled with clang and linked with its OpenMP, without a sanitizer. (The sanitizers
# change the timing of threads, and leave out tests that need fork or much address space.) The test compiles only the files that
# teams need.
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '#include <omp.h>
      int main(void) { return omp_get_max_threads() < 1; }' >"$work/probe.c"
if ! clang -fopenmp "$work/probe.c" -o "$work/probe" 2>/dev/null; then
    echo "skipped: there is no clang with OpenMP (scripts/setup.sh installs it)"
    exit 77
fi

machine=src/kernels/machine
compile="clang -std=c11 -O2 -fopenmp -D_GNU_SOURCE -DTIME_LIMIT=\"3000\" -Isrc -Itests $(pkg-config --cflags check)"
for file in $machine/team.c $machine/parallel.c $machine/processors.c $machine/locks.c tests/time_limit.c; do
    $compile -c "$file" -o "$work/$(basename "$file" .c).o"
done
ar rcs "$work/team.a" "$work"/*.o
for test in test_team test_parallel; do
    # shellcheck disable=SC2046 # a list of options
    $compile "tests/$test.c" "$work/time_limit.o" "$work/team.a" -o "$work/$test" $(pkg-config --libs check) -lm
    "$work/$test"
done
ldd "$work/test_team" | grep libomp # it must not be gcc's

#!/bin/sh
# team_apart.sh SOURCE COMPILER [openmp]: the tests of teams, compiled apart from the build and without a sanitizer: with the compiler's
# OpenMP, or with POSIX threads alone. (The sanitizers change the timing of threads, and leave out tests that need fork or much
# address space.) The test compiles only the files that teams need.
set -eu
cd "$1"
cc=$2 openmp=
[ "${3:-}" != openmp ] || openmp="-fopenmp -DTAPEHEAD_OPENMP"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'int main(void) { return 0; }' >"$work/probe.c"
# shellcheck disable=SC2086 # a list of options
if ! "$cc" $openmp "$work/probe.c" -o "$work/probe" 2>/dev/null; then
    echo "skipped: there is no $cc${openmp:+ with OpenMP} (scripts/setup.sh installs it)"
    exit 77
fi

machine=src/kernels/machine
compile="$cc -std=c11 -O2 $openmp -D_GNU_SOURCE -DTIME_LIMIT=\"3000\" -Isrc -Itests/support $(pkg-config --cflags check)"
for file in $machine/team.c $machine/parallel.c $machine/processors.c $machine/openmp*.c $machine/locks.c src/platform/*.c tests/support/time_limit.c; do
    $compile -c "$file" -o "$work/$(basename "$file" .c).o"
done
ar rcs "$work/team.a" "$work"/*.o
check="$(pkg-config --libs check) -Wl,-rpath,$(pkg-config --variable=libdir check)"
for test in test_team test_parallel test_processors; do
    # shellcheck disable=SC2086 # a list of options
    $compile "tests/kernels/$test.c" "$work/time_limit.o" "$work/team.a" -o "$work/$test" $check -lm
    "$work/$test"
done
# clang's OpenMP, not gcc's; or none
readelf -d "$work/test_team" | grep NEEDED >"$work/libraries"
case $openmp in
'') ! grep -E 'lib[a-z]*omp\.so' "$work/libraries" ;;
*) grep libomp "$work/libraries" ;;
esac

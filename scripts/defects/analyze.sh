#!/bin/sh
# analyze.sh [gcc|tidy|cppcheck|memcheck|test_NAME]...: looks for defects with tools. Without an argument all four run.
#   gcc        gcc's static analyzer (-fanalyzer): libraries, examples, programs, benchmark
#   tidy       clang-tidy with the checks of .clang-tidy: the same files
#   cppcheck   cppcheck: the same files and the tests
#   memcheck   valgrind on all suites except those in scripts/defects/analyze/not_run.txt, with leaks, with the instruction set AVX2
#   test_NAME  valgrind on this suite, whatever that file says
# A finding makes the script fail, unless scripts/defects/analyze/accepted.txt has a reason to keep it. On two cores, gcc
# and tidy take half a minute each and cppcheck 15 s. memcheck takes much longer: up to a minute for a suite.
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
here=$root/scripts/defects/analyze
. "$root/scripts/library/help.sh"
answer_help "$@"
[ $# -gt 0 ] || set -- gcc tidy cppcheck memcheck
for tool; do
    case $tool in
    gcc | tidy | cppcheck | memcheck) ;;
    test_*) [ -n "$(find "$root/tests" -name "$tool.c")" ] || refuse "there is no suite called $tool" ;;
    *) refuse "$tool is not one of gcc, tidy, cppcheck, memcheck and the names of suites" ;;
    esac
done
case $* in
cppcheck) "$root/scripts/setup.sh" test ;; # (CI runs this one)
*) "$root/scripts/setup.sh" audit ;;
esac
build=${TAPEHEAD_ANALYZE_BUILD:-$root/build/analyze}
mkdir -p "$build"

# -- static analysis --

# findings TOOL <OUTPUT: prints the findings that are not accepted, and fails if there is one.
findings() {
    awk -v tool="$1" -v root="$root" -f "$here/findings.awk" "$here/accepted.txt" -
}

# configure COMPILER: configures all programs without building them, and prints the directory.
configure() {
    cmake -S "$root" -B "$build/$1" -DCMAKE_C_COMPILER="$1" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BENCH=ON -DTAPEHEAD_TESTS=OFF \
        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >"$build/$1.log" || {
        cat "$build/$1.log" >&2
        return 1
    }
    echo "$build/$1"
}

analyze_gcc() {
    commands=$(configure gcc) && python3 "$here/compile.py" gcc "$commands" >"$build/gcc.txt" && findings gcc <"$build/gcc.txt"
}

analyze_tidy() {
    commands=$(configure clang) && python3 "$here/compile.py" clang-tidy "$commands" >"$build/tidy.txt" &&
        findings tidy <"$build/tidy.txt"
}

# cppcheck reads each file as it is compiled for AVX2 and float32. It would need minutes for the lists *.inc, which have the bytes of
# embedded files.
analyze_cppcheck() {
    commands=$(configure gcc) || return 1
    rm -rf "$build/lists"
    mkdir "$build/lists"
    cp "$commands"/lists/*.def "$build/lists/"
    (
        cd "$root"
        cppcheck -j "$(nproc)" --enable=warning,performance,portability --std=c11 --max-configs=1 \
            --template='{file}:{line}:{column}: {severity}: {message} [{id}]' -I include -I src -I tests/support -I examples -I programs -I "$build/lists" \
            -D_GNU_SOURCE -DTAPEHEAD_NO_LOCATIONS -DTAPEHEAD_TILES '-DTAPEHEAD_VERSION="0"' '-DFIXTURES=""' '-DPLUGIN=""' \
            -DTIME_LIMIT='"1"' -DTH_VECTOR_BYTES=32 -DTH_VECTOR_REGISTERS=16 -DTH_FUSED=1 -DTH_REAL_BITS=32 -DTH_INSTANCE=f32_avx2 -D__AVX2__=1 -D__FMA__=1 \
            -D__x86_64__=1 src examples programs teaching/lessons bench tests 2>&1
    ) | sed -e '/^Checking /d' -e 's|^\([0-9]*\)/\1 files checked.*|analyzed: \1|' -e '/^[0-9/]* files checked /d' \
        >"$build/cppcheck.txt"
    findings cppcheck <"$build/cppcheck.txt"
}

# -- valgrind --

# Builds the suites, and prints the directory that has them.
build_suites() {
    tests=$("$root/scripts/library/configure.sh" -DTAPEHEAD_TESTS=ON -DTAPEHEAD_ISAS=all) &&
        cmake --build "$tests" --parallel "$(nproc)" >"$build/memcheck.log" || {
        cat "$build/memcheck.log" >&2
        return 1
    }
    echo "$tests/tests"
}

# run_memcheck SUITE: runs it under valgrind. Prints its output and its reports if a check fails or valgrind reports something.
run_memcheck() {
    rm -f "$build"/memcheck.*.txt
    start=$(date +%s) status=0
    (cd "$suites" && valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
        --show-leak-kinds=definite --log-file="$build/memcheck.%p.txt" "./$1") >"$build/memcheck.out" 2>&1 || status=$?
    [ "$status" -ne 77 ] || status=0
    if [ "$status" -ne 0 ]; then
        cat "$build/memcheck.out" "$build"/memcheck.*.txt
        failed_suites="$failed_suites $1"
    fi
    echo "memcheck: $1: $(sed -n 's/^\(100%: .*\)/\1/p' "$build/memcheck.out"), $(($(date +%s) - start)) s"
}

# analyze_memory [SUITE]: runs this suite, or all that not_run.txt does not list.
analyze_memory() {
    suites=$(build_suites) || return 1
    failed_suites=
    export TAPEHEAD_ISA=avx2 OMP_NUM_THREADS=2 LC_ALL=C
    for suite in $(find "$root/tests" -name "${1:-test_*}.c" -exec basename {} .c \; | sort); do
        [ -x "$suites/$suite" ] || continue
        if [ $# -gt 0 ] || ! grep "^$suite " "$here/not_run.txt" | sed 's/^\([^ ]*\) *| */memcheck: \1: not run: /' | grep .; then
            run_memcheck "$suite"
        fi
    done
    [ -z "$failed_suites" ] || echo "memcheck: FAILED:$failed_suites"
    [ -z "$failed_suites" ]
}

# -- all of them --

failed=
for tool; do
    case $tool in
    memcheck) analyze_memory ;;
    test_*) analyze_memory "$tool" ;;
    *) "analyze_$tool" ;;
    esac || failed="$failed $tool"
done
if [ -n "$failed" ]; then
    echo "analyze.sh: FAILED:$failed (the whole output is in $build)" >&2
    exit 1
fi

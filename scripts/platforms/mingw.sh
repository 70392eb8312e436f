#!/bin/sh
# mingw.sh [OPTION...] [example|test|programs|msvc] [COMPILER OPTION...]: builds for Windows on x86-64 with Debian's cross compiler mingw-w64, and
# runs programs in Wine.
#   example   compiles the two files of scripts/amalgamate.sh, and trains with examples/two_files. The same program for this machine must print
#             the same output, with the same bits. The program may need only libraries that Windows has
#   test      (the default) that, and then the quick tests of the core that use only the C library
#   programs  builds both libraries and the program language_model with CMake, and runs its subcommands beside the same program for this machine
#             (windows_programs.sh): the same output, the same bits, the same files
#   msvc      clang's front end reads both libraries and the program as for MSVC, with the headers of mingw-w64
# The options of the compiler are those of tapehead.c, such as -DTAPEHEAD_NO_AVX512, which saves compile time.
# --build DIR  builds in this directory instead of build-mingw
# --fresh      builds Check, jansson and utf8proc again
#
# Installs the compiler and Wine. The three libraries are compiled from this Debian's source packages; they stay in $XDG_CACHE_HOME/tapehead.
# Exits with 77 and prints the reason if the sources cannot be downloaded.
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$root/scripts/library/help.sh"
build=$root/build-mingw fresh='' what=test
answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --build)
        need_value "$@"
        build=$2
        shift
        ;;
    --fresh) fresh=yes ;;
    example | test | programs | msvc) what=$1 ;;
    -[DO]*) break ;;
    *) refuse "$1 is not an option, nor one of example, test, programs and msvc" ;;
    esac
    shift
done
"$root/scripts/setup.sh" mingw
mkdir -p "$build"
build=$(cd "$build" && pwd)
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
cc=x86_64-w64-mingw32-gcc
export WINEPREFIX="$build/wine" WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml='

fail() {
    printf '%s\n' "$*"
    exit 1
}

# run PROGRAM WORD...: runs a program of Windows; its lines end as those of this machine.
run() {
    status=0
    wine "$@" >"$work/output" 2>"$work/errors" </dev/null || status=$?
    tr -d '\r' <"$work/output"
    [ $status -eq 0 ] || tr -d '\r' <"$work/errors"
    return $status
}

# quiet COMMAND...: fails if the command fails or prints anything.
quiet() {
    "$@" >"$work/said" 2>&1 && [ ! -s "$work/said" ] || fail "$(head -n 20 "$work/said")"
}

# -- Check, jansson and utf8proc --

. "$root/scripts/library/source_packages.sh"
target=Windows
libraries=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tapehead/mingw
need_libraries() {
    [ -z "$fresh" ] || rm -rf --one-file-system "$libraries"
    if [ -e "$libraries/include/utf8proc.h" ]; then
        return
    fi
    download_sources check jansson utf8proc
    set -- -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=$cc
    build_library check "$@" -DBUILD_TESTING=OFF -DCHECK_ENABLE_TESTS=OFF -DCHECK_ENABLE_SUBUNIT=OFF
    build_library jansson "$@" -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF
    build_library utf8proc "$@"
    keep_libraries
}

# lists DIRECTORY: configures a build for this machine there, for the lists that the sources include.
lists() {
    cmake -S "$root" -B "$1" -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_OPENMP=OFF -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=OFF >/dev/null
    dirname "$(find "$1" -name kernels.def)"
}

# -- the tests --

# compile WORD...: calls the compiler with the options of tests.
compile() {
    $cc -std=c11 -O1 -ffp-contract=off -UNDEBUG -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DFIXTURES=\"Z:$root/tests/fixtures\" -I"$root/include" \
        -I"$root/src" -I"$root/tests/support" -I"$lists" -isystem "$libraries/include" "$@"
}

# Tests of the models library that need neither folders nor functions of the GNU C library.
of_models="test_posix_calls test_errors test_generate_choices test_generate_lengths test_jinja test_merges test_pattern_syntax test_sampling
    test_tune_stop"

# run_tests core|models FILE...: runs tests in Wine, linked with these files: the quick tests of the core, or those of the models library.
run_tests() {
    part=$1
    shift
    linked=$* passed=0
    quick=$(sed -n '/^set(TAPEHEAD_TESTS_QUICK/,/^)/s/^ *\(test_[a-z0-9_]*\)$/\1/p' "$root/tests/CMakeLists.txt")
    posix=
    [ $part = core ] || {
        quick=$of_models
        posix="-include $root/src/models/posix/posix.h" # tests use more calls of POSIX than mingw-w64 has
    }
    cd "$work"
    for name in $quick; do
        source=$(find "$root/tests" -name "$name.c")
        uses=core
        ! grep -qE '#include [<"](tapehead/models\.h|models/)' "$source" || uses=models
        [ $uses = $part ] || continue
        case $name in
        test_attention_kernel) set -- "$source" "$root/tests/kernels/attention_cases.c" "$root/tests/kernels/attention_checks.c" ;;
        *) set -- "$source" ;;
        esac
        # shellcheck disable=SC2086 # lists of words
        compile $posix -M "$@" >"$work/said" 2>&1 || { echo "$name: left out, $(sed -n '/error: /{ s/.*error: //p; q }' "$work/said")"; continue; }
        if [ $part = core ] && grep -E '(open_memstream|setenv|pthread_create)\(|"(instances|tile_[a-z]*)\.h"' "$source" >"$work/said"; then
            echo "$name: left out, it needs $(sed -n '1s/^ *//p' "$work/said")"
            continue
        fi
        # shellcheck disable=SC2086
        compile $posix "$@" $linked -o "$work/test.exe" -L"$libraries/lib" -lcheck -lpthread -static >"$work/said" 2>&1 ||
            fail "$name: $(head -n 20 "$work/said")"
        CK_FORK=no CK_DEFAULT_TIMEOUT=0 run "$work/test.exe" >"$work/result" || fail "$name: $(tail -n 20 "$work/result")"
        echo "$name: $(grep '^100%' "$work/result" || tail -n 1 "$work/result")"
        passed=$((passed + 1))
    done
    echo "$passed programs of tests pass in $(wine --version)"
}

case $what in
programs)
    need_libraries
    program=$("$root/scripts/library/configure.sh")
    cmake --build "$program" --parallel "$(nproc)" --target language_model >/dev/null
    "$root/scripts/platforms/windows_programs.sh" "$libraries" "$build/programs" "$program/programs/language_model"
    lists=$build/programs/lists
    run_tests models "$build/programs/libtapehead_models.a" "$build/programs/libtapehead.a" -ljansson -lutf8proc
    exit
    ;;
msvc)
    need_libraries
    "$root/scripts/platforms/msvc_front_end.sh" "$libraries" "$(lists "$build/lists")"
    exit
    ;;
esac

# -- the example --

files=$build/files
"$root/scripts/amalgamate.sh" "$files" >/dev/null 2>&1
start=$(date +%s)
quiet $cc -O2 -Wall -Wextra "$@" -c "$files/tapehead.c" -o "$build/tapehead.o"
echo "$($cc --version | head -n 1): $(($(date +%s) - start)) s, $(size "$build/tapehead.o" | awk 'NR == 2 { print $1 }') bytes of code"
quiet $cc -O2 -Wall -Wextra -I"$files" "$root/examples/two_files/app.c" "$build/tapehead.o" -o "$build/app.exe"
x86_64-w64-mingw32-objdump -p "$build/app.exe" | awk '/DLL Name/ { print $3 }' >"$work/libraries"
! grep -viE '^(kernel32|msvcrt|ucrtbase|api-ms-win-.*)\.dll$' "$work/libraries" || fail "the program needs these libraries too"
cc -O2 "$@" -c "$files/tapehead.c" -o "$build/here.o"
cc -O2 -I"$files" "$root/examples/two_files/app.c" "$build/here.o" -o "$build/app" -lm -lpthread
export TAPEHEAD_GEMM=native # this machine may have OpenBLAS, which Wine does not find
for isa in automatic baseline avx2; do
    [ $isa = automatic ] || export TAPEHEAD_ISA=$isa
    if ! "$build/app" >"$work/here" 2>"$work/errors"; then
        grep "TAPEHEAD_ISA is $isa" "$work/errors" || fail "$(tail -n 5 "$work/errors")"
        continue
    fi
    run "$build/app.exe" >"$work/there" || fail "$(tail -n 5 "$work/there")"
    cmp "$work/here" "$work/there" || fail "the example has other output in Wine"
    echo "$(wine --version), instruction set $isa: $(tail -n 1 "$work/there")"
done
unset TAPEHEAD_ISA TAPEHEAD_GEMM
[ $what = test ] || exit 0

need_libraries
lists=$(lists "$build/lists")
run_tests core "$build/tapehead.o"

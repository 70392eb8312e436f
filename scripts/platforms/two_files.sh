#!/bin/sh
# two_files.sh [--build DIR] [COMPILER...]: builds the two files of scripts/amalgamate.sh as a program does, with each compiler, and tests
# them. The default is every gcc and clang that is installed. For each compiler the script checks that
#   - the front end has no warning about the source in C11 and C17, and about the header in C++17, of the core and of both libraries
#   - the example examples/two_files trains to the same checksum with all instruction sets, with one, and with parts left out
#   - for 32-bit processors (-m32) it trains to the checksum of x86-64 without fused multiply-add, if the compiler has the files for it
#   - with the files of both libraries, examples/two_files/write.c trains, writes a GGUF file and continues a text, and the program
#     language_model trains and samples (if jansson and utf8proc are installed)
#   - the quick tests of the core pass with a library that is compiled from the two files (TAPEHEAD_TWO_FILES of CMakeLists.txt).
# Prints compile times (seconds of a processor) and sizes. DIR is build-two-files by default. A compiler takes 5 to 10 minutes on two cores.
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
build=$root/build-two-files
if [ "${1-}" = --build ]; then
    need_value "$@"
    build=$2
    shift 2
fi
case ${1-} in
-*) refuse "$1 is not an option" ;;
esac
if [ $# -eq 0 ]; then
    for number in 11 12 13 14 15 16 17 18 19 20 21 22; do
        for name in gcc clang; do
            if command -v $name-$number >/dev/null; then set -- "$@" $name-$number; fi
        done
    done
fi
[ $# -gt 0 ] || set -- cc

mkdir -p "$build"
files=$build/files
"$root/scripts/amalgamate.sh" "$files" 2>/dev/null
"$root/scripts/amalgamate.sh" --models "$files/both" 2>/dev/null

say() {
    printf '== %s: %s\n' "$compiler" "$*"
}
fail() {
    say "$*"
    exit 1
}

# checks WHAT COMMAND...: fails if the command fails or prints anything.
checks() {
    what=$1
    shift
    "$@" >"$build/said" 2>&1 && [ ! -s "$build/said" ] || { head -n 20 "$build/said"; fail "$what"; }
}

has_models() {
    printf '#include <jansson.h>\n#include <utf8proc.h>\nint main(void) { return 0; }\n' |
        "$compiler" -x c - -ljansson -lutf8proc -o "$build/needed" 2>"$build/said"
}

# warnings FOLDER
warnings() {
    for standard in c11 c17; do
        checks "warnings in $standard" "$compiler" -std=$standard -Wall -Wextra -Wpedantic -Wshadow -Wconversion -fsyntax-only \
            "$1/tapehead.c"
    done
    checks "warnings in C++17" "$compiler" -x c++ -std=c++17 -Wall -Wextra -Wpedantic -Wshadow -fsyntax-only -include "$1/tapehead.h" \
        /dev/null
    say "no warnings in $1"
}

# Both libraries: one instruction set, because the other functions compile the others.
models() {
    folder=$build/$compiler-models
    mkdir -p "$folder"
    checks "compiling both libraries" "$compiler" -O2 -march=native -DTAPEHEAD_NATIVE -c "$files/both/tapehead.c" -o "$folder/tapehead.o"
    "$compiler" -O2 -I"$files/both" "$root/examples/two_files/write.c" "$folder/tapehead.o" -o "$folder/write" -ljansson -lutf8proc -lm -lpthread
    (cd "$folder" && TAPEHEAD_GEMM=native ./write) || fail "examples/two_files/write.c fails"
    "$compiler" -O2 -D_GNU_SOURCE -I"$root/include" -I"$root/examples" -I"$root/programs" "$root"/programs/language_model/*.c "$root"/programs/shared/*.c \
        "$folder/tapehead.o" -o "$folder/language_model" -ljansson -lutf8proc -lm -lpthread
    rm -rf "$folder/run"
    "$folder/language_model" train "$root/ARCHITECTURE.md" "$folder/run" --steps 20 >"$folder/said" 2>&1 || { cat "$folder/said"; fail "language_model train fails"; }
    "$folder/language_model" sample "$folder/run" >"$folder/said" 2>&1 || { cat "$folder/said"; fail "language_model sample fails"; }
    say "both libraries: $(size "$folder/tapehead.o" | awk 'NR == 2 { print $1 }') bytes of code, language_model trains and samples"
}

# processor_seconds: sets `seconds` to the processor time of all commands until now.
processor_seconds() {
    times >"$build/times"
    seconds=$(awk 'NR == 2 { split($0, part, /[ms ]+/); printf "%d", 60 * (part[1] + part[3]) + part[2] + part[4] }' "$build/times")
}

# example NAME OPTION...: compiles the example with these options and trains it. Prints the seconds and bytes of code.
example() {
    folder=$build/$compiler-$1
    shift
    mkdir -p "$folder"
    processor_seconds
    start=$seconds
    checks "compiling with $*" "$compiler" -O2 "$@" -c "$files/tapehead.c" -o "$folder/tapehead.o"
    processor_seconds
    seconds=$((seconds - start))
    "$compiler" "$@" -I"$files" "$root/examples/two_files/app.c" "$folder/tapehead.o" -o "$folder/app" -Wl,--gc-sections -lm -lpthread
    strip "$folder/app" -o "$folder/app.stripped"
    TAPEHEAD_GEMM=native "$folder/app" >"$folder/output" || fail "the example fails with $*"
    say "options ${*:-(none)}: $seconds s, $(stat -c %s "$folder/app.stripped") bytes of program, $(size "$folder/tapehead.o" | awk 'NR == 2 { print $1 }') bytes of code, $(tail -n 1 "$folder/output")"
}

quick_tests() {
    cmake -S "$root" -B "$build/$compiler" -DCMAKE_C_COMPILER="$compiler" -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_OPENMP=OFF \
        -DTAPEHEAD_TWO_FILES="$files" >/dev/null
    cmake --build "$build/$compiler" --target tapehead_quick --parallel "$(nproc)" >"$build/$compiler.log" 2>&1 ||
        { tail -n 20 "$build/$compiler.log"; fail "the tests cannot be compiled"; }
    ctest --test-dir "$build/$compiler" -L quick --output-on-failure
}

for compiler; do
    warnings "$files"
    if has_models; then
        warnings "$files/both"
        models
    fi
    example all
    example native -march=native -DTAPEHEAD_NATIVE
    example smallest -Os -ffunction-sections -fdata-sections -DTAPEHEAD_NO_BASELINE -DTAPEHEAD_NO_AVX512 -DTAPEHEAD_NO_EXPORT \
        -DTAPEHEAD_NO_CHECKER -DTAPEHEAD_NO_FLOAT64 -DTAPEHEAD_NO_STORAGE_TYPES -DTAPEHEAD_NO_PRECISIONS
    for kind in native smallest; do
        cmp "$build/$compiler-all/output" "$build/$compiler-$kind/output" || fail "the example has other bits when it is $kind"
    done
    small="-m32 -idirafter /usr/include/$("$compiler" -print-multiarch)"
    # shellcheck disable=SC2086 # words
    if printf '#include <errno.h>\nint main(void) { return errno; }\n' | "$compiler" $small -x c - -o "$build/small" 2>"$build/said"; then
        example unfused -DTAPEHEAD_NO_AVX2 -DTAPEHEAD_NO_AVX512
        example small $small
        cmp "$build/$compiler-unfused/output" "$build/$compiler-small/output" || fail "the example has other bits with 32 bits"
    fi
    quick_tests
done

#!/bin/sh
# readme_program.sh README COMPILER FLAG..., or readme_program.sh README find_package: README's pieces of C compile without a
# warning, and the program in its section "A transformer" prints what stands below it. FLAGS are what a user gives the compiler to
# find Tapehead and Check; with find_package CMake does it.
set -eu
readme=$1 compiler=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

piece() { # piece SECTION: the C code in a section of README, blocks joined
    awk -v section="## $1" '/^## / { inside = ($0 == section) } inside && /^```$/ { code = 0 } inside && code
        inside && /^```c$/ { code = 1 }' "$readme" | grep .
}

# What the text around the pieces leaves to the reader.
{
    echo '#include <stdint.h>'
    piece "A training loop" | grep '^#include'
    echo 'extern int64_t steps;
        extern th_tensor *tokens, *targets, *x;
        extern th_module *layer;
        th_tensor *my_layer(void *layer, th_tensor *x);
        th_module *copy_model_new(th_context *ctx);
        void fill_batch(th_tensor *tokens, th_tensor *targets, int64_t step);
        int report(const char *sentence);
        int train(void);
        int train(void)
        {'
    piece "A training loop" | grep -v '^#include\|ck_assert'
    echo 'return 0; }'
} >"$work/loop.c"
{
    sed '/^int train(void)/,$d' "$work/loop.c"
    piece "A training loop" | grep '^#include <tapehead/check.h>'
    echo 'void check(void);
        void check(void)
        {'
    piece "A training loop" | grep 'ck_assert'
    echo '}'
} >"$work/check.c"
piece "A transformer" >"$work/program.c"
awk '/^## /{ wanted = ($0 == "## A transformer") } wanted && /^    step /{ print substr($0, 5) }' "$readme" >"$work/expected"
test -s "$work/expected"

warnings="-std=c11 -Wall -Wextra -Wpedantic -Werror"
if [ "$compiler" = find_package ]; then
    cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(readme LANGUAGES C)
find_package(tapehead REQUIRED)
add_executable(program program.c)
target_link_libraries(program tapehead::tapehead)
END
    cmake -S "$work" -B "$work/build" -DCMAKE_C_FLAGS="$warnings" >"$work/log" && cmake --build "$work/build" >>"$work/log" ||
        { cat "$work/log"; exit 1; }
    program=$work/build/program
else
    for piece in loop check; do
        "$compiler" $warnings -shared -fPIC "$work/$piece.c" "$@" -o "$work/$piece.so"
    done
    program=$work/program
    "$compiler" $warnings "$work/program.c" "$@" -o "$program"
fi
if ! TAPEHEAD_ISA=avx2 "$program" >"$work/printed"; then
    cat "$work/printed"
    grep -q "this processor has no AVX2" "$work/printed" && exit 77 # without fused multiply-add the losses are others
    exit 1
fi
diff "$work/expected" "$work/printed" && echo "README's program prints what README says"

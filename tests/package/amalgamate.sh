#!/bin/sh
# amalgamate.sh SOURCE CC CXX PART: scripts/amalgamate.sh --check makes two files with less than 4,000 lines. PART is
#     files       they compile as C99 and C++17 without a warning, and need only libm
#     32          the same with 32-bit addresses
#     googletest  a test of GoogleTest uses them with EXPECT_FUNCTION_GRADIENT
# The programs accept a right gradient and reject a wrong one.
set -eu
source=$1 cc=$2 cxx=$3 part=$4
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
sh "$source/scripts/amalgamate.sh" --check "$work"
lines=$(cat "$work/tapehead_check.c" "$work/tapehead_check.h" | wc -l)
[ "$lines" -lt 4000 ] || { echo "tapehead_check.c and tapehead_check.h have $lines lines; the limit is 4,000"; exit 1; }
warnings="-Wall -Wextra -Wpedantic -Werror"
cat >"$work/test.c" <<'END'
#include "tapehead_check.h"
static int forward(void *user, const th_buffer *in, th_buffer *out)
{
    const double *x = (const double *)in->data;
    double *y = (double *)out->data;
    for (int64_t i = 0; i < in->numel; i++)
        y[i] = x[i] * x[i] * x[i];
    return user == NULL;
}
static int backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    const double *x = (const double *)in->data, *dy = (const double *)dout->data;
    double *dx = (double *)din->data;
    for (int64_t i = 0; i < in->numel; i++)
        dx[i] = *(const double *)user * x[i] * x[i] * dy[i];
    return out == NULL;
}
int main(int count, char **words)
{
    double right = 3, wrong = 2;
    const th_port in[] = {TH_PORT("x", TH_FLOAT64, 4, 5)}, out[] = {TH_PORT("y", TH_FLOAT64, 4, 5)};
    th_function cube = th_function_of("cube", forward, backward, &right, 1, in, 1, out);
    th_function_report report;
    if (th_check_function(&cube, NULL, &report))
        return puts(report.text), 1;
    cube.user = &wrong;
    if (th_check_function(&cube, NULL, &report) != TH_ERROR_VALUE || report.verdict != TH_GRADIENT_WRONG)
        return puts("a wrong gradient was not found"), 1;
    return words[count] != NULL;
}
END
cd "$work"
case $part in
files)
    # shellcheck disable=SC2086 # a list of words
    "$cc" -std=c99 $warnings -Wconversion -Wshadow -O0 test.c tapehead_check.c -lm -o test
    ./test
    # shellcheck disable=SC2086
    "$cxx" -std=c++17 $warnings -O0 -x c++ test.c tapehead_check.c -x none -lm -o test_cpp
    ./test_cpp
    # shellcheck disable=SC2086
    "$cc" -std=c99 -DTH_NO_POSIX $warnings -fsyntax-only tapehead_check.c
    ;;
32)
    echo 'int main(void) { return 0; }' >empty.c
    if ! "$cc" -m32 empty.c -o empty 2>/dev/null || ! ./empty; then
        echo "skipped: $cc -m32 does not work (it needs a 32-bit libc, as in gcc-12-multilib)"
        exit 77
    fi
    # shellcheck disable=SC2086
    "$cc" -m32 -std=c99 $warnings -Wconversion -Wshadow -O1 test.c tapehead_check.c -lm -o test
    ./test
    ;;
googletest)
    sed -n '/^int main/q; p' test.c >google.cc
    cat >>google.cc <<'END'
#include <gtest/gtest.h>
static void check(double factor)
{
    const th_port x = th_port_of("x", TH_FLOAT64, TH_SHAPE(4, 5));
    const th_function cube = th_function_of("cube", forward, backward, &factor, 1, &x, 1, &x);
    EXPECT_FUNCTION_GRADIENT(&cube);
}
TEST(Gradient, Right) { check(3); }
TEST(Gradient, Wrong) { check(2); }
END
    echo '#include <gtest/gtest.h>' | "$cxx" -x c++ -std=c++17 -fsyntax-only - 2>/dev/null ||
        { echo "skipped: GoogleTest is not installed (libgtest-dev)"; exit 77; }
    "$cc" -std=c99 -O0 -c tapehead_check.c
    "$cxx" -std=c++17 -Wall -Wextra -Werror -O0 google.cc tapehead_check.o -lgtest -lgtest_main -lpthread -lm -o google
    ./google >said && { cat said; echo "the wrong gradient passes"; exit 1; }
    for words in "OK \] Gradient.Right" "FAILED  \] Gradient.Wrong" "every element is 0.666667 times what it should be"; do
        grep -q "$words" said || { cat said; echo "GoogleTest did not say: $words"; exit 1; }
    done
    ;;
esac

#!/bin/sh
# amalgamate.sh SOURCE CC CXX: scripts/amalgamate.sh --check makes two files with less than 4,000 lines. They compile as C99 and
# C++17 without a warning, and need only libm. The program accepts a right gradient and rejects a wrong one.
set -eu
source=$1 cc=$2 cxx=$3
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
# shellcheck disable=SC2086 # a list of words
"$cc" -std=c99 $warnings -Wconversion -Wshadow -O0 test.c tapehead_check.c -lm -o test && ./test
# shellcheck disable=SC2086
"$cxx" -std=c++17 $warnings -O0 -x c++ test.c tapehead_check.c -x none -lm -o test_cpp && ./test_cpp
# shellcheck disable=SC2086
"$cc" -std=c99 -DTH_NO_POSIX $warnings -fsyntax-only tapehead_check.c

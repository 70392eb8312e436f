#!/bin/sh
# run.sh EXAMPLE [OPTION...]: installs what is missing, builds an example of examples/ and runs it where you are:
#   run.sh language_model train novel.txt
set -eu

scripts=$(dirname "$(readlink -f "$0")")
example=${1:-}
if [ -z "$example" ] || [ ! -e "$scripts/../examples/$example.c" ]; then
    echo "usage: run.sh EXAMPLE [OPTION...], where EXAMPLE is one of" >&2
    ls "$scripts/../examples" | sed -n 's/^\(.*\)\.c$/  \1/p' >&2
    exit 2
fi
shift
"$scripts/setup.sh" demo
# What the build says goes to standard error, and after the first time it is said only when it fails: the rest is the example's.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
build() {
    build=$("$scripts/configure.sh" -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=ON) &&
        cmake --build "$build" --target "$example" --parallel "$(nproc)" >&2
}
if [ -e "$scripts/../build/examples/$example" ]; then
    build 2>"$log" || { cat "$log" >&2; exit 1; }
else
    build
fi
rm -f "$log"
exec "$build/examples/$example" "$@"

#!/bin/sh
# configure.sh OPTION...: configures the build with these options of CMake and prints the directory it is in: build/ in the
# checkout, or one of the user's cache where the checkout cannot be written. What CMake says goes to standard error.
# A configuration that no longer works (the checkout was moved, the compiler is gone) is replaced by a fresh one.
set -eu

root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/scripts/help.sh"
answer_help "$@"
build=$root/build
if ! { mkdir -p "$build" && [ -w "$build" ]; } 2>/dev/null; then
    if [ -z "${XDG_CACHE_HOME:-}${HOME:-}" ]; then
        echo "$root cannot be written, and without HOME or XDG_CACHE_HOME there is no other place to build in" >&2
        exit 1
    fi
    build=${XDG_CACHE_HOME:-$HOME/.cache}/tapehead/build-$(printf %s "$root" | cksum | cut -d ' ' -f 1)
    echo "$root cannot be written: building in $build" >&2
    mkdir -p "$build"
fi

configure() {
    cmake -S "$root" -B "$build" "$@" >&2
}
configure "$@" || {
    [ -e "$build/CMakeCache.txt" ] || exit 1
    echo "Configuring anew" >&2
    rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
    configure "$@"
}
echo "$build"

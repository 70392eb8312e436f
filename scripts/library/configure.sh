#!/bin/sh
# configure.sh [--core] [--where] [--new OPTION] OPTION...: configures the build with these options of CMake and prints its directory:
# build/ in the checkout, or a directory in the user's cache if the checkout is not writable. CMake's messages go to standard
# error. If the present configuration no longer works (the checkout moved, the compiler was removed), makes a new one.
#   --core        the caller needs the core library only. If build/ is already a build of both libraries, uses build/. Otherwise
#                 configures build/core without the models library. So build/ never becomes a build of the core alone.
#   --where       only prints the directory
#   --new OPTION  an option for a new configuration only; a present one keeps its value. May be repeated
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
models=ON new= where=
if [ "${1:-}" = --core ]; then
    models=OFF
    shift
fi
if [ "${1:-}" = --where ]; then
    where=yes
    shift
fi
while [ "${1:-}" = --new ]; do
    need_value "$@"
    new="$new $2"
    shift 2
done
build=$root/build
if ! { mkdir -p "$build" && [ -w "$build" ]; } 2>/dev/null; then
    if [ -z "${XDG_CACHE_HOME:-}${HOME:-}" ]; then
        echo "$root is not writable, and HOME or XDG_CACHE_HOME must be set for another place to build in" >&2
        exit 1
    fi
    build=${XDG_CACHE_HOME:-$HOME/.cache}/tapehead/build-$(printf %s "$root" | cksum | cut -d ' ' -f 1)
    echo "$root is not writable: building in $build" >&2
    mkdir -p "$build"
fi
if [ $models = OFF ]; then
    if grep -q '^TAPEHEAD_MODELS:BOOL=ON' "$build/CMakeCache.txt" 2>/dev/null; then
        models=ON
    else
        build=$build/core
    fi
fi

if [ -n "$where" ]; then
    echo "$build"
    exit
fi

configure() {
    # shellcheck disable=SC2086 # a list of words
    [ -e "$build/CMakeCache.txt" ] || set -- $new "$@"
    cmake -S "$root" -B "$build" -DTAPEHEAD_MODELS=$models "$@" >&2
}
configure "$@" || {
    [ -e "$build/CMakeCache.txt" ] || exit 1
    echo "Configuring again from the beginning" >&2
    rm -rf "$build/CMakeCache.txt" "$build/CMakeFiles"
    configure "$@"
}
echo "$build"

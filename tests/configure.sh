#!/bin/sh
# configure.sh CONFIGURE CC: scripts/configure.sh configures whatever earlier configurations have left: in a checkout with a space
# in its path, called from anywhere and by a link, after the checkout was moved, after the compiler has gone, and where the
# checkout cannot be written.
set -eu
configure=$1 cc=$(command -v "$2")
work=$(readlink -f "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
export CDPATH="$work" XDG_CACHE_HOME="$work/cache"
unset CC

checkout="$work/a checkout"
mkdir -p "$checkout/scripts"
cp "$configure" "$(dirname "$configure")/help.sh" "$checkout/scripts/"
printf 'cmake_minimum_required(VERSION 3.22)\nproject(probe LANGUAGES C)\noption(PROBE "" OFF)\n' >"$checkout/CMakeLists.txt"

expect() { # expect WHAT DIRECTORY COMMAND...: it prints the directory, and that is configured
    what=$1 wanted=$2
    shift 2
    if ! build=$("$@" -DPROBE=ON 2>"$work/log") || [ "$build" != "$wanted" ] ||
        ! grep -q '^PROBE:BOOL=ON' "$build/CMakeCache.txt"; then
        cat "$work/log"
        echo "$what: \"${build:-}\", not \"$wanted\""
        exit 1
    fi
    echo "$what: right"
}

ln -s "$cc" "$work/compiler"
expect "the first time" "$checkout/build" "$checkout/scripts/configure.sh" "-DCMAKE_C_COMPILER=$work/compiler"
cd "$checkout"
expect "from the checkout" "$checkout/build" scripts/configure.sh
cd /
ln -s "$checkout/scripts/configure.sh" "$work/link"
expect "by a link" "$checkout/build" "$work/link"
rm "$work/compiler"
expect "without the compiler of before" "$checkout/build" "$checkout/scripts/configure.sh"
mv "$checkout" "$work/elsewhere"
checkout=$work/elsewhere
expect "after a move" "$checkout/build" "$checkout/scripts/configure.sh"
rm -rf "$checkout/build"
touch "$checkout/build" # no directory can be made of it, not even by root
"$checkout/scripts/configure.sh" >"$work/printed" 2>"$work/log"
expect "where nothing can be written" "$(cat "$work/printed")" "$checkout/scripts/configure.sh"
case $(cat "$work/printed") in
"$work/cache/tapehead/"*) ;;
*) exit 1 ;;
esac
sed -i '$a message(FATAL_ERROR "no")' "$checkout/CMakeLists.txt"
if "$checkout/scripts/configure.sh" >"$work/printed" 2>"$work/log" || [ -s "$work/printed" ]; then
    echo "what cannot be configured is no success"
    exit 1
fi

#!/bin/sh
# configure.sh CONFIGURE CC: scripts/library/configure.sh works
#   - in a checkout with a space in its path, from any directory, and through a link
#   - after the checkout moved, and after the compiler was removed
#   - if the checkout is not writable
# With --core it does not change a build of both libraries, and does not put a build of the core into build/.
set -eu
configure=$1 cc=$(command -v "$2")
work=$(readlink -f "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
export CDPATH="$work" XDG_CACHE_HOME="$work/cache"
unset CC

checkout="$work/a checkout"
mkdir -p "$checkout/scripts/library"
cp "$configure" "$(dirname "$configure")/help.sh" "$checkout/scripts/library/"
printf 'cmake_minimum_required(VERSION 3.22)\nproject(probe LANGUAGES C)\noption(PROBE "" OFF)\noption(TAPEHEAD_MODELS "" ON)\n' >"$checkout/CMakeLists.txt"

expect() { # expect WHAT DIRECTORY COMMAND...: the command configures the directory and prints it
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
expect "the first time" "$checkout/build" "$checkout/scripts/library/configure.sh" "-DCMAKE_C_COMPILER=$work/compiler"
cd "$checkout"
expect "from the checkout" "$checkout/build" scripts/library/configure.sh
cd /
ln -s "$checkout/scripts/library/configure.sh" "$work/link"
expect "by a link" "$checkout/build" "$work/link"
rm "$work/compiler"
expect "after its compiler was removed" "$checkout/build" "$checkout/scripts/library/configure.sh"
mv "$checkout" "$work/elsewhere"
checkout=$work/elsewhere
expect "after a move" "$checkout/build" "$checkout/scripts/library/configure.sh"
expect "the core, after a build of both" "$checkout/build" "$checkout/scripts/library/configure.sh" --core --new -DNEW=ON
if grep -q '^NEW:' "$checkout/build/CMakeCache.txt" || ! grep -q '^TAPEHEAD_MODELS:BOOL=ON' "$checkout/build/CMakeCache.txt"; then
    echo "--core or --new changed the build of both libraries"
    exit 1
fi
rm -rf "$checkout/build"
expect "the core, in a new checkout" "$checkout/build/core" "$checkout/scripts/library/configure.sh" --core --new -DNEW=ON
if ! grep -q '^NEW:.*ON' "$checkout/build/core/CMakeCache.txt" ||
    ! grep -q '^TAPEHEAD_MODELS:BOOL=OFF' "$checkout/build/core/CMakeCache.txt"; then
    echo "--core and --new do not configure a new build"
    exit 1
fi
expect "both, after the core" "$checkout/build" "$checkout/scripts/library/configure.sh"
rm -rf "$checkout/build"
touch "$checkout/build" # a file: not even root can make a directory of this name
"$checkout/scripts/library/configure.sh" >"$work/printed" 2>"$work/log"
expect "if the checkout is not writable" "$(cat "$work/printed")" "$checkout/scripts/library/configure.sh"
case $(cat "$work/printed") in
"$work/cache/tapehead/"*) ;;
*) exit 1 ;;
esac
sed -i '$a message(FATAL_ERROR "no")' "$checkout/CMakeLists.txt"
if "$checkout/scripts/library/configure.sh" >"$work/printed" 2>"$work/log" || [ -s "$work/printed" ]; then
    echo "a configuration that fails must print nothing and fail"
    exit 1
fi

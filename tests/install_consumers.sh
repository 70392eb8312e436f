#!/bin/sh
# install_consumers.sh BUILD CMAKE CC CXX: installs the build into a fresh prefix, moves it, and builds and runs small projects
# against what lies there: one with find_package, one with pkg-config (shared and static), one user's Check suite.
set -eu
build=$1 cmake=$2 cc=$3 cxx=$4
here=$(cd "$(dirname "$0")" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() {
    echo "== $*"
}

say "install"
"$cmake" --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/prefix"
prefix=$work/prefix
pc=$(find "$prefix" -name tapehead.pc)
lib=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="$(dirname "$pc")"

say "find_package"
"$cmake" -S "$here/consumer_cmake" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_CXX_COMPILER="$cxx" >"$work/log" 2>&1 && "$cmake" --build "$work/cmake" >>"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
"$work/cmake/line_with_tapehead"
"$work/cmake/line_with_tapehead_static"
"$work/cmake/cpp"

export LD_LIBRARY_PATH="$lib"
say "pkg-config, shared"
program=$here/consumer_pkgconfig/main.c
"$cc" "$program" -o "$work/shared" $(pkg-config --cflags --libs tapehead)
"$work/shared"
ldd "$work/shared" | grep "libtapehead.so.0 => $lib/"

say "pkg-config, static"
"$cc" "$program" -o "$work/static" $(pkg-config --static --cflags --libs tapehead | sed 's/-ltapehead/-l:libtapehead.a/')
if ldd "$work/static" | grep libtapehead; then
    echo "the static program needs the shared library"
    exit 1
fi
"$work/static" >/dev/null

say "who does not include tapehead/check.h needs no Check"
if "$cc" -M "$program" $(pkg-config --cflags tapehead) | tr ' ' '\n' | grep '/check\.h$' ||
    pkg-config --print-requires --print-requires-private tapehead | grep .; then
    exit 1
fi

say "a user's Check suite"
"$cc" "$here/consumer_check/test_cube.c" -o "$work/check" $(pkg-config --cflags --libs tapehead check) -lm
"$work/check"

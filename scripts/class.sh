#!/bin/sh
# class.sh [OPTION...] [build|test [OPTION...]]: builds the core library and the class's engine as WebAssembly, with Debian's emscripten.
#   build   (the default) makes teaching/class/class.html in the build: the class's page, one file that a browser opens from a folder. Also makes
#           class.js beside it: the engine alone, for another page or for node, with the functions of teaching/class/engine.h. Then
#           node trains with this engine, compares the checksum, and marks every exercise
#   test    the core's tests under node. OPTIONS go to ctest: class.sh test -R test_norms. tests/node.txt lists the tests that cannot
#           run there, with reasons. Then trains the copy task and a small language model, and compares the checksums with the
#           lines "unfused" of tests/checksums.txt. A terminal with TAPEHEAD_ISA=baseline TAPEHEAD_GEMM=native has the same
# --build DIR  builds in this directory instead of build-class
# --fresh      builds Check again
#
# Installs emscripten and node. Check is compiled from this Debian's source package; the result stays in $XDG_CACHE_HOME/tapehead. The
# script uses the mirror of this machine's apt, or DEBIAN_MIRROR from the environment. Exits with 77 and prints the reason if the
# source cannot be downloaded.
set -eu

here=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$here/scripts/library/help.sh"
build=$here/build-class fresh='' what=build

while [ $# -gt 0 ]; do
    case $1 in
    --build)
        need_value "$@"
        build=$2
        shift
        ;;
    --fresh) fresh=yes ;;
    build | test)
        what=$1
        shift
        break
        ;;
    *)
        answer_help "$1"
        refuse "$1 is not an option, nor one of build and test"
        ;;
    esac
    shift
done
if [ "$what" = build ] && [ $# -gt 0 ]; then
    answer_help "$@"
    refuse "$1 is not an option of build"
fi

"$here/scripts/setup.sh" class

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Modules of Debian's node packages, for another node too.
NODE_PATH=/usr/share/nodejs${NODE_PATH:+:$NODE_PATH}
export NODE_PATH
toolchain=$here/cmake/toolchains/wasm32-emscripten.cmake

. "$here/scripts/library/source_packages.sh"
target=WebAssembly
libraries=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tapehead/wasm32
# build_check: compiles Check's sources. Check's own configuration runs about a hundred programs of emcc, so the answers are here.
build_check() {
    download_sources check
    mkdir -p "$work/root$libraries/lib/pkgconfig" "$work/root$libraries/include" "$work/objects"
    for answer in STDARG_H STDINT_H SYS_TIME_H UNISTD_H DECL_ALARM DECL_LOCALTIME_R DECL_STRDUP DECL_STRSIGNAL GETLINE GETPID \
        GETTIMEOFDAY MALLOC MKSTEMP REALLOC SNPRINTF VSNPRINTF; do
        echo "#define HAVE_$answer 1"
    done >"$work/objects/config.h"
    printf '#define %s 0\n' HAVE_FORK ENABLE_SUBUNIT >>"$work/objects/config.h"
    {
        dpkg-source --skip-patches -x "$work/sources"/check_*.dsc "$work/check" &&
            (cd "$work/objects" && emcc -O2 -std=gnu99 -w -DHAVE_CONFIG_H -I. -I../check -I../check/src -I../check/lib \
                -c ../check/src/check*.c ../check/lib/libcompat.c ../check/lib/timer_*.c) &&
            emar rc "$work/root$libraries/lib/libcheck.a" "$work/objects"/*.o
    } >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        printf 'check could not be compiled for %s\n' "$target" >&2
        exit 1
    }
    cp "$work/check/src/check.h" "$work/check/check_stdint.h" "$work/root$libraries/include/"
    version=$(basename "$work/sources"/check_*.orig.tar.* | sed 's/check_\(.*\)\.orig.*/\1/')
    cat >"$work/root$libraries/lib/pkgconfig/check.pc" <<EOF
Name: Check
Description: unit tests for C, for $target
Version: $version
Libs: -L$libraries/lib -lcheck
Cflags: -I$libraries/include
EOF
    ln -s /usr/include/Random123 "$work/root$libraries/include/"
    keep_libraries
}

# configure OPTION...
configure() {
    PKG_CONFIG_LIBDIR=$libraries/lib/pkgconfig PKG_CONFIG_PATH='' cmake -S "$here" -B "$build" --toolchain "$toolchain" \
        -DCMAKE_FIND_ROOT_PATH="$libraries" -DTAPEHEAD_WERROR=ON "$@"
}

case $what in
build)
    configure -DTAPEHEAD_TESTS=OFF
    cmake --build "$build" --parallel "$(nproc)" --target class_page
    node "$here/teaching/class/test_engine.js" "$build/teaching/class/class.js"
    for name in class.js class.html; do
        print_written "$build/teaching/class/$name"
        printf '%s bytes, %s compressed\n' "$(wc -c <"$build/teaching/class/$name")" "$(gzip -9c "$build/teaching/class/$name" | wc -c)"
    done
    print_next class.sh --build "$build" test
    ;;
test)
    [ -z "$fresh" ] || rm -rf --one-file-system "$libraries"
    [ -e "$libraries" ] || build_check
    configure -DTAPEHEAD_TESTS=ON
    cmake --build "$build" --parallel "$(nproc)" --target tapehead_node_tests
    ctest --test-dir "$build" --output-on-failure -j "$(nproc)" "$@"
    ;;
esac

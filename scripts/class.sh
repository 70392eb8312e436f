#!/bin/sh
# class.sh [OPTION...] [build|test [OPTION...]]: builds the core library and the class's engine as WebAssembly, with Debian's emscripten.
#   build   (the default) makes class/class.html in the build: the class's page, one file that a browser opens from a folder. Also makes
#           class/class.js: the engine alone, for another page or for node, with the functions of class/engine.h
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
. "$here/scripts/help.sh"
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

. "$here/scripts/source_packages.sh"
target=WebAssembly
libraries=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tapehead/wasm32
build_check() {
    download_sources check
    build_library check --toolchain "$toolchain" -DBUILD_TESTING=OFF -DCHECK_ENABLE_TESTS=OFF -DCHECK_ENABLE_SUBUNIT=OFF \
        -DHAVE_FORK=OFF
    ln -s /usr/include/Random123 "$work/root$libraries/include/"
    keep_libraries
}

# configure OPTION...
configure() {
    PKG_CONFIG_LIBDIR=$libraries/lib/pkgconfig PKG_CONFIG_PATH='' cmake -S "$here" -B "$build" --toolchain "$toolchain" \
        -DTAPEHEAD_WERROR=ON "$@"
}

case $what in
build)
    configure -DTAPEHEAD_TESTS=OFF
    cmake --build "$build" --parallel "$(nproc)" --target class_page
    for file in class.js class.html; do
        print_written "$build/class/$file"
        printf '%s bytes, %s compressed\n' "$(wc -c <"$build/class/$file")" "$(gzip -9c "$build/class/$file" | wc -c)"
    done
    print_next class.sh --build "$build" test
    ;;
test)
    [ -z "$fresh" ] || rm -rf --one-file-system "$libraries"
    [ -e "$libraries" ] || build_check
    configure -DTAPEHEAD_TESTS=ON
    cmake --build "$build" --parallel "$(nproc)"
    ctest --test-dir "$build" --output-on-failure -j "$(nproc)" "$@"
    ;;
esac

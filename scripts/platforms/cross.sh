#!/bin/sh
# cross.sh [OPTION...] aarch64 [build|kernels|demo|test [OPTION...]]: builds Tapehead for another architecture with Debian's cross
# compiler. Runs programs in QEMU, which emulates the processor for one program.
#   build    (the default) both libraries and all examples, for a computer with this architecture
#   kernels  the core library alone: runs tests of kernels, and trains the copy task and a small language model for some steps in
#            three precisions. The compiler's front end reads the two files of scripts/amalgamate.sh. This takes about a minute
#   demo     trains for more steps, which takes some minutes
#   test     all tests. OPTIONS go to ctest: cross.sh aarch64 test -R test_norms. tests/emulator.txt lists the tests that cannot
#            run in QEMU, with reasons. The others take hours
# Training must give the checksums in tests/checksums.txt, which are the same on all architectures.
# --build DIR  builds in this directory instead of build-aarch64; kernels uses its subdirectory core
# --fresh      downloads the libraries again
#
# Installs the compiler and QEMU. The libraries for aarch64 (jansson, utf8proc, zlib, libzstd, PCRE2, Check, OpenBLAS) are packages of this machine's Debian.
# cross.sh downloads them to $XDG_CACHE_HOME/tapehead and does not install them. It uses the mirror of this machine's apt, or
# DEBIAN_MIRROR from the environment. Exits with 77 and prints the reason if a download fails.
set -eu

here=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$here/scripts/library/help.sh"

build=$here/build-aarch64 fresh=
# The libraries for the models library; then what only tests need.
libraries="libjansson-dev libjansson4 libutf8proc-dev zlib1g-dev zlib1g libzstd-dev libzstd1"
shared_utf8proc() { # shared_utf8proc DEBIAN: its package
    if [ "$1" = bookworm ]; then echo libutf8proc2; else echo libutf8proc3; fi
}
for_tests="check libpcre2-dev libpcre2-8-0 libsubunit-dev libsubunit0 libopenblas0-pthread libgfortran5"

while [ $# -gt 0 ]; do
    case $1 in
    --build)
        need_value "$@"
        case $2 in
        /*) build=$2 ;;
        *) build=$PWD/$2 ;;
        esac
        shift
        ;;
    --fresh) fresh=yes ;;
    aarch64) break ;;
    *)
        answer_help "$1"
        refuse "$1 is not an option or an architecture"
        ;;
    esac
    shift
done
[ $# -gt 0 ] || refuse "an architecture is missing: aarch64"
shift
what=${1:-build}
[ $# -eq 0 ] || shift
case $what in
test) ;;
build | kernels | demo)
    answer_help "$@"
    [ $# -eq 0 ] || refuse "$1 is not an option of $what"
    ;;
*)
    answer_help "$what"
    refuse "$what is not one of build, kernels, demo and test"
    ;;
esac

"$here/scripts/setup.sh" cross

# -- libraries for aarch64 --

debian=$(. /etc/os-release && [ "${ID:-}" = debian ] && printf %s "${VERSION_CODENAME:-}") ||
    skip "the libraries for aarch64 are packages of Debian, and this system is not Debian"
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tapehead/aarch64-$debian
libraries_root=$cache/root
[ -z "$fresh" ] || rm -rf --one-file-system "$cache"

# apt OPTION...: runs apt-get for aarch64 with its own lists and caches, so that this machine's apt does not change.
apt() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= -o Dir::Etc::sourcelist="$work/sources.list" \
        -o Dir::Etc::sourceparts=- -o Dir::State="$work" -o Dir::State::status="$work/status" -o Dir::Cache="$work" "$@" >"$work/log" 2>&1
}

download() {
    find_mirror
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/work.XXXXXX")
    trap 'rm -rf --one-file-system "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/packages" "$work/root"
    : >"$work/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $debian main" >"$work/sources.list"
    # shellcheck disable=SC2086 # lists of words
    apt update && (cd "$work/packages" && apt download $libraries "$(shared_utf8proc "$debian")" $for_tests) || {
        tail -n 5 "$work/log" >&2
        skip "Debian's packages for aarch64 could not be downloaded from $mirror"
    }
    for package in "$work/packages"/*.deb; do
        dpkg-deb -x "$package" "$work/root"
    done
    ln -s openblas-pthread/libopenblas.so.0 "$work/root/usr/lib/aarch64-linux-gnu/"
    mv -T "$work/root" "$libraries_root"
    rm -rf --one-file-system "$work"
}
[ -e "$libraries_root/usr/include/zstd.h" ] || {
    rm -rf --one-file-system "$libraries_root"
    download
}

# -- build --

# configure DIRECTORY OPTION...: makes a new configuration if the present one no longer works (the checkout moved).
configure() {
    directory=$1
    shift
    set -- -S "$here" -B "$directory" --toolchain "$here/cmake/toolchains/aarch64-linux-gnu.cmake" \
        -DCMAKE_FIND_ROOT_PATH="$libraries_root" "$@"
    cmake "$@" || {
        [ -e "$directory/CMakeCache.txt" ] || exit 1
        rm -rf "$directory/CMakeCache.txt" "$directory/CMakeFiles"
        cmake "$@"
    }
}
# compile DIRECTORY [TARGET...]
compile() {
    directory=$1
    shift
    cmake --build "$directory" --parallel "$(nproc)" ${1:+--target "$@"}
}

case $what in
build)
    configure "$build" -DTAPEHEAD_TESTS=OFF
    compile "$build"
    printf 'The programs are in %s and %s. The other computer needs the Debian packages libgomp1, libjansson4, zlib1g, libzstd1 and %s.\n' \
        "$build/programs" "$build/examples" "$(shared_utf8proc "$debian")"
    print_next cross.sh --build "$build" aarch64 kernels
    ;;
kernels)
    kernels="test_elementwise test_int8_products test_machine test_optimizer_kernels test_philox test_rows test_vector_math"
    configure "$build/core" -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_TESTS=ON -DTAPEHEAD_WERROR=ON
    # shellcheck disable=SC2086 # a list of words
    compile "$build/core" copy_task small_step $kernels
    "$here/scripts/amalgamate.sh" "$build/files" 2>/dev/null
    aarch64-linux-gnu-gcc -Wall -Wextra -Werror -fsyntax-only "$build/files/tapehead.c"
    ctest --test-dir "$build/core" --output-on-failure -j2 -R "^(checksums|package.fused_multiply_add|$(echo "$kernels" | tr ' ' '|'))\$"
    ;;
demo)
    configure "$build" -DTAPEHEAD_TESTS=ON
    compile "$build" copy_task small_step
    "$here/tests/checksums.sh" long "$build/emulator/examples" "$build/emulator/tests"
    ;;
test)
    configure "$build" -DTAPEHEAD_TESTS=ON
    compile "$build"
    ctest --test-dir "$build" --output-on-failure -j "$(nproc)" "$@"
    ;;
esac

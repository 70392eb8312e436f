#!/bin/sh
# musl.sh [OPTION...] [quick|test|static|recipe]: builds Tapehead with the C library musl and without OpenMP. Warnings are errors.
#   quick   (the default) both libraries: the quick tests (ctest -L quick), then static
#   test    all suites that are not slow (ctest -L suite -LE slow)
#   static  the core library alone: the copy task as a program without shared libraries. It trains in a directory that contains
#           nothing else: no /proc, no /sys
#   recipe  the recipe for Alpine Linux (packaging/alpine), which is written for an archive of this commit. Its functions run as abuild
#           runs them, with musl's compiler of Debian: build, check (the quick tests) and package. Then it lists the package's files
# Training must end with the checksums in tests/checksums.txt, which are the same with glibc and with OpenMP.
# --build DIR  builds in this directory instead of build-musl
# --fresh      builds jansson, PCRE2, utf8proc and Check again
#
# Installs musl's compiler. jansson, PCRE2, utf8proc and Check are compiled for musl from this Debian's source packages; the results stay in
# $XDG_CACHE_HOME/tapehead. The script uses the mirror of this machine's apt, or DEBIAN_MIRROR from the environment. Exits with
# 77 and prints the reason if the sources cannot be downloaded. Without root's rights, `static` needs user namespaces.
set -eu

here=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$here/scripts/library/help.sh"
build=$here/build-musl fresh='' what=quick

answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --build)
        need_value "$@"
        build=$2
        shift
        ;;
    --fresh) fresh=yes ;;
    quick | test | static | recipe) what=$1 ;;
    *) refuse "$1 is not an option, nor one of quick, test, static and recipe" ;;
    esac
    shift
done

"$here/scripts/setup.sh" musl

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# -- jansson, PCRE2, utf8proc and Check --

. "$here/scripts/library/source_packages.sh"
target=musl
libraries=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tapehead/musl
build_libraries() {
    download_sources jansson pcre2 utf8proc check
    set -- -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_POSITION_INDEPENDENT_CODE=ON
    build_library jansson "$@" -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF
    build_library pcre2 "$@" -DPCRE2_SUPPORT_JIT=ON -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF
    build_library utf8proc "$@"
    build_library check "$@" -DBUILD_TESTING=OFF -DCHECK_ENABLE_TESTS=OFF -DCHECK_ENABLE_SUBUNIT=OFF
    # musl comes without the kernel's headers. Only tests need them, and Random123, which consists of headers.
    for headers in linux asm-generic "$(gcc -print-multiarch)/asm" Random123; do
        ln -s "/usr/include/$headers" "$work/root$libraries/include/"
    done
    keep_libraries
}

# -- build --

# configure DIRECTORY OPTION...
configure() {
    directory=$1
    shift
    # zlib and libzstd are this machine's, for glibc.
    PKG_CONFIG_LIBDIR=$libraries/lib/pkgconfig PKG_CONFIG_PATH='' cmake -S "$here" -B "$directory" -DCMAKE_C_COMPILER=musl-gcc \
        -DCMAKE_PREFIX_PATH="$libraries" -DTAPEHEAD_COMPRESSION=OFF -DTAPEHEAD_OPENMP=OFF -DTAPEHEAD_WERROR=ON "$@"
}
# compile DIRECTORY [TARGET...]
compile() {
    directory=$1
    shift
    cmake --build "$directory" --parallel "$(nproc)" ${1:+--target "$@"}
}

# -- one static program in an empty root --

in_root() { # in_root COMMAND...
    if [ "$(id -u)" -eq 0 ]; then
        (cd "$root" && chroot . "$@")
    else
        (cd "$root" && unshare --map-root-user chroot . "$@")
    fi
}

# expect EXPRESSION COMMAND...: runs the command in the root; a line of its output must match the regular expression.
expect() {
    expression=$1
    shift
    in_root "$@" >"$work/out" 2>&1 || true
    grep -e "$expression" "$work/out" || {
        cat "$work/out"
        printf '%s does not print a line with "%s"\n' "$*" "$expression" >&2
        exit 1
    }
}

static_program() { # static_program DIRECTORY: with the core library of this build
    root=$work/root
    rm -rf "$root"
    mkdir "$root"
    # shellcheck disable=SC2046 # a list of options
    musl-gcc -static -std=c11 -O2 -I "$here/include" "$here/examples/copy_task.c" "$here/examples/copy_task/model.c" \
        -o "$root/copy_task" "$1/libtapehead.a" \
        $(sed -n 's/^Libs.private: //p' "$1/tapehead.pc")
    in_root /copy_task --version >/dev/null 2>"$work/log" || skip "this user cannot change the root directory: $(cat "$work/log")"

    expect 'sequence_accuracy=1.0000 .*parameters_crc32c=84c7f1cc$' /copy_task --quiet
    grep '^long .* copy_task ' "$here/tests/checksums.txt" >"$work/lines"
    while read -r _ wanted _ options; do
        # shellcheck disable=SC2086 # a list of options
        expect "parameters_crc32c=$wanted\$" /copy_task $options </dev/null
    done <"$work/lines"
    for picture in copy_loss.svg copy_attention.svg; do
        [ -s "$root/$picture" ] || { echo "the program wrote no $picture"; exit 1; }
    done

    # A static program loads no library.
    export TAPEHEAD_GEMM=openblas
    expect 'TAPEHEAD_GEMM is openblas, but OpenBLAS was not found' /copy_task --quiet --steps 1
    unset TAPEHEAD_GEMM
}

# -- the recipe for Alpine Linux --

alpine_recipe() {
    archive=tapehead-$(version).tar.gz
    git -C "$here" archive --prefix="${archive%.tar.gz}/" HEAD | gzip >"$work/$archive"
    "$here/scripts/platforms/recipes.sh" --url "file://$work/$archive" "$work/$archive" "$work/recipes"
    mkdir -p "$build"
    package=$(cd "$build" && pwd)/package
    rm -rf "$package"
    (
        cd "$work"
        . "$work/recipes/alpine/APKBUILD"
        pkgdir=$package
        want_check() { # (abuild has this function)
            :
        }
        # shellcheck disable=SC2154 # the recipe sets it
        printf '%s' "$sha512sums" | sed '/^$/d' | sha512sum --check -
        tar -xf "$archive"
        cd "${archive%.tar.gz}"
        export CC=musl-gcc CMAKE_PREFIX_PATH="$libraries" PKG_CONFIG_LIBDIR="$libraries/lib/pkgconfig" PKG_CONFIG_PATH=''
        build
        check
        package
    )
    (cd "$package" && find . ! -type d | sort)
}

case $what in
quick | test | recipe)
    [ -z "$fresh" ] || rm -rf --one-file-system "$libraries"
    [ -e "$libraries/include/utf8proc.h" ] || build_libraries
    ;;
esac
case $what in
quick)
    configure "$build" -DTAPEHEAD_TESTS=ON
    compile "$build" tapehead_quick
    ctest --test-dir "$build" --output-on-failure -j "$(nproc)" -L quick
    static_program "$build"
    ;;
test)
    configure "$build" -DTAPEHEAD_TESTS=ON
    compile "$build"
    ctest --test-dir "$build" --output-on-failure -j "$(nproc)" -L suite -LE slow
    ;;
static)
    configure "$build/core" -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_TESTS=OFF
    compile "$build/core" tapehead_static
    static_program "$build/core"
    ;;
recipe) alpine_recipe ;;
esac

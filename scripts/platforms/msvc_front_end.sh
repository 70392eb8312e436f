#!/bin/sh
# msvc_front_end.sh LIBRARIES LISTS: clang's front end reads the sources of both libraries and of language_model with Microsoft's rules and sizes
# (--target=x86_64-pc-windows-msvc). Prints the errors. The headers of the C library are those of mingw-w64, because Microsoft's are not free. The
# vector kernels need the extensions that clang-cl has, and MSVC has not. scripts/platforms/mingw.sh calls this script.
#   LIBRARIES  a directory with the headers of jansson and utf8proc
#   LISTS      the lists that CMake makes from the sources
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
case ${1-} in
-*) refuse "$1 is not an option" ;;
esac
[ $# -eq 2 ] || refuse "two words are needed, and $# are given"
command -v clang >/dev/null || skip "clang is missing"
libraries=$1 lists=$2
cd "$root"
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# mingw-w64's headers define away __attribute__ for a compiler that is not gcc's relative, although clang's own headers need it.
failed=0 count=0
for source in $(find src programs -name '*.c' ! -name amx.c); do
    real=32
    case $source in
    */elementary_f64.c) real=64 ;;
    esac
    case $source in
    */dpbf16.c)
        set -- -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512bf16 -DTH_VECTOR_BYTES=64 -DTH_VECTOR_REGISTERS=32
        ;;
    *) set -- -mavx2 -mfma -mf16c -DTH_VECTOR_BYTES=32 -DTH_VECTOR_REGISTERS=16 ;;
    esac
    case $source in
    */vector/*) set -- "$@" -DTH_FUSED=1 -DTH_REAL_BITS=$real -DTH_INSTANCE=f${real}_kernels ;;
    *) set -- ;;
    esac
    count=$((count + 1))
    clang --target=x86_64-pc-windows-msvc -U_MSC_VER -D__GNUC__=4 -D__GNUC_MINOR__=2 '-D__declspec(x)=__declspec(x)' -std=c11 -fsyntax-only \
        -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DTAPEHEAD_NO_LOCATIONS -DTAPEHEAD_VERSION='"0"' -Iinclude -Isrc -Iexamples -Iprograms \
        -I"$lists" -isystem "$libraries/include" -isystem /usr/x86_64-w64-mingw32/include "$@" "$source" 2>"$errors" && continue
    failed=$((failed + 1))
    grep -m 5 'error:' "$errors"
done
echo "$count sources, $failed with errors"
[ $failed -eq 0 ]

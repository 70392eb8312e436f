#!/bin/sh
# platforms.sh SOURCE CMAKE GENERATOR CC: on platforms that are not supported the configuration stops, and its error is one sentence that
# names what was found and what is supported. The test uses flags and clang's targets instead of compilers of such platforms.
set -eu
source=$1 cmake=$2 generator=$3 cc=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# refused FOUND OPTION...: CMake with these options finds this platform. The compiler of such a platform may have no C library here:
# nothing is linked.
refused() {
    found=$1
    shift
    rm -rf "$work/build"
    if "$cmake" -S "$source" -B "$work/build" -G "$generator" -DCMAKE_C_COMPILER="$cc" -DTAPEHEAD_MODELS=OFF \
        -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY "$@" >"$work/log" 2>&1; then
        echo "not refused: $*"
        status=1
        return
    fi
    # The text of the first error, in one line.
    said=$(awk '/^CMake Error/ { error = 1; next } error && /^[^ ]/ { exit } error' "$work/log" | tr -s ' \n' ' ')
    expected=" Tapehead supports Linux on x86-64, little-endian aarch64, riscv64 and ppc64le, with gcc 11, clang 13 or later, Windows on x86-64 with mingw-w64, and WebAssembly with Emscripten 3.1, but $found. "
    # shellcheck disable=SC2254 # the text that was found is a pattern
    case $said in
    $expected) echo "$found" ;;
    *)
        printf '%s:\n%s\ninstead of\n%s\n' "$*" "${said:-$(cat "$work/log")}" "$expected"
        status=1
        ;;
    esac
}

refused "the system is FreeBSD" -DCMAKE_SYSTEM_NAME=FreeBSD
refused "* has no __builtin_convertvector" -DCMAKE_C_FLAGS=-D__builtin_convertvector=absent
if "$cc" -dumpmachine | grep '^x86_64' >/dev/null; then
    refused "the compiler builds for x86_64-* with pointers of 4 bytes" -DCMAKE_C_FLAGS=-m32
fi
if command -v clang >/dev/null; then
    cc=$(command -v clang)
    refused "the compiler builds for mips64el-unknown-linux-gnuabi64" -DCMAKE_C_COMPILER_TARGET=mips64el-linux-gnuabi64
    refused "the compiler builds for s390x-unknown-linux-gnu, which is big-endian" -DCMAKE_C_COMPILER_TARGET=s390x-linux-gnu
fi
exit $status

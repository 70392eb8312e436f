#!/bin/sh
# subproject.sh SOURCE CMAKE GENERATOR CC [whole]: tests/package/consumer_subproject contains Tapehead in two ways: with add_subdirectory, and
# with FetchContent from an archive. The test configures both, and compiles a file with the library's flags. With `whole` it builds
# and runs the programs, which takes minutes.
set -eu
source=$(cd "$1" && pwd) cmake=$2 generator=$3 cc=$4 whole=${5:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    printf '%s\n' "$*"
    exit 1
}

# commands PATTERN: the commands that compile the sources with such a path; they write no file.
commands() {
    sed -n 's/^ *"command": "\(.*\)",$/\1/p' "$build/compile_commands.json" | sed 's/\\"/"/g; s/\\\\/\\/g; s/ -o [^ ]*/ -o \/dev\/null/' |
        grep -E -e "-c $1$" || fail "nothing compiles $1"
}

# contain WAY TAPEHEAD: TAPEHEAD is the folder or the archive.
contain() {
    build=$work/$1
    "$cmake" -S "$source/tests/package/consumer_subproject" -B "$build" -G "$generator" -DCMAKE_C_COMPILER="$cc" -DTAPEHEAD="$2" \
        -DTAPEHEAD_MODELS=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >"$work/log" 2>&1 || fail "$1: $(cat "$work/log")"
    ! grep -i warning "$work/log" || fail "$1: CMake warns"
    grep '^CMAKE_BUILD_TYPE:[A-Z]*=$' "$build/CMakeCache.txt" >/dev/null || fail "$1: Tapehead sets the build type of its parent"
    "$cmake" --install "$build" --prefix "$work/prefix" >"$work/log" || fail "$1: Tapehead adds rules of installation: $(cat "$work/log")"
    ! find "$work/prefix" -type f 2>/dev/null | grep . || fail "$1: Tapehead installs these files with its parent"
    commands '.*/src/ops/silu\.c' >"$work/compile"
    for flag in -O2 -std=c17; do
        grep -e " $flag " "$work/compile" >/dev/null || fail "$1: this has not the flag $flag: $(cat "$work/compile")"
    done
    ! commands '.*/tapehead_f32_[a-z0-9]*\.dir/Unity/.*' | grep -ve ' -O3 ' || fail "$1: these kernels are not optimized"
    sh -e "$work/compile" || fail "$1: Tapehead does not compile with its parent's flags"
    if [ "$whole" ]; then
        "$cmake" --build "$build" --parallel 2 >"$work/log" 2>&1 || fail "$1: $(tail -n 30 "$work/log")"
        "$build/programs/gradient"
        "$build/programs/gradient_static"
    fi
    echo "$1: passed"
}

contain add_subdirectory "$source"
tar -C "$source" -czf "$work/tapehead.tar.gz" CMakeLists.txt cmake include src
contain FetchContent "$work/tapehead.tar.gz"

#!/bin/sh
# zig.sh [OPTION...] [TARGET...]: builds the core library for many systems. Most are targets of zig's C compiler, which is clang with the
# headers and C libraries of these systems; the others are cross compilers of Debian. For each target the script
#   - compiles the two files of scripts/amalgamate.sh, without a warning
#   - links the examples that need only the core
#   - trains for some steps, natively, in QEMU or in Wine. The checksums must be those of tests/checksums.txt, in each precision, and
#     examples/two_files must print the same numbers on all systems. Nothing here can run programs of macOS and the BSDs.
# At the end it prints a table. Without names of targets, all are tried. Kernels are compiled for one instruction set (AVX2 on x86-64).
# --list       prints the targets and exits
# --build DIR  builds in this directory instead of build-zig
# --fresh      installs zig again
#
# Installs the cross compilers, QEMU and Wine. The Python package ziglang, which has the compiler, is installed in $XDG_CACHE_HOME/tapehead. A target takes two to
# four minutes the first time: zig keeps compiled files in the same folder. Exits with 77 and prints the reason if the package cannot be had.
set -eu

# target of zig or cross compiler, system, processor, how programs run
rows() {
    cat <<'EOF'
x86_64-linux-gnu.2.28     Linux,glibc x86-64  natively
x86_64-linux-musl         Linux,musl  x86-64  natively
aarch64-linux-gnu.2.28    Linux,glibc aarch64 QEMU
aarch64-linux-musl        Linux,musl  aarch64 QEMU
aarch64-linux-gnu-gcc     Linux,glibc aarch64 QEMU
riscv64-linux-musl        Linux,musl  riscv64 QEMU
riscv64-linux-gnu-gcc     Linux,glibc riscv64 QEMU
powerpc64le-linux-musl    Linux,musl  ppc64le QEMU
powerpc64le-linux-gnu-gcc Linux,glibc ppc64le QEMU
x86_64-windows-gnu        Windows     x86-64  Wine
x86_64-macos              macOS       x86-64  never
aarch64-macos             macOS       aarch64 never
x86_64-freebsd            FreeBSD     x86-64  never
x86_64-openbsd            OpenBSD     x86-64  never
EOF
}
zig_version=0.17.1

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$root/scripts/library/help.sh"
build=$root/build-zig fresh=''
answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --list)
        rows
        exit 0
        ;;
    --build)
        need_value "$@"
        build=$2
        shift
        ;;
    --fresh) fresh=yes ;;
    -*) refuse "$1 is not an option" ;;
    *) break ;;
    esac
    shift
done
for target; do
    rows | cut -d ' ' -f 1 | grep -Fx -e "$target" >/dev/null || refuse "$target is not a target; --list prints the targets"
done
# shellcheck disable=SC2046 # a list of words
[ $# -gt 0 ] || set -- $(rows | cut -d ' ' -f 1)
"$root/scripts/setup.sh" zig
mkdir -p "$build"
build=$(cd "$build" && pwd)

# -- zig --

cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tapehead/zig
if [ -n "$fresh" ] || [ "$(cat "$cache/complete" 2>/dev/null)" != $zig_version ]; then
    rm -rf --one-file-system "$cache"
    python3 -m venv "$cache"
    "$cache/bin/pip" install --quiet --disable-pip-version-check ziglang==$zig_version >"$build/log" 2>&1 || {
        tail -n 5 "$build/log" >&2
        skip "the Python package ziglang $zig_version could not be installed"
    }
    echo $zig_version >"$cache/complete"
fi
export ZIG_GLOBAL_CACHE_DIR="$cache/compiled" ZIG_LOCAL_CACHE_DIR="$cache/compiled"

# -- one target --

# quietly COMMAND...: fails if the command fails or prints anything.
quietly() {
    "$@" >"$folder/said" 2>&1 && [ ! -s "$folder/said" ] || {
        head -n 20 "$folder/said"
        return 1
    }
}

# compile WORD...: calls the compiler for the target, with options for a fast compilation. Optimization changes no bits. (With
# -O1 clang unrolls no loop.)
compile() {
    case $target:$how in
    *-gcc:*) set -- "$target" -Os "$@" ;;
    *:never) set -- "$cache/bin/python" -m ziglang cc -target "$target" -O0 -fno-sanitize=undefined "$@" ;;
    *) set -- "$cache/bin/python" -m ziglang cc -target "$target" -O1 -Wno-pass-failed "$@" ;;
    esac
    "$@" -Wall -Wextra
}

# Prints the programs that this target can have: those of the core. The ones that train in several processes need POSIX.
programs() {
    for source in "$root"/examples/*.c "$root/tests/steps/small_step.c"; do
        grep -qE '^#include [<"](tapehead/models\.h|models/)' "$source" ||
            { [ "$system" = Windows ] && grep -q '^#include "processes.h"' "$source"; } || echo "$source"
    done
}

link() {
    count=0
    quietly compile -I"$files" "$root/examples/two_files/app.c" "$folder/tapehead.o" -o "$folder/app" $libraries || return
    for source in $(programs); do
        name=$(basename "$source" .c) parts=
        for part in "${source%.c}"/*.c; do
            [ ! -e "$part" ] || parts="$parts $part"
        done
        # shellcheck disable=SC2086 # lists of words
        quietly compile -std=gnu11 -I"$root/include" "$source" $parts "$folder/tapehead.o" -o "$folder/$name" $libraries || return
        count=$((count + 1))
        printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$runner" "$folder/$name" >"$folder/bin/$name"
        chmod +x "$folder/bin/$name"
    done
}

# Trains, and prints the result of examples/two_files to the file `result`.
train() {
    only=
    [ "$system" != Windows ] || only=:small_step
    "$root/tests/checksums.sh" "short$only" "$folder/bin" || return
    # shellcheck disable=SC2086 # a command
    $runner "$folder/app" 40 2>"$folder/said" </dev/null | tr -d '\r' >"$folder/output"
    tail -n 1 "$folder/output" | grep -E 'parameters_crc32c=[0-9a-f]{8}$' || { head -n 20 "$folder/said"; return 1; }
    [ -e "$build/output" ] || cp "$folder/output" "$build/output"
    cmp "$build/output" "$folder/output"
}

# try: compiles, links and runs. Sets the columns of the table.
try() {
    folder=$build/$target compiled=no linked=no ran=$how checksums=-
    rm -rf "$folder/bin"
    mkdir -p "$folder/bin"
    isa= libraries='-lm -lpthread' runner=
    case $processor in x86-64) isa='-DTAPEHEAD_NO_AVX512 -DTAPEHEAD_NO_BASELINE' ;; esac
    [ "$system" != Windows ] || libraries=
    case $how:$processor in
    QEMU:ppc64le) runner="qemu-ppc64le -L /usr/powerpc64le-linux-gnu" ;;
    QEMU:*) runner="qemu-$processor -L /usr/$processor-linux-gnu" ;;
    Wine:*) runner=wine ;;
    esac
    # shellcheck disable=SC2086 # a list of words
    quietly compile $isa -c "$files/tapehead.c" -o "$folder/tapehead.o" || return
    compiled=yes
    link || return
    linked="yes, $((count + 1)) programs"
    [ "$how" != never ] || return 0
    checksums=WRONG
    train || return
    checksums=same
}

files=$build/files
"$root/scripts/amalgamate.sh" "$files" 2>/dev/null
rm -f "$build/output" "$build/table"
# OpenBLAS is not on all these systems; and Wine takes a second to start.
export TAPEHEAD_GEMM=native WINEPREFIX="$build/wine" WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml='
status=0
for target; do
    # shellcheck disable=SC2046 # words
    set -- $(rows | grep -F "$target ")
    system=$(echo "$2" | sed 's/,/ with /') processor=$3 how=$4
    printf '== %s\n' "$target"
    try || status=1
    printf '| %s | %s | %s | %s | %s | %s | %s |\n' "$system" "$processor" "$target" "$compiled" "$linked" "$ran" "$checksums" >>"$build/table"
done
printf '\nzig %s is %s. The cross compilers are %s.\n\n' $zig_version "$("$cache/bin/python" -m ziglang cc --version | sed 's/ *(.*//; q')" \
    "$(riscv64-linux-gnu-gcc --version | sed 's/riscv64-linux-gnu-//; q')"
printf '| system | processor | target or compiler | compiled | linked | run | checksums |\n|---|---|---|---|---|---|---|\n'
cat "$build/table"
exit $status

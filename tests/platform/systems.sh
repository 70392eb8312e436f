#!/bin/sh
# systems.sh SOURCE CC: the sources of src/platform for macOS and FreeBSD compile without a warning, and use nothing that only Linux has.
# The compiler is this machine's. It takes the C libraries' declarations from systems.h and no header of this machine. (scripts/platforms/zig.sh
# compiles the whole library with the headers of these systems.)
set -eu
source=$1 cc=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for header in dirent.h dlfcn.h errno.h fcntl.h limits.h locale.h pthread.h signal.h stdio.h stdlib.h string.h sys/file.h sys/ioctl.h \
    sys/stat.h sys/types.h time.h unistd.h; do
    mkdir -p "$work/both/$(dirname $header)"
    echo '#include "systems.h"' >"$work/both/$header"
done
mkdir -p "$work/macOS" "$work/FreeBSD/sys"
echo '#include "systems.h"' | tee "$work/macOS/xlocale.h" "$work/FreeBSD/pthread_np.h" "$work/FreeBSD/sys/auxv.h" \
    "$work/FreeBSD/sys/cpuset.h" "$work/FreeBSD/sys/param.h" >"$work/FreeBSD/sys/resource.h"
: >"$work/FreeBSD/sys/_types.h" # gcc's stddef.h includes it

# compiles SYSTEM FILE...: the front end reads the files as for this system, on AArch64.
compiles() {
    system=$1
    shift
    case $system in macOS) macro=__APPLE__ ;; FreeBSD) macro=__FreeBSD__ ;; esac
    # shellcheck disable=SC2086 # (the compiler may be two words)
    $cc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only -ffreestanding -nostdinc \
        -isystem "$($cc -print-file-name=include)" -isystem "$work/both" -isystem "$work/$system" -I"$source/tests/platform" \
        -I"$source/src" -I"$source/include" -D_GNU_SOURCE -U__linux__ -U__x86_64__ -U__aarch64__ -D__aarch64__ -D$macro "$@"
}

set --
for file in "$source"/src/platform/*.c; do
    case $file in
    */linux.c | */windows*.c) ;;
    *) set -- "$@" "$file" ;;
    esac
done
for system in macOS FreeBSD; do
    compiles $system "$@"
    echo "$system: $# sources compile"
done

# The test can fail: on both systems it must refuse functions of Linux.
printf '#include "platform/atomic_file.h"\nFILE *stream(cookie_io_functions_t f);\nFILE *stream(cookie_io_functions_t f)\n{\n    return fopencookie(NULL, "w", f);\n}\n' >"$work/cookie.c"
sed 's/#ifdef __linux__/#if 1/' "$source/src/platform/linux.c" >"$work/linux.c"
for system in macOS FreeBSD; do
    for file in cookie linux; do
        if compiles $system "$work/$file.c" 2>"$work/said"; then
            echo "$file.c, which needs Linux, compiles for $system"
            exit 1
        fi
    done
done

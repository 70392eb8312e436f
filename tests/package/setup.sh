#!/bin/sh
# setup.sh SETUP: if an installed tool cannot be used, because an older one of that name comes first in PATH, scripts/setup.sh says
# so. The message has the older tool's path, its version and the version that is needed. The test replaces apt-get, so that
# nothing is installed.
set -eu

setup=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset CC CXX
mkdir "$work/first" "$work/all"

stand_in() { # stand_in TOOL BODY: a program that comes first in PATH
    printf '#!/bin/sh\n%s\n' "$2" >"$work/first/$1"
    chmod +x "$work/first/$1"
}
# refuses TIER SENTENCE...: setup.sh fails and prints each of these sentences.
refuses() {
    tier=$1
    shift
    if PATH="$work/first:$PATH" "$setup" "$tier" >"$work/said" 2>&1; then
        echo "setup.sh $tier finds everything, and does not print: $1"
        exit 1
    fi
    for sentence; do
        grep -F -e "$sentence" "$work/said" >/dev/null || {
            cat "$work/said"
            echo "setup.sh $tier does not print: $sentence"
            exit 1
        }
    done
}

stand_in apt-get 'exit 0'
stand_in sudo 'exit 0'
stand_in cmake 'echo "cmake version 3.18.4"'
refuses demo "Installed, but still not usable: cmake (" \
    "cmake: $work/first/cmake is \"cmake version 3.18.4\"; 3.22 or later is needed. PATH also has, after it, /"
stand_in cmake 'echo "cmake: libuv.so.1 is missing"; exit 127'
refuses demo "cmake: $work/first/cmake is \"cmake: libuv.so.1 is missing\"; 3.22 or later is needed"
rm "$work/first/cmake"

stand_in cc 'case $* in --version) echo "cc 9.3.0" ;; *) echo "cc: unknown builtin"; exit 1 ;; esac'
refuses demo "gcc: $work/first/cc is \"cc 9.3.0\"; 11 or later is needed" "cc: unknown builtin"
CC="$work/first/none -m64" refuses demo "gcc: there is no $work/first/none in PATH"
rm "$work/first/cc"

stand_in pkg-config 'case $* in
*">= 0.15"*) echo "Requested check >= 0.15 but version of Check is 0.10"; exit 1 ;;
--version) echo 0.29 ;;
*pcfiledir*) echo /opt/old/pkgconfig ;;
esac'
refuses test "check: $work/first/pkg-config is \"0.29\"" "version of Check is 0.10" "that one is /opt/old/pkgconfig/check.pc"
rm "$work/first/pkg-config"

# Without apt-get setup.sh prints the reason too.
for tool in sh awk sed grep dirname readlink basename cat head tr id env make cc as ld; do
    ln -s "$(command -v "$tool")" "$work/all/"
done
rm "$work/first/apt-get"
stand_in cmake 'echo "cmake version 3.18.4"'
PATH=$work/all refuses demo "cmake: $work/first/cmake is \"cmake version 3.18.4\"; 3.22 or later is needed" "There is no apt-get here"

# The core and the demo need none of the libraries that the models library uses. Only processes and tests need MPI.
stand_in apt-get 'exit 1'
rm "$work/first/cmake"
stand_in cc 'case $* in *-ljansson* | *-lutf8proc* | *-lz*) echo "not found"; exit 1 ;; *) exit 0 ;; esac'
stand_in mpicc 'exit 1'
stand_in ldconfig 'echo "libopenblas.so.0 (libc6) => /lib/libopenblas.so.0"'
PATH="$work/first:$PATH" "$setup" demo
refuses models "Missing for Tapehead's models: libjansson-dev libutf8proc-dev zlib1g-dev libzstd-dev"
refuses mpi "Missing for Tapehead's mpi: libjansson-dev libutf8proc-dev zlib1g-dev libzstd-dev libopenmpi-dev"

# Only cross.sh needs a cross compiler and an emulator.
for tool in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64 qemu-aarch64-static; do
    stand_in $tool 'exit 1'
done
PATH="$work/first:$PATH" "$setup" demo
refuses cross "Missing for Tapehead's cross: gcc-aarch64-linux-gnu libc6-dev-arm64-cross g++-aarch64-linux-gnu qemu-user librandom123-dev"
stand_in musl-gcc 'exit 1'
refuses musl "Missing for Tapehead's musl: musl-tools musl-dev"

# A script that makes a root waits for another installation, and prints the message of apt-get if it fails.
stand_in id 'echo 0'
stand_in unshare 'exit 0'
stand_in sleep "echo waited >>$work/waited"
stand_in debootstrap 'exit 1'
stand_in apt-get "[ -e $work/waited ] || { echo 'E: Could not get lock /var/lib/dpkg/lock' >&2; exit 1; }
echo 'E: the mirror does not answer' >&2
exit 1"
touch "$work/file"
tar -cf "$work/archive" -C "$work" file
scripts=$(dirname "$setup")
status=0
(PATH="$work/first:$PATH" && . "$scripts/library/help.sh" && . "$scripts/library/root.sh" && need_roots "$scripts/.." "$work/archive") >"$work/said" 2>&1 ||
    status=$?
[ "$status" -eq 77 ] && [ -e "$work/waited" ] && grep -F 'E: the mirror does not answer' "$work/said" >/dev/null || {
    cat "$work/said"
    echo "need_roots returns $status without waiting, or does not print the message of apt-get"
    exit 1
}

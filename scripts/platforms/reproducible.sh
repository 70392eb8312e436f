#!/bin/sh
# reproducible.sh [OPTION...]: builds and installs the libraries twice and compares all installed files.
#
# The two builds differ in the folder, the time, the number of parallel jobs, the umask, the locale and the time zone. If root runs the
# script, a user without rights makes the second build. CC in the environment names the compiler.
# --keep    keeps the two builds, and prints where they are
set -eu

scripts=$(cd "$(dirname "$0")/.." && pwd)
. "$scripts/library/help.sh"
keep=

answer_help "$@"
for option; do
    case $option in
    --keep) keep=yes ;;
    *) refuse "unknown option $option" ;;
    esac
done
CC=${CC:-cc} "$scripts/setup.sh" models

work=$(mktemp -d)
clean_up() {
    [ -z "$keep" ] || { echo "the builds are in $work" && return; }
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
chmod 755 "$work"

# build FOLDER JOBS COMMAND...: copies the sources to FOLDER, and builds and installs them there. The command starts the build.
build() {
    folder=$work/$1 jobs=$2
    shift 2
    mkdir -p "$folder/source"
    tar -C "$scripts/.." --exclude=./.git --exclude='./build*' -cf - . | tar -xf - -C "$folder/source"
    [ "$1" != setpriv ] || chown -R 65534:65534 "$folder"
    env -i PATH="$PATH" HOME="$folder" CC="${CC:-cc}" "$@" sh -ec '
        "$3" -S "$1/source" -B "$1/build" -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=OFF -DCMAKE_INSTALL_LIBDIR=lib
        "$3" --build "$1/build" --parallel "$2"
        "$3" --install "$1/build" --prefix "$1/installed"
    ' sh "$folder" "$jobs" "$cmake" >"$work/log" 2>&1 || {
        tail -n 40 "$work/log"
        exit 1
    }
}

another_user=
if [ "$(id -u)" -eq 0 ]; then
    another_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
fi
cmake=$($another_user sh -c 'command -v cmake') # both users can start this one

umask 022
build first "$(nproc)" env LC_ALL=C TZ=UTC
umask 077
# shellcheck disable=SC2086 # a list of words
build another-folder-with-a-longer-name 1 $another_user env LC_ALL=C.UTF-8 TZ=Asia/Kathmandu

first=$work/first/installed second=$work/another-folder-with-a-longer-name/installed
if ! diff -r "$first" "$second"; then
    echo "the two builds differ"
    keep=yes
    exit 1
fi
printf '%s files of two builds are identical, %s of them libraries%s\n' "$(find "$first" -type f | wc -l)" \
    "$(find "$first" -type f \( -name '*.a' -o -name '*.so.*' \) | wc -l)" \
    "${another_user:+; two users made them}"

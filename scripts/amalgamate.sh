#!/bin/sh
# amalgamate.sh [--check] OUT: writes the core library as two files, tapehead.h and tapehead.c, to the folder OUT. A program
# compiles the second file with its own (docs/two-files.md):
#
#     cc -O2 app.c tapehead.c -lm -lpthread
#
# --check   writes only the checker of plain functions (docs/checking-functions.md): tapehead_check.h and tapehead_check.c. They
#           need a compiler for C99 or C++17, and libm. The macro TH_NO_POSIX leaves out child processes, time limits and locales
# The same commit always gives the same files. Needs Python 3, without --check only.
set -eu

root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
. "$root/scripts/library/check_files.sh"
check=
[ "${1:-}" != --check ] || { check=yes && shift; }
[ $# -eq 1 ] || refuse "one folder for the files is needed, and $# words are given"
case $1 in
-*) refuse "$1 is not an option" ;;
esac
mkdir -p "$1"
out=$(cd "$1" && pwd)
if [ "$check" ]; then
    cd "$root"
    write_check_files "$out"
    print_written "$out/tapehead_check.h" "$out/tapehead_check.c"
    exit
fi
command -v python3 >/dev/null || skip "python3 is missing"

# Names the commit, if the folder is a git checkout: "commit 0123456789ab", or "changed after commit ..." with changes.
commit() {
    [ "$(git -C "$root" rev-parse --show-prefix 2>/dev/null || echo none)" = "" ] || return 0
    short=$(git -C "$root" rev-parse --short=12 HEAD 2>/dev/null) || return 0
    if git -C "$root" diff --quiet HEAD -- CMakeLists.txt LICENSE cmake include src scripts/library; then
        printf ', commit %s' "$short"
    else
        printf ', changed after commit %s' "$short"
    fi
}

python3 -B "$root/scripts/library/two_files.py" "$root" "$(commit)" "$out"
print_written "$out/tapehead.h" "$out/tapehead.c"

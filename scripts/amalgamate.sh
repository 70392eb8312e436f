#!/bin/sh
# amalgamate.sh [--models | --check] OUT: writes the core library as two files, tapehead.h and tapehead.c, to the folder OUT. A program
# compiles the second file with its own (docs/two-files.md):
#
#     cc -O2 app.c tapehead.c -lm -lpthread
#
# With --models the two files have both libraries:
#
#     cc -O2 app.c tapehead.c -ljansson -lutf8proc -lm -lpthread
#
# With --check it writes only the checker of plain functions (docs/checking-functions.md), as tapehead_check.h and tapehead_check.c:
#
#     cc FILE.c tapehead_check.c -lm
#
# The same commit always gives the same files. Needs Python 3.
set -eu

root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
script=two_files.py name=tapehead models=
case ${1-} in
--check) script=check_files.py name=tapehead_check ;;
--models) models=--models ;;
esac
case ${1-} in
--check | --models) shift ;;
esac
[ $# -eq 1 ] || refuse "one folder for the files is needed, and $# words are given"
case $1 in
-*) refuse "$1 is not an option" ;;
esac
mkdir -p "$1"
out=$(cd "$1" && pwd)
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

python3 -B "$root/scripts/library/$script" "$root" "$(commit)" "$out" $models
print_written "$out/$name.h" "$out/$name.c"

#!/bin/sh
# zip.sh FILE: writes the autograder of a Gradescope assignment, which you upload there: the committed source and two scripts.
set -eu
[ $# -eq 1 ] || { echo "usage: zip.sh FILE" >&2; exit 2; }
here=$(dirname "$(readlink -f "$0")")
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
git -C "$here/../../../.." archive --format=zip --output="$out" --prefix= --add-file="$here/setup.sh" \
    --add-file="$here/run_autograder" --prefix=tapehead/ HEAD

#!/bin/sh
# readme_gradcheck.sh PROGRAM README: the failed check that README.md shows equals the output of the example.
set -eu
program=$1
readme=$2
shown=$(sed -n '/^    gradient of gaussian/,/^[^ ]/p' "$readme" | sed -n 's/^    //p')
[ -n "$shown" ] || { echo "$readme shows no failure of the example"; exit 1; }
printed=$("$program")
case "$printed" in
*"$shown"*) ;;
*)
    printf 'README.md shows\n%s\nand the example prints\n%s\n' "$shown" "$printed"
    exit 1
    ;;
esac

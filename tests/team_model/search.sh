#!/bin/sh
# search.sh MODE DEFINITION...: Spin searches the states of team.pml with these definitions (HELPERS=3, MUTANT_NO_RECHECK).
#   states    every state: assertions, and threads that sleep forever
#   cycles    every state: assertions, and threads that loop forever
#   sample    as many states as time permits, without storing them exactly: for models with too many states
# Prints one line that says whether the search was complete. The status is 0 if no error was found, 1 if one was found, and 3
# if the search was not complete and found none. With an error it prints the steps before it.
# MEMORY (MB, default 900) and SECONDS_LIMIT (default 3600) limit a search. OPTIMIZE is the C compiler's option (default -O1).
set -eu
here=$(dirname "$(readlink -f "$0")")
mode=$1
shift
case $mode in
states) flags="-DSAFETY -DCOLLAPSE" options= ;;
cycles) flags="-DNP -DCOLLAPSE" options=-l ;;
sample) flags="-DSAFETY -DBITSTATE" options="-w33 -k3" ;;
*) echo "search.sh: unknown mode $mode" >&2 && exit 2 ;;
esac
command -v spin >/dev/null || { echo "skipped: spin is not installed (scripts/setup.sh installs it)" && exit 77; }

definitions=
for definition; do
    definitions="$definitions -D$definition"
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 2' HUP INT TERM
cp "$here/team.pml" "$work"
cd "$work"
# shellcheck disable=SC2086 # lists of words
{
    spin $definitions -a team.pml >log || { cat log && exit 2; }
    ${CC:-cc} -w "${OPTIMIZE:--O1}" $flags -DMEMLIM="${MEMORY:-900}" -o pan pan.c
    timeout --signal=INT "${SECONDS_LIMIT:-3600}" ./pan $options -m100000 >log 2>&1 || true
}

states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' log)
# (A name in $MODEL says which model this was.)
say() {
    printf '%s: %s (%s states; %s)\n' "${MODEL:-$mode$definitions}" "$1" "$states" \
        "$(sed -n 's/.*elapsed time \([0-9.]* seconds\).*/\1/p' log)"
}
if grep -q 'errors: [1-9]' log; then
    say "error: $(sed -n 's/^pan:[0-9]*: \(.*\) (at depth.*/\1/p' log)"
    [ -n "${QUIET:-}" ] || spin $definitions -t -p -g -l team.pml | tail -n 150
    exit 1
fi
grep -q 'errors: 0' log || { cat log && exit 2; }
if [ "$mode" = sample ] || grep -qE 'Search not completed|search depth too small' log; then
    say "no error, not complete"
    exit 3
fi
say "no error, complete"

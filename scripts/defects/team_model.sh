#!/bin/sh
# team_model.sh [--memory MB] [--minutes M]: searches larger models of a team's protocol than the tests do (tests/team_model).
#   1. all checks of tests/team_model/check.sh
#   2. two helpers with more runs and more wake-ups without a cause: every state
#   3. three helpers, one run and the end: every state, if memory and time suffice
#   4. three helpers, two runs: a sample of the states
# Each search prints one line that says whether it was complete. Fails if one finds an error.
# --memory MB    for one search (default 6000)
# --minutes M    for one search (default 15)
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
model=$root/tests/team_model
memory=6000 minutes=15

. "$root/scripts/library/help.sh"
answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --memory | --minutes)
        need_value "$@"
        case $2 in
        '' | *[!0-9]*) refuse "$1 needs a number, not $2" ;;
        esac
        [ "$1" = --memory ] && memory=$2 || minutes=$2
        shift
        ;;
    *) refuse "unknown option $1" ;;
    esac
    shift
done
"$root/scripts/setup.sh" audit

failed=
search() { # search MODE DEFINITION...: status 3 means that the search was not complete, and found no error
    status=0
    OPTIMIZE=-O2 MEMORY=$memory SECONDS_LIMIT=$((60 * minutes)) "$model/search.sh" "$@" || status=$?
    [ $status -eq 0 ] || [ $status -eq 3 ] || failed=yes
}

"$model/check.sh" || failed=yes
search states RUNS=3 SPURIOUS=2
search states RUNS=3 SPURIOUS=2 WAKES=1
search states RUNS=3 ABSENT
search cycles RUNS=2
search states HELPERS=3 RUNS=0
search states HELPERS=3 RUNS=0 WAKES=1
search states HELPERS=3 RUNS=1 SPURIOUS=0
search states HELPERS=3 RUNS=1 SPURIOUS=0 WAKES=1
search states HELPERS=3 RUNS=1 SPURIOUS=0 ABSENT
search sample HELPERS=3 RUNS=2
[ -z "$failed" ] || exit 1

#!/bin/sh
# check.sh: Spin finds no error in the model of a team with 2 helpers (team.pml), and finds an error in each of its mutants. A
# mutant that passes would show that the model or its properties no longer see that mistake.
# scripts/defects/team_model.sh searches larger models, and searches for cycles.
set -u
search=$(dirname "$0")/search.sh
status=0

right() { # right MODE DEFINITION...: no error, and the search is complete
    "$search" "$@"
    found=$?
    [ $found -ne 77 ] || exit 77
    [ $found -eq 0 ] || status=1
}

wrong() { # wrong MODE MUTANT: Spin finds an error. WAKES=1 makes a helper depend on another one that wakes it.
    QUIET=1 OPTIMIZE=-O0 MODEL=$2 "$search" "$1" RUNS=2 WAKES=1 "MUTANT_$2"
    if [ $? -ne 1 ]; then
        echo "Spin finds no error in the mutant $2"
        status=1
    fi
}

right states RUNS=2
right states RUNS=2 WAKES=1
right states RUNS=2 ABSENT
mutants=$(sed -n 's/^#ifn*def MUTANT_//p' "$(dirname "$0")/team.pml" | sort -u)
for mutant in $mutants; do
    case $mutant in
    FORGET_CLOSED_RUN) wrong cycles "$mutant" ;; # the helper never sleeps
    *) wrong states "$mutant" ;;
    esac
done
echo "$(echo "$mutants" | wc -w) mutants"
exit $status

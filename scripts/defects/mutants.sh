#!/bin/sh
# mutants.sh [OPTION...] [FILE...]: mutation testing. Changes the code of the library in one place at a time, as a slip would, and
# runs the tests that run the changed line. A mutant that passes all of them survives: a test is missing. FILE is a C file
# or a folder of src (default: all of src). Builds in build-mutants/; changes no source. A vector kernel is compiled for one
# instruction set: the best of this processor.
#   --changed BASE        only lines that changed since the commit BASE
#   --sample N            N mutants, spread over the lines
#   --seed S              another sample (default 1)
#   --survivors-of FILE   the survivors in these results, after new tests; can be repeated
#   --budget SECONDS      processor time of the tests of one mutant (default 60)
#   --all-tests           survivors run the examples' quick tests also if a suite runs the line
#   --jobs J              mutants at a time (default: one for each processor)
#   --results FILE        where results go, a JSON object in each line (default build-mutants/results.jsonl)
#   --continue            keeps the present results, and runs the other mutants; otherwise they move to FILE.previous
#   --list                prints the mutants and runs nothing
# Known equivalents are in tests/mutants/equivalents.txt. Exit status: 0 no survivors, 1 survivors, 2 a wrong option or build.
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
PYTHONDONTWRITEBYTECODE=1 exec python3 "$root/tests/mutants/mutants.py" "$@"

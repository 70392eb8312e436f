#!/bin/sh
# test.sh [OPTION...]: installs missing packages, builds both libraries and runs all tests. Options go to ctest:
# test.sh -R attention, test.sh -LE slow.
set -eu

scripts=$(dirname "$(readlink -f "$0")")
. "$scripts/library/help.sh"
answer_help "$@"
"$scripts/setup.sh" test
build=$("$scripts/library/configure.sh" -DTAPEHEAD_TESTS=ON -DTAPEHEAD_ISAS=all -DTAPEHEAD_EXAMPLES=ON -DTAPEHEAD_MPI=ON)
cmake --build "$build" --parallel "$(nproc)"
status=0
ctest --test-dir "$build" --output-on-failure -j2 "$@" || status=$?
if [ "$status" -eq 0 ]; then
    print_next demo.sh
else
    print_written "$build/Testing/Temporary/LastTest.log"
    print_next test.sh --rerun-failed
fi
exit "$status"

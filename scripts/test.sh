#!/bin/sh
# test.sh [OPTION...]: installs what is missing, builds everything and runs all tests. Options go to ctest:
# test.sh -R attention, test.sh -LE slow.
set -eu

scripts=$(dirname "$(readlink -f "$0")")
"$scripts/setup.sh" test
build=$("$scripts/configure.sh" -DTAPEHEAD_TESTS=ON -DTAPEHEAD_EXAMPLES=ON)
cmake --build "$build" --parallel "$(nproc)"
exec ctest --test-dir "$build" --output-on-failure -j2 "$@"

#!/bin/sh
# test.sh [OPTION...]: installs what is missing, builds everything and runs all tests. Options go to ctest:
# test.sh -R attention, test.sh -LE slow.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
"$root/scripts/setup.sh" test
cmake -S "$root" -B "$root/build" -DTAPEHEAD_TESTS=ON -DTAPEHEAD_EXAMPLES=ON
cmake --build "$root/build" --parallel "$(nproc)"
exec ctest --test-dir "$root/build" --output-on-failure -j2 "$@"

#!/bin/sh
# coverage.sh [--missed FOLDER_OR_FILE...] [-- OPTION...]: installs missing packages, builds with gcov, runs the tests and prints
# the coverage of lines and branches of src by folder. The goals are 97 % of lines and 90 % of branches.
#   --missed FOLDER_OR_FILE...  only lists the missed lines and branches there, from the last run
#   -- OPTION...                options for ctest instead of the usual choice, for example: -- -R test_cache. The counts of
#                               earlier runs are kept, so that one suite can be added quickly
# tests/coverage/reasons.txt lists what the tests cannot reach, with reasons.
set -eu

scripts=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$scripts/library/help.sh"
answer_help "$@"
root=$(dirname "$scripts")
build=$root/build-coverage
if [ "${1:-}" = --missed ]; then
    need_value "$@"
    shift
    [ -e "$build/coverage.json" ] || refuse "there is no coverage of an earlier run"
    exec python3 "$root/tests/coverage/report.py" "$build/coverage.json" "$@"
fi
keep=
case ${1:-} in
'') set -- -LE 'slow|package' ;; # those measure, or test what is not in src
--)
    shift
    keep=yes
    ;;
*) refuse "unknown option $1" ;;
esac

"$scripts/setup.sh" audit
# -O0, so that each branch of the source is one; without assertions, whose failure no test can reach
cmake -S "$root" -B "$build" -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug -DTAPEHEAD_TESTS=ON -DTAPEHEAD_EXAMPLES=ON \
    -DCMAKE_C_FLAGS_DEBUG="--coverage -fprofile-update=atomic -DNDEBUG" >/dev/null
cmake --build "$build" --parallel "$(nproc)"
[ -n "$keep" ] || find "$build" -name '*.gcda' -delete
# A test that counts instructions or measures memory may fail in this build.
ctest --test-dir "$build" -j2 "$@" || echo "Some tests failed in this build; their lines count all the same." >&2
gcovr --root "$root" --filter "$root/src/" --gcov-ignore-parse-errors --json "$build/coverage.json" -j 2 "$build"
status=0
python3 "$root/tests/coverage/report.py" "$build/coverage.json" || status=$?
print_written "$build/coverage.json"
print_next coverage.sh --missed src/nn
exit $status

#!/bin/sh
# busy.sh [--rounds N] [--out FILE]: measures training beside other programs, with more threads than processors, and in
# a control group with half a processor. Builds the programs and writes bench/results/busy.md (or FILE). Exits with 1 if
# a limit is exceeded. Run nothing else at the same time; takes about four minutes.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build-bench
out=$root/bench/results/busy.md
rounds=
. "$root/scripts/library/help.sh"
answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --rounds | --out)
        need_value "$@"
        case $1 in
        --rounds) rounds=$2 ;;
        --out) out=$2 ;;
        esac
        shift
        ;;
    *) refuse "unknown option $1" ;;
    esac
    shift
done

"$root/scripts/setup.sh" bench
echo "Building into $build" >&2
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BENCH=ON -DTAPEHEAD_EXAMPLES=ON -DTAPEHEAD_TESTS=OFF >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target bench_train_step copy_task >/dev/null
status=0
python3 "$root/bench/studies/busy.py" --build "$build" --out "$out" ${rounds:+--rounds "$rounds"} || status=$?
[ ! -e "$out" ] || print_written "$out"
print_next ../generation.sh
exit "$status"

#!/bin/sh
# busy.sh [--rounds N] [--out FILE]: how training holds up beside other programs, with more threads than processors, and in a control
# group with half a processor: builds, measures, and writes bench/results/busy.md (or FILE). Exits with 1 where a limit is exceeded.
# Nothing else should run meanwhile; takes some four minutes.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/bench
"$root/scripts/setup.sh" bench
echo "Building into $build" >&2
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BENCH=ON -DTAPEHEAD_EXAMPLES=ON -DTAPEHEAD_TESTS=OFF >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target bench_train_step copy_task >/dev/null
exec python3 "$root/bench/busy.py" --build "$build" --out "$root/bench/results/busy.md" "$@"

#!/bin/sh
# cores.sh [--quick] [--seconds N] [--out FILE] [CONFIGURATION...]: predicts how much faster a training step is on up to
# 64 cores, and checks the prediction with the cores of this machine. Builds bench/studies/cores.c and prints a table for each
# configuration (default: copyB, char12, gpt2s). Writes bench/results/cores.md (or FILE). --seconds: for each number of
# threads (default 10). --quick: copyB and char12, one second. Takes about five minutes, and --quick one minute.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build-bench
out=$root/bench/results/cores.md
configurations="copyB char12 gpt2s" chosen=
seconds=10
. "$root/scripts/library/help.sh"
answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --quick) configurations="copyB char12" seconds=1 ;;
    --seconds | --out)
        need_value "$@"
        case $1 in
        --seconds) seconds=$2 ;;
        --out) out=$2 ;;
        esac
        shift
        ;;
    -*) refuse "unknown option $1" ;;
    *) chosen="$chosen $1" ;;
    esac
    shift
done

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BENCH=ON -DTAPEHEAD_TESTS=OFF \
    -DTAPEHEAD_EXAMPLES=OFF >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target bench_cores >/dev/null
# shellcheck disable=SC2086 # a list of words
PYTHONPATH=$root/bench python3 "$root/bench/studies/cores.py" --program "$build/bench/cores" --seconds "$seconds" --out "$out" ${chosen:-$configurations}
print_written "$out"
print_next busy.sh

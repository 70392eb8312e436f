#!/bin/sh
# processes.sh [--out DIR] [--configurations a,b] [--engines a,b] [--processes 2,4] [--rounds N] [--seconds N]
#        [--no-networks] [--no-large] [--no-peers] [--continue]: measures training in several processes, Tapehead over
# MPI beside PyTorch's DistributedDataParallel with gloo: on this machine, and on emulated networks, which need root.
# Predicts steps in 16 to 1024 processes. Writes processes.csv and processes.md to bench/results/ (or DIR). --continue
# resumes an interrupted session, with the same --seconds. Installs missing packages. Run nothing else at the same time;
# takes about an hour and a half on two cores.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-bench
peers=$build/peers
out=$root/bench/results
options= with_peers=yes

. "$root/scripts/library/help.sh"
answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --no-networks | --no-large | --continue) options="$options $1" ;;
    --no-peers) with_peers= ;;
    --out | --configurations | --engines | --processes | --rounds | --seconds)
        need_value "$@"
        case $1 in
        --out) out=$2 ;;
        *) options="$options $1=$2" ;;
        esac
        shift
        ;;
    *) refuse "unknown option $1" ;;
    esac
    shift
done

"$root/scripts/setup.sh" bench
echo "Building into $build" >&2
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BENCH=ON -DTAPEHEAD_TESTS=OFF \
    -DTAPEHEAD_EXAMPLES=OFF -DTAPEHEAD_MPI=ON >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target bench_train_step bench_processes_step bench_network >/dev/null
. "$root/bench/peers.sh"
[ -z "$with_peers" ] || ! make_environment || install_torch

# shellcheck disable=SC2086 # $options has several words
python3 "$root/bench/processes.py" --programs "$build/bench" --out "$out" --journal "$build/processes.jsonl" $options \
    ${with_peers:+--peers "$peers/bin/python"}
cat "$out/processes.md"
print_written "$out/processes.csv" "$out/processes.md"
print_next run.sh --quick

#!/bin/sh
# run.sh [--quick] [--out DIR] [--configurations a,b] [--engines a,b] [--precisions a,b] [--rounds N] [--seconds N]
#        [--threads N] [--no-peers] [--continue]: compares Tapehead in every precision with PyTorch and JAX here.
# Writes latest.csv, latest.md and latest.svg to bench/results/ (or DIR). Without --quick, --configurations, --engines
# and --precisions it also measures products in every precision (linear.md), kernels by shape, growth curves and a
# profile. --continue resumes an interrupted session. Installs missing packages. Run nothing else at the same time. A
# whole session takes hours; --quick takes five minutes after the peers are installed.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-bench
peers=$build/peers
out=$root/bench/results
threads=$(nproc)
quick= chosen= resume= rounds= seconds=10 with_peers=yes

. "$root/scripts/library/help.sh"
answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=--quick ;;
    --continue) resume=--continue ;;
    --no-peers) with_peers= ;;
    --out | --configurations | --engines | --precisions | --rounds | --seconds | --threads)
        need_value "$@"
        case $1 in
        --out) out=$2 ;;
        --configurations | --engines | --precisions) chosen="$chosen $1=$2" ;;
        --rounds) rounds=$2 ;;
        --seconds) seconds=$2 ;;
        --threads) threads=$2 ;;
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
    -DTAPEHEAD_EXAMPLES=OFF >/dev/null
cmake --build "$build" --parallel "$(nproc)" >/dev/null
programs=$build/bench

. "$root/bench/peers.sh"
if [ -n "$with_peers" ] && make_environment; then
    install_torch
    install_peer jax 'jax[cpu]==0.10.2' optax
fi

# -- whole steps --

# shellcheck disable=SC2086 # $chosen has several words
python3 "$root/bench/session.py" --programs "$programs" --out "$out" --journal "$build/session.jsonl" $resume $quick $chosen \
    ${rounds:+--rounds "$rounds"} --seconds "$seconds" --threads "$threads" ${with_peers:+--peers "$peers/bin/python"}
cat "$out/latest.md"
print_written "$out/latest.csv" "$out/latest.md" "$out/latest.svg"
if [ -n "$quick$chosen" ]; then
    print_next run.sh
    exit
fi

# -- parts of a step --

echo "Measuring linear" >&2
python3 "$root/bench/linear.py" --program "$programs/linear" --out "$out" --threads "$threads" \
    ${with_peers:+--peers "$peers/bin/python"}
for name in products attention elementwise; do
    echo "Measuring $name" >&2
    "$programs/$name" --threads "$threads" >"$out/$name.csv"
done
python3 "$root/bench/report.py" "$out"
echo "Measuring growth" >&2
python3 "$root/bench/growth.py" --program "$programs/train_step" --out "$out" --threads "$threads"
echo "Profiling a step of gpt2s; its trace goes to $build/gpt2s.trace.json" >&2
"$programs/train_step" gpt2s --threads "$threads" --seconds 0 --profile "$build/gpt2s.trace.json" 2>"$out/profile_gpt2s.txt" \
    >/dev/null
for name in linear.csv linear.md products.csv attention.csv elementwise.csv kernels.md growth.csv growth.md growth.svg \
    profile_gpt2s.txt; do
    print_written "$out/$name"
done
print_written "$build/gpt2s.trace.json"
print_next generation.sh

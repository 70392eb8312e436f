#!/bin/sh
# run.sh [--quick] [--out DIR] [--configurations a,b] [--rounds N] [--threads N] [--no-peers]: measures Tapehead beside PyTorch
# and JAX on this machine and writes bench/results/ (or DIR): latest.csv, latest.md, latest.svg, and unless --quick or
# --configurations says otherwise the kernels by shape, the growth curves and a profile. Installs what is missing.
# Nothing else should run meanwhile. --quick takes less than five minutes once the peers are installed.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build/bench
peers=$build/peers
out=$root/bench/results
threads=$(nproc)
quick= chosen= rounds=3 with_peers=yes

usage() {
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=--quick ;;
    --no-peers) with_peers= ;;
    --out | --configurations | --rounds | --threads)
        [ $# -gt 1 ] || usage
        case $1 in
        --out) out=$2 ;;
        --configurations) chosen=$2 ;;
        --rounds) rounds=$2 ;;
        --threads) threads=$2 ;;
        esac
        shift
        ;;
    *) usage ;;
    esac
    shift
done

"$root/scripts/setup.sh" bench
echo "Building into $build" >&2
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BENCH=ON -DTAPEHEAD_TESTS=OFF \
    -DTAPEHEAD_EXAMPLES=OFF >/dev/null
cmake --build "$build" --parallel "$(nproc)" >/dev/null
programs=$build/bench

# -- the peers, in an environment of their own: versions that are asked for, or the newest where pip has not got them --

install() { # install REQUIREMENT...
    "$peers/bin/pip" install --quiet "$@"
}
if [ -n "$with_peers" ] && [ ! -e "$peers/complete" ]; then
    echo "Installing PyTorch and JAX into $peers" >&2
    python3 -m venv "$peers"
    install torch==2.13.0 numpy || install torch numpy
    install 'jax[cpu]==0.10.2' optax || install 'jax[cpu]' optax
    touch "$peers/complete"
fi

# -- whole steps --

python3 "$root/bench/sitting.py" --programs "$programs" --out "$out" --rounds "$rounds" --threads "$threads" $quick \
    ${chosen:+--configurations "$chosen"} ${with_peers:+--peers "$peers/bin/python"}
cat "$out/latest.md"
if [ -n "$quick$chosen" ]; then
    exit
fi

# -- what they are made of --

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

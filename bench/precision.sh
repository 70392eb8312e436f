#!/bin/sh
# precision.sh TEXT [--copies N] [--seeds N] [--steps N] [--threads N]: checks that training succeeds in each precision
# of matrix products. The copy task must copy all new sequences for each of --copies seeds (default 20). The model of
# programs/language_model/language_model.c is trained on the text for --steps steps (default 1000) with --seeds seeds (default 4). Its
# loss on the whole validation part must be within 0.002 of float32's loss in bfloat16x3, and within 0.02 in bfloat16.
#
# Two trainings that differ in a single bit diverge, and their final losses differ by chance. Therefore a fourth
# training runs in float32 with a learning rate that differs in the seventh digit: its difference shows the size of
# chance. Differences are means over the seeds, with standard errors. A difference fails if its mean exceeds the limit
# by more than two standard errors. Takes a few minutes.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-bench
text='' seeds=4 steps=1000 threads=$(nproc) copies=20

. "$root/scripts/library/help.sh"
answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --seeds | --steps | --threads | --copies)
        need_value "$@"
        case $2 in
        '' | 0* | *[!0-9]*) refuse "$1 must be a whole number of at least 1, not $2" ;;
        esac
        case $1 in
        --seeds) seeds=$2 ;;
        --steps) steps=$2 ;;
        --threads) threads=$2 ;;
        --copies) copies=$2 ;;
        esac
        shift
        ;;
    -*) refuse "unknown option $1" ;;
    *)
        [ -z "$text" ] || refuse "expected one text, got also $1"
        text=$1
        ;;
    esac
    shift
done
[ -n "$text" ] || refuse "the text is missing: give the path of a file"
[ -r "$text" ] || {
    echo "precision.sh: cannot read the text $text" >&2
    exit 2
}

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BENCH=ON -DTAPEHEAD_TESTS=OFF \
    -DTAPEHEAD_EXAMPLES=ON >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target copy_task language_model >/dev/null
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
status=0

for precision in float32 bfloat16x3 bfloat16; do
    "$root/tests/examples/copy_task_learns.sh" "$build/examples/copy_task" 1 "$copies" --precision $precision \
        --threads "$threads" >"$out/copies" || status=1
    echo "copy task, $precision: $(grep -c ' sequence_accuracy=1.0000' "$out/copies") of $copies seeds copy all sequences"
done

train() { # train NAME [OPTION...]: appends "NAME seed loss" to losses
    name=$1
    shift
    "$build/programs/language_model" train "$text" "$out/run" --recipe nanogpt --force --quiet --seed "$seed" --steps "$steps" \
        --threads "$threads" --eval-every "$steps" --eval-batches 1 --sample-tokens 0 "$@" >"$out/printed"
    line="$name $seed $(sed -n 's/.*: loss=\([0-9.]*\).*/\1/p' "$out/printed")"
    echo "language model, $line, $(sed -n 's/.* seconds=\([0-9.]*\).*/\1/p' "$out/printed") s"
    echo "$line" >>"$out/losses"
}
seed=1
while [ "$seed" -le "$seeds" ]; do
    train float32
    train chance --lr 0.0030000003
    train bfloat16x3 --precision bfloat16x3
    train bfloat16 --precision bfloat16
    seed=$((seed + 1))
done

awk -v seeds="$seeds" '
function abs(x) { return x < 0 ? -x : x }
{ loss[$1, $2] = $3; sum[$1] += $3; square[$1] += $3 * $3 }
function row(name, limit,    seed, d, s, q, most, mean, error, verdict) {
    for (seed = 1; seed <= seeds; seed++) {
        d = loss[name, seed] - loss["float32", seed]
        s += d; q += d * d
        if (abs(d) > most) most = abs(d)
    }
    mean = s / seeds
    error = seeds == 1 ? 0 : sqrt(abs(q / seeds - mean * mean) / (seeds - 1))
    verdict = !limit ? "" : abs(mean) <= limit ? "within " limit : abs(mean) - 2 * error <= limit ? "not clearly beyond " limit : "BEYOND " limit
    printf "%-12s %10.4f %+12.4f +- %.4f %14.4f   %s\n", name, sum[name] / seeds, mean, error, most, verdict
    failed = failed || verdict ~ /BEYOND/
}
END {
    mean = sum["float32"] / seeds
    printf "%-12s %10s %22s %14s\n", "", "mean loss", "from float32", "largest"
    deviation = seeds == 1 ? 0 : sqrt(abs(square["float32"] / seeds - mean * mean) * seeds / (seeds - 1))
    printf "%-12s %10.4f   (standard deviation between seeds %.4f)\n", "float32", mean, deviation
    row("chance", 0); row("bfloat16x3", 0.002); row("bfloat16", 0.02)
    exit failed
}' "$out/losses" || status=1
exit $status

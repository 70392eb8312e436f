#!/bin/sh
# tuning.sh: compares LoRA beside frozen weights in q8_0, bfloat16 and float32 with tuning of all parameters: memory, its
# forecast, and the time of a step. A Llama with the shape of SmolLM2-360M and random weights, one sequence of 128 tokens,
# adapters of rank 16 on q_proj and v_proj, AdamW. Each case runs with recomputation and some also without. The ratio of
# times is to the tuning of all parameters with the same setting. Interleaved rounds; the fastest step of each case counts.
# ROUNDS: their number (default 3). THREADS: default 0, one for each processor.
# Takes about 5 minutes and 6.3 GB of memory. Writes bench/results/tuning.md. Run nothing else at the same time.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/library/help.sh"
answer_help "$@"
[ $# -eq 0 ] || refuse "unknown argument $1"
build=$root/build-bench
rounds=${ROUNDS:-3}
work=$(mktemp -d)
lines=$work/lines
trap 'rm -rf "$work"' EXIT

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BENCH=ON -DTAPEHEAD_TESTS=OFF \
    -DTAPEHEAD_EXAMPLES=OFF >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target bench_tuning >/dev/null

model="--width 960 --heads 15 --kv-heads 5 --layers 32 --mlp-width 2560 --vocabulary 49152 --tied --length 128"

# run TUNED WEIGHTS RECOMPUTED OPTION...: prints a line. (The options are words without spaces.)
run() {
    tuned=$1 weights=$2 recomputed=$3
    shift 3
    [ "$recomputed" = no ] || set -- "$@" --recompute
    # shellcheck disable=SC2086
    echo "tuned=$tuned weights=$weights recomputed=$recomputed $("$build/bench/tuning" $model --threads "${THREADS:-0}" "$@")" |
        tee -a "$lines"
}

load_before=$(cut -d' ' -f1 /proc/loadavg)
for round in $(seq "$rounds"); do
    for recomputed in yes no; do
        run all float32 $recomputed
        run lora q8_0 $recomputed --lora 16 --attention --storage q8_0
    done
    for weights in bfloat16 float32; do
        run lora $weights yes --lora 16 --attention --storage $weights
    done
done

{
    printf '# Tuning with adapters, compared with tuning of all parameters\n\n'
    printf 'Measured on %s: %s, %s processors. Load average of the machine before the runs: %s (0 is a quiet machine).\n' \
        "$(date -u +%F)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(nproc)" "$load_before"
    printf '%s\n\n' "$(sed -n 's/.* build=//p' "$lines" | sort -u | paste -sd ';' | sed 's/;/; /g')."
    printf 'A Llama with the shape of SmolLM2-360M (362 million random parameters), one sequence of 128 tokens, AdamW. LoRA:\n'
    printf 'rank 16 on q_proj and v_proj, 1.6 million parameters. Recomputed: each block saves only its result. MiB by the\n'
    printf "context's count: base: the weights as stored; total: also adapters or gradients, moments, and the most values of a step.\n"
    printf 'Forecast: of a context without data. Time: of the fastest step of %s interleaved rounds, and relative to all\n' "$rounds"
    printf 'parameters with the same recomputation.\n\n'
    printf '| tuned | weights | recomputed | base | total | total / base | forecast | peak RSS | ms | time / all |\n'
    printf '|---|---|---|---:|---:|---:|---:|---:|---:|---:|\n'
    awk '
        {
            for (i = 1; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] }
            key = value["tuned"] " | " value["weights"] " | " value["recomputed"]
            if (!(key in ms)) {
                order[++count] = key
                recomputed[key] = value["recomputed"]
                memory[key] = sprintf("%.1f | %.1f | %.3f | %.1f | %.0f", value["base_mib"], value["peak_mib"],
                                      value["over_base"], value["forecast_mib"], value["peak_rss_mib"])
            }
            if (!(key in ms) || value["min_ms"] + 0 < ms[key])
                ms[key] = value["min_ms"] + 0
        }
        END {
            for (i = 1; i <= count; i++) {
                key = order[i]
                printf "| %s | %s | %.0f | %.2f |\n", key, memory[key], ms[key],
                       ms[key] / ms["all | float32 | " recomputed[key]]
            }
        }' "$lines"
} >"$root/bench/results/tuning.md"
print_written "$root/bench/results/tuning.md"
print_next run.sh --quick

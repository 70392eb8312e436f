#!/bin/sh
# generation.sh [PYTHON]: compares tokens per second with transformers' generate, on a GPT-2 with 124 million
# parameters, for batches of 1 and 8. PYTHON must have transformers (default: the environment of scripts/interop.sh;
# without it only Tapehead runs). Runs two rounds, prints a line for each run and writes bench/results/generation.md.
# Run nothing else at the same time.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/help.sh"
answer_help "$@"
case ${1:-} in
-*) refuse "unknown option $1" ;;
esac
build=$root/build/bench
python=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/tapehead/interop/bin/python}
threads=$(nproc)
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BENCH=ON -DTAPEHEAD_TESTS=OFF \
    -DTAPEHEAD_EXAMPLES=OFF >/dev/null
cmake --build "$build" --parallel "$threads" --target bench_generation bench_probe >/dev/null

for batch in 1 8; do
    for round in 1 2; do
        echo "engine=tapehead $("$build/bench/generation" --batch $batch --threads "$threads")" | tee -a "$lines"
        echo "engine=tapehead-bfloat16 $("$build/bench/generation" --batch $batch --threads "$threads" \
            --precision bfloat16)" | tee -a "$lines"
        [ -x "$python" ] || continue
        echo "engine=transformers $(PYTHONDONTWRITEBYTECODE=1 "$python" -W ignore "$root/bench/generation_peer.py" \
            --batch $batch --threads "$threads" 2>/dev/null)" | tee -a "$lines"
    done
done
bandwidth=$("$build/bench/probe" | sed -n 's/^triad_dram_n_gbs=//p')

{
    printf '# Generation, compared with transformers\n\n'
    printf 'Measured on %s: %s, %s threads; GPT-2 of 124 million parameters in float32, random weights, greedy, prompts of\n' \
        "$(date -u +%F)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$threads"
    printf "32 tokens, 64 new ones each; the best of three runs in each of two rounds. tapehead-bfloat16 multiplies in bfloat16.\nTriad from memory: %s GB/s.\n" \
        "$bandwidth"
    printf '%s\n' "$(sed -n 's/.*build="\([^"]*\)".*/\1/p' "$lines" | sort -u | paste -sd ';' | sed 's/;/; /g')."
    printf '\n| batch | engine | tokens/s | prompt ms | ms for each further token | peak RSS MiB |\n|---:|---|---:|---:|---:|---:|\n'
    sort -t= -k4,4nr "$lines" | awk '
        {
            for (i = 1; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] }
            key = value["batch"] " " value["engine"]
            if (!(key in best) || value["tokens_per_second"] > best[key] + 0) {
                best[key] = value["tokens_per_second"]
                row[key] = sprintf("| %s | %s | %s | %s | %s | %s |", value["batch"], value["engine"],
                                   value["tokens_per_second"], value["prompt_ms"], value["token_ms"], value["peak_rss_mib"])
            }
        }
        END { for (key in row) print row[key] }' | sort -t'|' -k2,2n -k3,3
} >"$root/bench/results/generation.md"
print_written "$root/bench/results/generation.md"
print_next run.sh --quick

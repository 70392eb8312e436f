#!/bin/sh
# generation.sh [PYTHON]: compares generation with llama.cpp and transformers, on a Llama with 134 million random
# parameters. It has weights in float32, bfloat16 and q8_0, the last two also in the precisions bfloat16 and int8. There
# are 1 and 2 threads, a prompt of 256 tokens, and then 64 tokens. PYTHON must have transformers, gguf and llama-cpp-python (default: the environment of
# scripts/interop.sh; a package that is missing leaves its rows out). Interleaved rounds; the fastest of each counts. ROUNDS: their number (default 3).
# Prints a line for each run and writes bench/results/generation.md. Run nothing else at the same time.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/library/help.sh"
answer_help "$@"
case ${1:-} in
-*) refuse "unknown option $1" ;;
esac
build=$root/build-bench
python=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/tapehead/interop/bin/python}
rounds=${ROUNDS:-3}
export PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d)
lines=$work/lines
trap 'rm -rf "$work"' EXIT

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BENCH=ON -DTAPEHEAD_TESTS=OFF \
    -DTAPEHEAD_EXAMPLES=OFF >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target bench_generation bench_probe >/dev/null

has() {
    [ -x "$python" ] && "$python" -c "import $1" 2>/dev/null
}

folder=$work/model
model="--llama --vocabulary 32000"
if has gguf && has transformers; then
    "$python" -W ignore "$root/bench/generation_model.py" "$folder" >/dev/null 2>&1
    model="--folder $folder"
fi

# run ENGINE THREADS TYPE COMMAND...: prints a line; nothing if the command fails.
run() {
    engine=$1 threads=$2 type=$3
    shift 3
    if result=$("$@" --prompt 256 --tokens 64 --repeats 2 --threads "$threads" 2>"$work/error"); then
        echo "engine=$engine threads=$threads type=$type $result" | tee -a "$lines"
    else
        echo "$engine $type: $(tail -1 "$work/error")" >&2
    fi
}

no_repack=
if [ -f "$folder/q8_0.gguf" ] && has llama_cpp && ! "$python" -W ignore "$root/bench/generation_llama.py" \
    --file "$folder/q8_0.gguf" --tokens 2 --repeats 1 >/dev/null 2>&1; then
    no_repack=--no-repack
fi
load_before=$(cut -d' ' -f1 /proc/loadavg)
for round in $(seq "$rounds"); do
    for threads in 1 2; do
        for type in float32 bfloat16 q8_0; do
            source=$model
            [ -f "$folder/$type.gguf" ] && source="--folder $folder/$type.gguf"
            [ $type = float32 ] || [ -f "$folder/$type.gguf" ] || source="$model --storage $type"
            run tapehead $threads $type "$build/bench/generation" $source
            # In these precisions both operands are rounded, as the others do.
            case $type in
            bfloat16) run tapehead-bfloat16 $threads $type "$build/bench/generation" $source --precision bfloat16 ;;
            q8_0) run tapehead-int8 $threads $type "$build/bench/generation" $source --precision int8 ;;
            esac
            # llama.cpp's layout of q8_0 for AMX is a crash on machines whose system does not permit AMX.
            repack=
            [ $type != q8_0 ] || repack=$no_repack
            has llama_cpp && [ -f "$folder/$type.gguf" ] && run llama.cpp $threads $type \
                "$python" -W ignore "$root/bench/generation_llama.py" --file "$folder/$type.gguf" $repack
            [ $type != q8_0 ] && [ -f "$folder/config.json" ] && run transformers $threads $type \
                "$python" -W ignore "$root/bench/generation_peer.py" --folder "$folder" --dtype $type
        done
    done
done
bandwidth=$("$build/bench/probe" | sed -n 's/^triad_dram_\([1n]\)_gbs=/\1: /p' | paste -sd, | sed 's/,/, /; s/1: \([^,]*\)/\1 with one thread/; s/n: \(.*\)/\1 with all/')

{
    printf '# Generation, compared with llama.cpp and transformers\n\n'
    printf 'Measured on %s: %s, %s processors. Llama of 134 million random parameters, batch 1, greedy; tokens per second of\n' \
        "$(date -u +%F)" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(nproc)"
    printf 'a prompt of 256 and of the 63 tokens after the first one. Load: ms to create and fill the model. The fastest of\n'
    printf '%s interleaved rounds. Load average of the machine before the runs: %s (0 is a quiet machine).\n' "$rounds" "$load_before"
    [ -z "$no_repack" ] || printf 'llama.cpp runs q8_0 without its own layout of the weights (use_extra_bufts off), with which it crashes here.\n'
    printf 'Triad from memory: %s GB/s.\n' "$bandwidth"
    printf '%s\n' "$(sed -n 's/.*build="\([^"]*\)".*/\1/p' "$lines" | sort -u | paste -sd ';' | sed 's/;/; /g')."
    printf '\n| threads | weights | engine | prompt | generation | load ms | peak RSS MiB |\n|---:|---|---|---:|---:|---:|---:|\n'
    awk '
        function better(name, higher) {
            if (!((key, name) in best) || (higher ? value[name] + 0 > best[key, name] : value[name] + 0 < best[key, name]))
                best[key, name] = value[name] + 0
        }
        {
            sub(/ build=.*/, "")
            for (i = 1; i <= NF; i++) { split($i, pair, "="); value[pair[1]] = pair[2] }
            key = "| " value["threads"] " | " value["type"] " | " value["engine"]
            keys[key] = 1
            better("prompt_per_second", 1)
            better("generation_per_second", 1)
            better("load_ms", 0)
            better("peak_rss_mib", 0)
        }
        END {
            for (key in keys)
                printf "%s | %.0f | %.1f | %.0f | %.0f |\n", key, best[key, "prompt_per_second"],
                       best[key, "generation_per_second"], best[key, "load_ms"], best[key, "peak_rss_mib"]
        }' "$lines" | sed 's/float32/1float32/; s/bfloat16/2bfloat16/; s/q8_0/3q8_0/' | sort -t'|' -k2,2n -k3,3 -k4,4r | sed 's/| [123]\([fbq]\)/| \1/'
} >"$root/bench/results/generation.md"
print_written "$root/bench/results/generation.md"
print_next run.sh --quick

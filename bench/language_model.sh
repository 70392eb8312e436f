#!/bin/sh
# language_model.sh TEXT [--rounds N] [--threads N] [--python PYTHON]: trains the default model of
# programs/language_model/language_model.c on a text, and then the same model in PyTorch, in N rounds (default 3). Prints the seconds
# from the first step to the last, including evaluations, and the validation loss. PYTHON must have PyTorch (default:
# the environment of bench/run.sh). Run nothing else at the same time.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-bench
python=$build/peers/bin/python rounds=3 threads=$(nproc) text=

. "$root/scripts/library/help.sh"
answer_help "$@"
while [ $# -gt 0 ]; do
    case $1 in
    --rounds | --threads | --python)
        need_value "$@"
        case $1 in
        --rounds) rounds=$2 ;;
        --threads) threads=$2 ;;
        --python) python=$2 ;;
        esac
        shift
        ;;
    -*) refuse "unknown option $1" ;;
    *) text=$1 ;;
    esac
    shift
done
[ -n "$text" ] || refuse "the text is missing: give the path of a file"

cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_BENCH=ON -DTAPEHEAD_TESTS=OFF \
    -DTAPEHEAD_EXAMPLES=ON >/dev/null
cmake --build "$build" --parallel "$(nproc)" --target language_model >/dev/null
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Without these settings glibc's malloc would return big blocks to the system and have page faults in every step.
export MALLOC_TOP_PAD_=1073741824 MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296

round=1
while [ "$round" -le "$rounds" ]; do
    "$build/programs/language_model" train "$text" "$out/run" --recipe nanogpt --force --quiet --threads "$threads" >"$out/ours"
    echo "tapehead $(grep -o ' seconds=[0-9.]*' "$out/ours") $(grep -o 'best=[0-9.]*' "$out/ours")"
    for variant in default fused compiled; do
        "$python" "$root/bench/torch_language_model.py" "$text" --variant "$variant" --threads "$threads" ||
            echo "$variant failed"
    done
    round=$((round + 1))
done

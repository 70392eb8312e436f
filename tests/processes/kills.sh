#!/bin/sh
# kills.sh MPIRUN LANGUAGE_MODEL [ROUNDS]: kills one process of a training run at a random time, and resumes with another number of
# processes, ROUNDS times (default 50). The run ends with the same parameters, log, samples and checkpoints as a run of one process
# without a break. MPIRUN is scripts/processes/mpirun.sh; the program was built with MPI. A round takes two to five seconds.
set -eu
mpirun=$1 program=$2 rounds=${3:-50}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"

awk 'BEGIN { for (i = 0; i < 800; i++) printf "line %d of %s\n", i, i % 7 ? "some text" : "others" }' >text
options="--recipe nanogpt --layers 2 --heads 2 --width 16 --length 16 --batch 16 --accumulate 2 --dropout 0.1 --warmup 5 --eval-every 10
    --eval-batches 2 --log-every 5 --sample-tokens 30 --keep 3 --shards 8 --quiet"
steps=$((rounds * 200)) # (a round does about 50 on two processors)

random() { # random N: prints a number from 0 to N - 1
    od -An -N4 -tu4 /dev/urandom | awk -v n="$1" '{ print $1 % n }'
}
crc() {
    grep -o 'parameters_crc32c=[0-9a-f]*' "$1" || cat "$1"
}
log() { # log RUN: prints the log without times
    sed 's/, "tokens_per_second": [^,}]*//' "$1/log.jsonl"
}
start() { # start N WORD...: starts the program in N processes; the pid of rank R is in the file pid.R
    n=$1
    shift
    rm -f pid.*
    # shellcheck disable=SC2016 # the variables are the inner shell's
    timeout 600 "$mpirun" "$n" sh -c 'echo $$ >"pid.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}"; exec "$@"' sh \
        "$program" "$@" >killed.out 2>&1 &
    started=$!
}

# shellcheck disable=SC2086 # options are words
"$program" train text whole $options --steps $steps >whole.out 2>&1
# shellcheck disable=SC2086
start 3 train text killed $options --steps $steps
until [ -e killed/last.safetensors ]; do sleep 0.02; done
kills=0 ended=0
while [ $kills -lt "$rounds" ]; do
    victim=pid.$(random "$n")
    until [ -s "$victim" ]; do sleep 0.02; done
    sleep "$(random 3).$(random 10)"
    kill -KILL "$(cat "$victim")" 2>/dev/null && kills=$((kills + 1))
    if wait $started; then
        ended=1
        break
    fi
    echo "kill $kills: $victim of $n processes; step $(tail -n 1 killed/log.jsonl | grep -o '"step": [0-9]*' || true)"
    start $((n % 5 + 1)) resume killed --quiet
done
[ $ended -eq 1 ] || wait $started || { cat killed.out; exit 1; }
[ "$(crc killed.out)" = "$(crc whole.out)" ] || { echo "other parameters: $(cat killed.out)"; exit 1; }
log killed >a && log whole >b && cmp a b
diff -r killed/samples whole/samples
for file in last last.1 last.2 best; do
    cmp "killed/$file.safetensors" "whole/$file.safetensors"
done
echo "killed $kills times: $(crc killed.out)"

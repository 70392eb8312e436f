#!/bin/sh
# language_model_resumes.sh LANGUAGE_MODEL: a run is killed at random moments and resumed with other numbers of threads. It ends
# with the same parameters, log and samples as a run without a break. An interrupted run saves a checkpoint first.
set -eu
program=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

awk 'BEGIN { for (i = 0; i < 1500; i++) printf "line %d of %s\n", i, i % 7 ? "some text" : "others" }' >"$out/text"
options="--layers 2 --heads 2 --width 16 --length 16 --batch 4 --accumulate 2 --dropout 0.1 --warmup 5 --steps 1500
    --eval-every 60 --eval-batches 2 --log-every 5 --sample-tokens 30 --patience 100 --quiet
    --schedule plateau --average 0.99 --batch-from 2"

train() { # train RUN THREADS: starts it in the background; $! is the process
    # shellcheck disable=SC2086 # options are words
    "$program" train --recipe nanogpt "$out/text" "$1" $options --threads "$2" >"$1.out" 2>&1 &
}
crc() {
    grep -o 'parameters_crc32c=[0-9a-f]*' "$1"
}
log() { # log RUN: prints the log without times
    sed 's/, "tokens_per_second": [^,}]*//' "$1/log.jsonl"
}
same() { # same RUN OUTPUT: compares with the run without a break
    [ "$(crc "$2")" = "$(crc "$out/whole.out")" ] || { echo "other parameters: $(crc "$2")"; exit 1; }
    log "$1" >"$out/a" && log "$out/whole" >"$out/b" && cmp "$out/a" "$out/b"
    diff -r "$1/samples" "$out/whole/samples"
    [ "$("$program" eval "$1")" = "$("$program" eval "$out/whole")" ] || { echo "another best model"; exit 1; }
}

train "$out/whole" 2
wait $!

# Kills the run at random moments after its first checkpoint. Each time it does at least one more step.
train "$out/killed" 1
process=$!
kills=0
while :; do
    until [ -e "$out/killed/last.safetensors" ]; do sleep 0.02; done
    sleep "0.$(od -An -N1 -tu1 /dev/urandom | awk '{ printf "%03d", $1 + 20 }')"
    kill -KILL $process 2>/dev/null && kills=$((kills + 1))
    wait $process 2>/dev/null && break
    if [ $kills -gt 6 ]; then # enough
        "$program" resume "$out/killed" --quiet >"$out/killed.out" 2>&1
        break
    fi
    "$program" resume "$out/killed" --threads $((kills % 3 + 1)) --quiet >"$out/killed.out" 2>&1 &
    process=$!
done
same "$out/killed" "$out/killed.out"

# Only one process may use a run.
train "$out/one" 1
process=$!
until [ -e "$out/one/last.safetensors" ]; do sleep 0.02; done
kill -STOP $process
status=0
"$program" resume "$out/one" --quiet >"$out/other" 2>&1 || status=$?
kill -KILL $process
wait $process 2>/dev/null || true
if [ $status -ne 2 ] || ! grep -q 'another process' "$out/other"; then echo "two at once: $status"; cat "$out/other"; exit 1; fi

# A process that waited for the folder finds the run that the other process has written.
mkdir "$out/taken"
exec 9<"$out/taken"
if command -v flock >/dev/null && flock 9; then
    (sleep 0.5; : >"$out/taken/last.safetensors"; flock -u 9) &
    status=0
    "$program" train --recipe nanogpt "$out/text" "$out/taken" --steps 1 --quiet >"$out/other" 2>&1 9<&- || status=$?
    wait $!
    if [ $status -ne 2 ] || ! grep -q 'there is a run already' "$out/other"; then echo "replaced: $status"; cat "$out/other"; exit 1; fi
fi
exec 9<&-

# An interrupted run finishes the step, saves a checkpoint and exits with status 130.
train "$out/interrupted" 1
process=$!
until [ -e "$out/interrupted/last.safetensors" ]; do sleep 0.02; done
sleep 0.05
kill -INT $process
status=0
wait $process || status=$?
if [ $status -ne 0 ]; then # it was still running
    [ $status -eq 130 ] || { echo "interrupted: status $status"; cat "$out/interrupted.out"; exit 1; }
    grep -q 'stopped and saved at step' "$out/interrupted.out"
    "$program" resume "$out/interrupted" --quiet >"$out/interrupted.out" 2>&1
fi
same "$out/interrupted" "$out/interrupted.out"
echo "killed $kills times"

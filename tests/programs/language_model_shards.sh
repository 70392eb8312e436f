#!/bin/sh
# language_model_shards.sh LANGUAGE_MODEL: a step sees the same windows of the text for every number of shards, so that losses differ
# only by rounding. The number of threads does not change a bit. A stopped run keeps its shards.
set -eu
program=$1
. "$(dirname "$0")/language_model_checks.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) printf "line %d of %s\n", i, i % 7 ? "some text" : "others" }' >text
options="--layers 1 --heads 2 --width 16 --length 16 --batch 12 --accumulate 3 --warmup 1 --log-every 1 --eval-every 20 --eval-batches 3
    --sample-tokens 0 --quiet"
# shellcheck disable=SC2086 # options are words
train() { # train RUN OPTION...
    run=$1
    shift
    "$program" train --recipe nanogpt text "$run" $options "$@" >"$run.out" 2>&1 || { cat "$run.out"; fail "train $run"; }
}
losses() { # losses RUN: prints the losses of all steps and evaluations
    grep -o '"loss/[a-z]*": [0-9.e-]*' "$1/log.jsonl"
}
crc() {
    grep -o 'parameters_crc32c=[0-9a-f]*' "$1"
}

# The text has about 460 windows, so that 40 steps of 36 windows pass through three epochs.
train one --steps 40
losses one >losses
[ "$(wc -l <losses)" -eq 43 ] || { cat losses; fail "losses are missing"; }
for shards in 2 3 4 6 12; do
    train $shards --steps 40 --shards $shards
    [ "$(crc $shards.out)" != "$(crc one.out)" ] || fail "$shards shards: the sums have the order of one shard"
    losses $shards | paste losses - | awk -v shards=$shards '
        { difference = ($2 - $4) / $2; if (difference < 0) difference = -difference; if ($1 != $3 || difference > 1e-4) exit 1 }' ||
        { losses $shards | paste losses -; fail "$shards shards see other windows"; }
done

train threads --steps 40 --shards 6 --dropout 0.1 --threads 1
train whole --steps 40 --shards 6 --dropout 0.1 --threads 3
[ "$(crc threads.out)" = "$(crc whole.out)" ] || fail "other bits with other threads"
train stopped --steps 20 --shards 6 --dropout 0.1 --lr 0.003 --min-lr 0.0003
expect 0 "" "$program" resume stopped --steps 40 --quiet
cp said resumed
train other --steps 20 --shards 6 --dropout 0.1 --lr 0.003 --min-lr 0.0003
expect 0 "$(crc resumed)" "$program" resume other --steps 40 --threads 2 --quiet

expect 2 '--shards 5 does not divide --batch 12' "$program" train --recipe nanogpt text none --shards 5
expect 2 '--shards takes a whole number from 1 to 4096' "$program" train --recipe nanogpt text none --shards 0
expect 0 'memory=' "$program" train --recipe nanogpt text --memory --shards 4 --batch 12

# Local steps in one process.
expect 2 '--local-steps 7 does not divide --steps 40' "$program" train --recipe nanogpt text none --local-steps 7 --steps 40
expect 2 '--local-steps 8 does not divide --eval-every 20' "$program" train --recipe nanogpt text none --local-steps 8 --steps 40 --eval-every 20
train local --steps 40 --local-steps 10
[ "$(crc local.out)" != "$(crc one.out)" ] || fail "the outer steps do nothing"
train local_half --steps 20 --local-steps 10 --lr 0.003 --min-lr 0.0003
expect 2 '--local-steps 10 does not divide --steps 45' "$program" resume local_half --steps 45 --quiet
expect 0 "" "$program" resume local_half --steps 40 --quiet
cp said resumed
train local_other --steps 20 --local-steps 10 --lr 0.003 --min-lr 0.0003
expect 0 "$(crc resumed)" "$program" resume local_other --steps 40 --threads 2 --quiet

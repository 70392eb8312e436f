#!/bin/sh
# language_model_muon.sh LANGUAGE_MODEL: training with Muon is the same with other threads and after a break, and learns. Adapters
# can be trained with it. Options that belong to another optimizer are refused.
set -eu
program=$1
. "$(dirname "$0")/language_model_checks.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) printf "line %d of %s\n", i, i % 7 ? "some text" : "others" }' >text
options="--optimizer muon --layers 1 --heads 2 --width 16 --length 16 --batch 12 --warmup 1 --eval-every 20 --eval-batches 3
    --sample-tokens 0 --quiet"
# shellcheck disable=SC2086 # options are words
train() { # train RUN OPTION...
    run=$1
    shift
    "$program" train --recipe nanogpt text "$run" $options "$@" >"$run.out" 2>&1 || { cat "$run.out"; fail "train $run"; }
}
crc() {
    grep -o 'parameters_crc32c=[0-9a-f]*' "$1"
}

train whole --steps 40 --threads 1
grep -q 'improved from' whole.out || { cat whole.out; fail "it does not learn"; }
train threads --steps 40 --threads 3
[ "$(crc threads.out)" = "$(crc whole.out)" ] || fail "other bits with other threads"
train adam --steps 40 --optimizer adamw
[ "$(crc adam.out)" != "$(crc whole.out)" ] || fail "the optimizer makes no difference"

train stopped --steps 20
expect 0 "" "$program" resume stopped --steps 40 --quiet
cp said resumed
train other --steps 20
expect 0 "$(crc resumed)" "$program" resume other --steps 40 --threads 2 --quiet

for change in "--lr 0.01" "--adam-lr 0.01" "--momentum 0.5" "--newton-schulz 3" --polar-express "--adjust-lr match_rms_adamw"; do
    # shellcheck disable=SC2086
    train changed --force --steps 40 $change
    [ "$(crc changed.out)" != "$(crc whole.out)" ] || fail "$change makes no difference"
done

expect 0 "" "$program" export whole model
expect 0 'parameters_crc32c' "$program" train text tuned --from model --lora 2 --optimizer muon --steps 4 --eval-every 4 --sample-tokens 0 --quiet
expect 0 'muon' grep -a 'muon' tuned/last.safetensors

expect 2 'must be adamw or muon, not sgd' "$program" train --recipe nanogpt text wrong --optimizer sgd
expect 2 'must be original or match_rms_adamw, not x' "$program" train --recipe nanogpt text wrong --optimizer muon --adjust-lr x
expect 2 'are for --optimizer muon' "$program" train --recipe nanogpt text wrong --adam-lr 0.01
expect 2 'are for --optimizer muon' "$program" train --recipe nanogpt text wrong --polar-express

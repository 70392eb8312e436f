#!/bin/sh
# language_model_schedules.sh LANGUAGE_MODEL: schedules of the learning rate and of the batch, and averaged weights. A run that
# continues from an older checkpoint ends with the same bits, with any number of threads.
set -eu
program=$1
. "$(dirname "$0")/language_model_checks.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) printf "line %d of %s\n", i, i % 7 ? "some text" : "others" }' >text
options="--layers 1 --heads 2 --width 16 --length 16 --batch 12 --warmup 5 --steps 60 --log-every 1 --eval-every 20 --eval-batches 2
    --sample-tokens 5 --keep 9 --tokenizer bytes --quiet"
# shellcheck disable=SC2086 # options are words
train() { # train RUN OPTION...
    run=$1
    shift
    "$program" train --recipe nanogpt text "$run" $options "$@" >"$run.out" 2>&1 || { cat "$run.out"; fail "train $run"; }
}
field() { # field NAME FILE: prints its last value
    sed -n "s/.*[ :]$1=\([^ ]*\).*/\1/p" "$2" | tail -n 1
}
rates() { # rates RUN STEP...: prints the learning rates of these steps
    run=$1
    shift
    for step; do
        grep -o '"learning_rate": [0-9.e-]*' "$run/log.jsonl" | sed -n "${step}s/.*: //p"
    done | paste -sd' ' -
}

# -- the learning rate: the steps 1, 5, 6, 31, 49 and 60 --
expect_rates() { # expect_rates RATES OPTION...
    expected=$1
    shift
    train rated --force "$@"
    [ "$(rates rated 1 5 6 31 49 60)" = "$expected" ] || fail "$*: $(rates rated 1 5 6 31 49 60)"
}
expect_rates "0.0006 0.003 0.003 0.00184212503 0.000604908826 0.00030220171"
expect_rates "0.0006 0.003 0.003 0.00177272727 0.000889090909 0.000349090909" --schedule linear
expect_rates "0.0006 0.003 0.003 0.003 0.003 0.000525" --schedule wsd
expect_rates "0.0006 0.003 0.003 0.003 0.000908588993 0.000345381383" --schedule wsd-sqrt --decay 0.5
expect_rates "0.0006 0.003 0.003 0.003 0.003 0.003" --schedule constant
train rated --force --schedule plateau --plateau-patience 0 --lr 1 # with which the loss increases
[ "$(rates rated 1 5 20 21)" = "0.2 1 1 0.5" ] || fail "plateau: $(rates rated 1 5 20 21)"

# -- resuming and threads --
all="--schedule plateau --plateau-patience 0 --lr 3 --average 0.9 --batch-from 2 --shards 2 --accumulate 2 --dropout 0.1"
# shellcheck disable=SC2086
train whole $all --threads 1
# shellcheck disable=SC2086
train threads $all --threads 3
crc=$(field parameters_crc32c whole.out)
[ "$(field parameters_crc32c threads.out)" = "$crc" ] || fail "other bits with other threads"
cp -r whole half
mv half/last.1.safetensors half/last.safetensors # step 40
grep -qa 'plateau rate[\\":]*3.0[,}]' half/last.3.safetensors && ! grep -qa 'plateau rate[\\":]*3.0[,}]' half/last.safetensors ||
    fail "the learning rate was not reduced before step 40"
expect 0 "parameters_crc32c=$crc" "$program" resume half --quiet
sed 's/, "tokens_per_second": [^,}]*//' whole/log.jsonl >whole.log
sed 's/, "tokens_per_second": [^,}]*//' half/log.jsonl | cmp - whole.log

# -- averaged weights: evaluated, sampled, exported, and the model of both checkpoints --
train averaged --average 0.9
train plain
loss=$(field loss averaged.out)
grep -q 'averaged weights (--average 0.9)' averaged.out || fail "the averages are not mentioned"
[ "$loss" != "$(field loss plain.out)" ] || fail "the averages have no effect"
for step in 1 20 60; do
    [ "$(grep -o '"loss/train": [0-9.e-]*' averaged/log.jsonl | sed -n ${step}p)" = \
        "$(grep -o '"loss/train": [0-9.e-]*' plain/log.jsonl | sed -n ${step}p)" ] || fail "the averages change the training"
done
expect 0 "loss=$loss " "$program" eval averaged --last
expect 0 'exports averaged weights (--average 0.9)' "$program" export averaged model --last
"$program" eval averaged --last --text text >of_run
"$program" eval model --text text >of_model 2>/dev/null
grep -q 'loss=' of_run && cmp of_run of_model || fail "export has other weights: $(cat of_run of_model)"
expect 0 "parameters=$(field parameters averaged.out)" "$program" train --recipe nanogpt text none $options --average 0.9 --memory
awk -v f="$(field memory said)" -v m="$(field memory averaged.out)" 'BEGIN { exit !(f <= m && m <= f + 10000) }' ||
    fail "forecast $(field memory said), taken $(field memory averaged.out)"

# -- the batch: from 2 to 12 windows in half of the steps, so that the run sees fewer --
train growing --batch-from 2
windows() { # windows RUN: prints the epochs and windows that the run has seen
    grep -ao 'epoch[\\":]*[0-9]*,[\\"]*window[\\":]*[0-9]*' "$1/last.safetensors" | tr -c '0-9\n' ' '
}
windows plain >positions
windows growing >>positions
awk '{ epochs[NR] = $1; windows[NR] = $2 } END { exit !(NR == 2 && (epochs[2] < epochs[1] || windows[2] < windows[1])) }' positions ||
    fail "the batch does not grow: $(cat positions)"
train grown --batch-from 12 --batch-growth 1
[ "$(field parameters_crc32c grown.out)" = "$(field parameters_crc32c plain.out)" ] || fail "a batch that does not grow has other bits"

# -- contradictions --
expect 2 '--schedule must be cosine, linear, wsd, wsd-sqrt, plateau or constant, not step' "$program" train --recipe nanogpt text none --schedule step
expect 2 '--decay is for --schedule wsd or wsd-sqrt, not for --schedule linear' "$program" train --recipe nanogpt text none --schedule linear --decay 0.1
expect 2 '--plateau-patience are for --schedule plateau' "$program" train --recipe nanogpt text none --plateau-patience 3
expect 2 '--schedule constant does not change the rate' "$program" train --recipe nanogpt text none --schedule constant --min-lr 0.001
expect 2 '--batch-growth needs --batch-from' "$program" train --recipe nanogpt text none --batch-growth 0.1
expect 2 '--batch-from 13 is more than --batch 12' "$program" train --recipe nanogpt text none --batch-from 13
expect 2 '--shards 4 does not divide --batch-from 6' "$program" train --recipe nanogpt text none --batch-from 6 --shards 4
expect 2 '--batch-from needs --steps' "$program" train --recipe nanogpt text none --batch-from 1 --epochs 2
expect 2 '--average takes a number from 0 to' "$program" train --recipe nanogpt text none --average 1
[ ! -e none ] || fail "a refused run leaves a folder"

#!/bin/sh
# language_model_plan.sh LANGUAGE_MODEL: `train` chooses model and number of steps for the time. The command that it prints and
# stores repeats the run with the same bits, and so does resume. Options that contradict the plan are refused.
set -eu
program=$1
. "$(dirname "$0")/language_model_checks.sh"

awk 'BEGIN { for (i = 0; i < 400; i++) printf "%d bottles of beer on the wall, é %d\n", i % 50, i % 3 }' >text
log() { # log RUN: prints the log without times
    sed 's/, "tokens_per_second": [^,}]*//' "$1/log.jsonl"
}
same() { # same RUN: the run called run has the same settings, checkpoints, log and samples
    for file in config.json best.safetensors last.safetensors text.tokens; do
        cmp "$1/$file" "run/$file" || fail "another $file in $1"
    done
    log "$1" >a && log run >b && cmp a b && diff -r "$1/samples" run/samples || fail "another log or sample in $1"
}
repeat() { # repeat RUN [OPTION...]: repeats the last run in this folder with the command that it printed
    command=$(sed -n 's/^repeat:  //p' said) folder=$1
    shift
    expect 0 'parameters_crc32c=' sh -c "$(echo "$command" | sed "s/ text [a-z]* / text $folder /") $*"
}

# -- a run of a second, repeated --
expect 0 'steps of .* tokens, .* passes over the text; 2 layers of width 64 .*; a step takes .* ms, at .* GFLOP/s' \
    "$program" train text run --minutes 0.02 --quiet
crc=$(grep -o 'parameters_crc32c=[0-9a-f]*' said)
[ "$(cut -d ' ' -f 2- run/command.txt)" = "$(sed -n "s/^repeat:  [^ ]* //p" said)" ] || fail "stored: $(cat run/command.txt), printed: $(cat said)"
grep -q -- '^language_model train text run --recipe nanogpt .*--steps [0-9]' run/command.txt || fail "command: $(cat run/command.txt)"
repeat again --quiet
grep -q "$crc" said || fail "other parameters: $(cat said), before: $crc"
same again
[ ! -e again/command.txt ] || fail "a run without a plan has a command that repeats it"

# -- resume: the steps do not depend on the time --
"$program" train text stopped --minutes 0.02 --quiet >stopped.out 2>&1 &
process=$!
until [ -e stopped/last.safetensors ]; do sleep 0.02; done
kill -INT $process
wait $process || true
expect 0 'parameters_crc32c=' "$program" resume stopped --quiet
cp stopped.out said
rm -r run && mv stopped run
repeat again --quiet --force
same again

# -- a value that is given stays, and the command has it: words of a shell too --
expect 0 ' --layers 1 .*--lr 0.03 ' "$program" train text run --force --minutes 0.02 --quiet --layers 1 --lr 0.03 --prompt "it's 1" --eval-every 5 \
    --tokenizer bytes
repeat again --quiet --force
same again
grep -q '"prompt": "it.s 1"' again/config.json && grep -q '"eval-every": 5,' again/config.json && grep -q '"layers": 1,' again/config.json ||
    fail "settings: $(cat again/config.json)"

# -- the recipe without a time, a time without the recipe, and neither --
expect 0 'steps=3 ' "$program" train text run --force --steps 3 --quiet
grep -q 'GFLOP' said && fail "--steps was timed: $(cat said)"
repeat again --quiet --force
same again
expect 0 'steps=3 ' "$program" train text run --force --steps 3 --quiet --optimizer adamw --schedule cosine # whose rates are not Muon's
grep -q '"lr": 0.003' run/config.json && grep -q '"adam-lr": 0[.0]*,' run/config.json || fail "AdamW has the rates of Muon: $(cat run/config.json)"
small="--layers 1 --heads 1 --width 8 --length 8 --batch 2 --eval-batches 1 --sample-tokens 5 --quiet"
# shellcheck disable=SC2086 # options are words
{
    expect 0 '1 layers of width 8 with 1 heads; a step takes' "$program" train text run --force --minutes 0.01 --recipe nanogpt $small
    grep -q '"llama": false' run/config.json || fail "nanogpt has another model"
    expect 0 'steps=2 ' "$program" train text run --force --recipe nanogpt --steps 2 $small
    grep -q 'repeat:' said && fail "--recipe nanogpt has a plan: $(cat said)"
    [ ! -e run/command.txt ] || fail "the command of the replaced run is left"
}

# -- little text is not seen too often: this takes less than the time --
head -c 400 text >little
expect 0 'passes over the text' "$program" train little run --force --minutes 0.1 --quiet --tokenizer bytes --length 32 --batch 8
steps=$(sed -n 's/.*"steps": \([0-9]*\),/\1/p' run/config.json)
[ "$steps" -le 57 ] || fail "$steps steps of 256 tokens see 360 tokens more than 40 times"

# -- the forecast of the memory is for the planned model --
expect 0 'memory=' "$program" train text run --force --steps 3 --quiet
memory=$(sed -n 's/.* memory=\([^ ]*\).*/\1/p' said)
expect 0 'parameters=' "$program" train text --memory --steps 3
awk -v f="$(sed -n 's/.* memory=\([^ ]*\).*/\1/p' said)" -v m="$memory" 'BEGIN { exit !(f <= m && m <= f + 10000) }' ||
    fail "forecast $(cat said), taken $memory"
expect 0 'a step takes .* ms' "$program" train text --memory --minutes 0.02

# -- refusals --
expect 2 '--minutes and --steps both tell when the training ends: give one of them' "$program" train text other --minutes 1 --steps 5
expect 2 '--recipe must be fast or nanogpt, not slow' "$program" train text other --recipe slow
expect 2 '--minutes takes a number from 0.001 to 1000000, not 0' "$program" train text other --minutes 0
expect 2 '--minutes and --recipe fast are for new models' "$program" train text other --minutes 1 --epochs 2
expect 2 '--minutes and --recipe fast are for new models' "$program" train text other --recipe fast --from run
expect 2 "unrecognized option '--minutes'" "$program" tune run text other --minutes 1
expect 2 '--width 10 / --heads 2 is 5: with --llama it must be even' "$program" train text other --width 10 --heads 2 --minutes 0.02
expect 2 'no parameter has a name like nobody' "$program" train text other --minutes 0.02 --freeze nobody
expect 1 'is too short' "$program" train run/config.json other --minutes 0.02 --length 100000
[ ! -e other ] || fail "a refused run left a folder: $(ls -A other)"
expect 0 '--width .*(1 to 65536, default by the recipe; nanogpt 128)' "$program" train --help
grep -q -- '--minutes .*(0.001 to 1000000, default 1)' said && grep -q -- '--recipe .*(default fast)' said || fail "--help: $(cat said)"

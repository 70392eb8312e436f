#!/bin/sh
# language_model_use.sh LANGUAGE_MODEL COPY_TASK: how the program treats options and data that users often get wrong, and its defaults for
# short runs.
set -eu
program=$1 copy_task=$2
. "$(dirname "$0")/language_model_checks.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) printf "The cat number %d is red. User: Assistant: black\n", i % 7 }' >text
awk 'BEGIN { for (i = 0; i < 60; i++) printf "{\"prompt\": \"cat %d is\", \"completion\": \" red\"}\n", i }' >data.jsonl
mkdir texts && cp text texts/1 && cp text texts/2
expect 0 '' "$program" train --recipe nanogpt texts base --llama --tokenizer bytes --layers 1 --heads 2 --width 32 --length 256 --steps 10 --eval-every 10 \
    --sample-tokens 0 --quiet
expect 0 '' "$program" export base model
tune() {
    "$program" tune model "$@" --quiet --batch 4
}

# -- chat: lines are one conversation, except with --no-history --
chat() {
    "$program" chat model --temperature 4 --tokens 16 --chat plain "$@"
}
printf 'cat 1\ncat 2\n' >questions
chat <questions >together
chat --no-history <questions >apart
for question in 'cat 1' 'cat 2'; do
    echo "$question" | chat
done >alone
cmp apart alone || fail "--no-history: $(od -c apart), each line alone: $(od -c alone)"
! cmp -s together apart || fail "the first question does not change the second answer"
chat --no-history --system 'Be brief.' <questions >briefly
echo 'cat 2' | chat --system 'Be brief.' >brief
tail -c "$(wc -c <brief)" briefly | cmp - brief || fail "--no-history forgets the system message"
expect 0 '--no-history ' "$program" chat --help
grep -q 'The lines are one conversation' said || fail "--help does not say what the model reads"

# -- int8 without weights in blocks changes nothing, and says so --
nothing='--precision int8 changes nothing here'
expect 0 "$nothing.*; --weights q8_0 stores weights so" "$program" sample model --tokens 2 --precision int8
expect 0 "$nothing" "$program" chat model --precision int8 --weights bfloat16 <questions
expect 0 "$nothing" "$copy_task" --steps 1 --quiet --precision int8
expect 0 '' "$program" sample model --tokens 2 --precision int8 --weights q4_0
! grep -q -- "$nothing" said || fail "int8 with q4_0: $(cat said)"

# -- tune: the log has a line for each of few steps, and config.json tells what the model has --
expect 0 'improved from' tune data.jsonl run --lr 0.01 --sample-tokens 0 --epochs 13
[ "$(grep -c '"loss/train"' run/log.jsonl)" -eq 10 ] || fail "points of the training loss: $(cat run/log.jsonl)"
for member in '"vocabulary": 257' '"layers": 1' '"heads": 2' '"width": 32' '"llama": true' '"log-every": 1'; do
    grep -q "^  $member,$" run/config.json || fail "config.json does not say $member: $(grep "${member%:*}" run/config.json)"
done
expect 0 '' "$program" resume run --steps 11 --quiet
expect 0 'steps=30' tune data.jsonl longer --steps 30 --local-steps 3 --sample-tokens 0
grep -q '"eval-every": 3,' longer/config.json && grep -q '"warmup": 0,' longer/config.json || fail "defaults with --steps"
expect 2 '--vocabulary must be at least 256 with bpe' "$program" train --recipe nanogpt text other --tokenizer bpe --vocabulary 255

# -- 0 epochs only measure; the memory has units --
expect 0 'steps=0 ' tune data.jsonl measured --epochs 0 --sample-tokens 0
expect 0 'steps=0 ' "$program" train --recipe nanogpt text nothing --epochs 0 --sample-tokens 0 --quiet
expect 0 'memory=[0-9]* reserved=[0-9]*$' tune data.jsonl other --memory
grep -q 'training takes [0-9.]* MiB of memory (tensors: at most [0-9.]* [KM]iB); this machine has [0-9.]* [GT]iB$' said ||
    fail "the memory: $(cat said)"

# -- a separate file for validation: all of DATA trains, and the loss is measured on the file --
awk 'BEGIN { for (i = 0; i < 9; i++) printf "{\"prompt\": \"dog %d is\", \"completion\": \" blue\"}\n", i }' >held_out.jsonl
expect 0 'over 54 tokens of validation examples' tune data.jsonl separate --validation held_out.jsonl --sample-tokens 0 --steps 4
loss=$(grep -o ' loss=[0-9.]*' said)
expect 0 "$loss" "$program" eval separate --text held_out.jsonl
expect 0 "$loss" "$program" eval separate
expect 0 '' "$program" resume separate --steps 5 --quiet
grep -q '"validation file": "held_out.jsonl"' separate/config.json || fail "config.json does not name the file"
mv held_out.jsonl held_out && expect 0 'over 54 tokens' sh -c '"$@" <held_out' - "$program" tune model data.jsonl piped --validation - \
    --sample-tokens 0 --steps 4 --quiet --batch 4
cmp separate/text.tokens piped/text.tokens || fail "a pipe has other examples than a file"
expect 0 'training takes' tune data.jsonl other --validation held_out --memory
head -n 20 text >part
expect 0 'tokens=' "$program" train --recipe nanogpt text whole --validation part --layers 1 --heads 1 --width 8 --length 16 --steps 2 --eval-batches 0 \
    --sample-tokens 0 --quiet
grep -q "\"training tokens\": $(wc -c <text)," whole/config.json || fail "a part of the text does not train"
grep -q " tokens=$(($(wc -c <part) - 1))$" said || fail "the loss is not that of the file: $(cat said)"
expect 0 'training takes' "$program" train text other --from model --validation part --memory
expect 2 '--validation takes a number from 1e-06 to 0.9, not 2' tune data.jsonl other --validation 2
expect 1 'the text missing.jsonl cannot be used: No such file' tune data.jsonl other --validation missing.jsonl
expect 1 'text, line 1: the line is not a JSON object: The cat' tune data.jsonl other --validation text
printf '\n\n' >blank.jsonl
expect 1 'blank.jsonl has no examples' tune data.jsonl other --validation blank.jsonl
printf a >short
expect 1 '1 for validation, which needs 2. Give more text for --validation' "$program" train --recipe nanogpt part other --validation short
[ ! -e other ] || fail "a refused run leaves a folder: $(ls -a other)"

# -- samples of tuning answer the prompt of a validation example, also after resume; --prompt has another beginning --
expect 0 'steps=2 ' tune data.jsonl asks --validation held_out --steps 2 --eval-every 1 --sample-tokens 8
expect 0 'steps=3 ' "$program" resume asks --steps 3 --quiet
for step in 0 1 2 3; do
    grep -q '^dog 0 is' asks/samples/step_000000$step.txt || fail "the sample of step $step: $(od -c asks/samples/step_000000$step.txt)"
done
expect 0 'steps=1 ' tune data.jsonl says --steps 1 --sample-tokens 8 --prompt 'The cat'
grep -q '^The cat' says/samples/step_0000001.txt || fail "--prompt has no effect: $(cat says/samples/step_0000001.txt)"
# The end of the example's answer ends a sample. This model has learned that all answers are "b" and <|endoftext|>, which is the template's
# end but not the model's.
cp -r model endless && sed -i 's/"eos_token_id": 256/"eos_token_id": null/' endless/config.json
echo '{"eos_token": "<|endoftext|>"}' >endless/tokenizer_config.json
awk 'BEGIN { for (i = 0; i < 40; i++) printf "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}\n" }' >letters.jsonl
expect 0 'steps=40 ' "$program" tune endless letters.jsonl letters --quiet --batch 4 --lora 0 --steps 40 --eval-every 40 --lr 0.02 --sample-tokens 60 --temperature 0
grep -q '"end token": -1' letters/config.json || fail "the model has an end token"
printf 'User: a\n\nAssistant: b' | cmp - letters/samples/step_0000040.txt || fail "a sample does not end: $(cat letters/samples/step_0000040.txt)"

# -- data of other kinds: tables with other columns, other fields, files without a text --
printf 'height,width\n%s\n' "$(cat text)" >numbers.csv
expect 1 'numbers.csv: it has "height" (a text) and "width" (a text); the nearest format is {"question"' tune numbers.csv other
printf '{"a": 1}\n%s\n' "$(cat text)" >other_json
expect 0 'other_json looks like JSON, and tune trains' tune other_json others --steps 1 --sample-tokens 0
echo '{"question": "a", "reply": "b"}' >fields
expect 1 'fields, line 1: it has "question" (a text) and "reply" (a text); .* and "answer" is missing' tune fields other
printf 'PK\003\004' >packed
expect 1 'packed is a ZIP archive or a spreadsheet; tune reads texts, JSON and tables' tune packed other
gzip <fields | gzip >packed
expect 1 'packed is compressed twice; tune reads' tune packed other
tar -cf - fields | gzip >packed
expect 1 'packed is a tar archive; tune reads' tune packed other
head -c 300 /dev/zero >packed
expect 1 'packed is not a text in UTF-8: it has bytes of 0; tune reads' tune packed other
[ ! -e other ] || fail "refused data leaves a folder: $(ls -a other)"

# -- a second signal during the first evaluation ends the program at once, and leaves nothing of the run --
awk 'BEGIN { for (i = 0; i < 2000; i++) printf "{\"prompt\": \"cat %d is %0200d\", \"completion\": \" red\"}\n", i, i }' >large.jsonl
for signal in INT TERM; do
    for folder in new old; do
        [ $folder = new ] || { mkdir run2 && echo mine >run2/mine && echo mine >run2/events.out.tfevents.1; }
        env --default-signal=INT "$program" tune model large.jsonl run2 --validation 0.9 --quiet >said 2>&1 &
        process=$!
        while ! ls run2/events.out.tfevents.*[0-9][0-9]* >/dev/null 2>&1 && kill -0 $process 2>/dev/null; do :; done
        kill -s $signal $process || fail "the program ended too early: $(cat said)"
        sleep 0.2
        kill -s $signal $process || fail "the first signal ended the program: $(cat said)"
        status=0
        wait $process || status=$?
        [ $status -gt 128 ] || fail "status $status after two signals"
        if [ $folder = new ]; then
            [ ! -e run2 ] || fail "files stay after a second SIG$signal: $(ls -a run2)"
        else
            for file in config.json text.tokens log.jsonl; do [ ! -e run2/$file ] || fail "run2/$file stays"; done
            [ "$(ls run2/events*)" = run2/events.out.tfevents.1 ] && [ -e run2/mine ] || fail "other files: $(ls -a run2)"
            rm -r run2
        fi
    done
done
echo "all checks passed"

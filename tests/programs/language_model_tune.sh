#!/bin/sh
# language_model_tune.sh LANGUAGE_MODEL: tunes a small model on instructions: first and last line, chat, evaluation, export, a stop and
# resume with the same bits, and the messages for wrong data.
set -eu
program=$1
. "$(dirname "$0")/language_model_checks.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) printf "The cat number %d is red. User: Assistant: black\n", i % 7 }' >text
mkdir texts
cp text texts/1 && cp text texts/2
awk 'BEGIN {
    for (i = 0; i < 40; i++)
        printf "{\"messages\": [{\"role\": \"user\", \"content\": \"cat %d\"}, {\"role\": \"assistant\", \"content\": \"red\"}]}\n", i
}' >data.jsonl
awk 'BEGIN { for (i = 0; i < 30; i++) printf "{\"prompt\": \"cat %d is\", \"completion\": \" red\"}\n", i }' >pairs.jsonl
expect 0 '' "$program" train --recipe nanogpt texts base --llama --tokenizer bytes --layers 2 --heads 2 --width 32 --length 64 --steps 200 --eval-every 200 \
    --sample-tokens 0 --quiet
expect 0 '' "$program" export base model

# -- tune: the first line tells the loss before, the last what was gained --
tune() {
    "$program" tune model "$@" --quiet --sample-tokens 5 --threads 1
}
expect 0 '' tune data.jsonl run --epochs 60 --lr 0.01
grep language_model: said | grep -v -e --length -e "chat template" >lines
head -n 1 lines | grep -q 'the loss before tuning is [0-9.]* (perplexity [0-9.]*), over [0-9]* tokens' || fail "first line: $(head -n 1 lines)"
tail -n 1 lines | grep -q 'the validation loss improved from' || fail "last line: $(tail -n 1 lines)"
before=$(sed -n 's/.*before tuning is \([0-9.]*\).*/\1/p' said) after=$(sed -n 's/.* loss=\([0-9.]*\).*/\1/p' said)
awk -v a="$after" -v b="$before" 'BEGIN { exit !(a < 0.7 * b) }' || fail "the loss went from $before to $after"
[ "$(wc -c <run/best.safetensors)" -lt "$(wc -c <model/model.safetensors)" ] || fail "the checkpoint contains the base"

# -- the tuned run and its export agree --
expect 0 "loss=$after" "$program" eval run
expect 0 'loss=' "$program" eval run --last # the newest checkpoint has an optimizer too
expect 0 '' "$program" tune model data.jsonl averaged --epochs 6 --lr 0.01 --average 0.9 --quiet --sample-tokens 0 --threads 1
averaged=$(sed -n 's/.* loss=\([0-9.]*\).*/\1/p' said)
expect 0 "loss=$averaged" "$program" eval averaged --last
expect 0 'perplexity' "$program" eval run --text data.jsonl
all=$(sed -n 's/.* loss=\([0-9.]*\).*/\1/p' said)
expect 0 '' "$program" export run merged
expect 0 "loss=$all" "$program" eval merged --text data.jsonl
expect 0 '' "$program" sample run --prompt cat --tokens 5
printf 'cat 3\n\ncat 5\n' | "$program" chat run --temperature 0 --tokens 20 >said
[ "$(grep -c red said)" -ge 2 ] || fail "chat says: $(cat said)"
printf 'cat 3\n' | "$program" chat merged --temperature 0 --tokens 20 | grep -q red || fail "the exported model answers otherwise"
cmp -s run/chat_template.jinja merged/chat_template.jinja || fail "the exported model has no chat template"

# -- stored weights, and the precision int8: nearly the same loss --
loss() {
    "$program" eval "$@" | sed -n 's/.*loss=\([0-9.]*\).*/\1/p'
}
for path in merged run; do
    exact=$(loss $path --text data.jsonl)
    for options in '--weights q8_0' '--weights q8_0 --precision int8' '--weights bfloat16'; do
        stored=$(loss $path --text data.jsonl $options)
        awk -v a="$exact" -v b="$stored" 'BEGIN { d = a - b; exit !(b > 0 && d < 0.01 && d > -0.01) }' ||
            fail "the loss of $path is $exact, with $options $stored"
    done
    printf 'cat 3\n' | "$program" chat $path --weights q8_0 --precision int8 --temperature 0 --tokens 20 | grep -q red ||
        fail "$path answers otherwise in int8"
done
expect 0 '' "$program" sample merged --weights q4_0 --precision int8 --tokens 5
expect 2 'q8_0 or q4_0, not q9' "$program" sample merged --weights q9
expect 2 'bfloat16 or int8, not half' "$program" chat merged --precision half
expect 2 'leave out --weights' "$program" sample merged --weights q8_0 --page page.html

# -- export: adapters for PEFT, a file for llama.cpp with the template, another family, and what it refuses --
expect 0 'wrote: adapter/adapter_model.safetensors' "$program" export run adapter --adapter
grep -q '"base_model_name_or_path": ".*/model"' adapter/adapter_config.json || fail "the adapter does not name its base"
expect 2 'there is a model already' "$program" export run adapter --adapter
expect 0 '^wrote: adapter.gguf$' "$program" export run --gguf adapter.gguf --adapter
grep -q 'adapter.lora.alpha' adapter.gguf || fail "the file of adapters has no alpha"
expect 2 '--adapter needs a run of tune with adapters' "$program" export model --gguf another.gguf --adapter
expect 0 'wrote: one.gguf' "$program" export run --gguf one.gguf
grep -aq 'User: ' one.gguf || fail "the GGUF file has no chat template"
expect 0 '' "$program" export run mistral --family mistral
grep -q '"model_type": "mistral"' mistral/config.json || fail "export ignores --family"
expect 1 'unknown family "klingon"' "$program" export run klingon --family klingon
[ ! -e klingon/config.json ] || fail "a folder looks complete"
expect 2 'needs the option --gguf' "$program" export run two.gguf
expect 2 'is the folder of a run' "$program" export run run --force
expect 2 'there is a model already' "$program" export run merged

# -- chat: the second question follows the first answer as the template writes it, without the stop string --
awk 'BEGIN { for (i = 0; i < 300; i++) printf "User: cat %d\n\nAssistant: red %d\n\n", i % 7, i % 3 }' >text2
mkdir dialogs && cp text2 dialogs/1 && mv text2 dialogs/2
expect 0 '' "$program" train --recipe nanogpt dialogs talker --llama --tokenizer bytes --layers 2 --heads 2 --width 32 --length 128 --steps 200 \
    --eval-every 200 --sample-tokens 0 --quiet
printf 'cat 3\ncat 5\n' | "$program" chat talker --temperature 0 --tokens 24 >said
prompt=$(printf 'User: cat 3\n\nAssistant:%s<|endoftext|>\n\nUser: cat 5\n\nAssistant:' "$(head -n 1 said)")
"$program" sample talker --temperature 0 --tokens 24 --prompt "$prompt" --stop "$(printf '\n\nUser:')" >wanted
[ "Assistant:$(tail -n 1 said)" = "$(tail -n 1 wanted)" ] || fail "chat says: $(cat said)"

# -- chat: more questions than the model sees --
awk 'BEGIN { for (i = 0; i < 20; i++) print "cat " i }' >questions
"$program" chat run --temperature 0 --tokens 10 <questions >answers 2>said || fail "chat ends early: $(cat said)"
[ "$(wc -l <answers)" -ge 20 ] || fail "chat does not answer all questions"
[ "$(grep -c 'forgets its beginning' said)" -eq 1 ] || fail "chat does not tell once that it forgets"

# -- base weights in fewer bits; prompts and completions; texts as documents; a stop and resume give the same bits --
for weights in bfloat16 q8_0; do
    expect 0 'improved from' tune data.jsonl "run_$weights" --epochs 5 --lr 0.01 --weights $weights
    expect 0 'loss=' "$program" eval "run_$weights"
    expect 0 '' "$program" export "run_$weights" "merged_$weights"
done
expect 0 'improved from' tune pairs.jsonl pairs --epochs 60 --lr 0.01
expect 0 'improved from' tune texts documents --epochs 3 --lr 0.01
expect 0 'improved from' tune data.jsonl full --lora 0 --epochs 5
expect 2 'whole weights' "$program" export full full_adapter --adapter
{ printf '\357\273\277' && cat data.jsonl; } >mark.jsonl # a byte order mark
expect 0 'improved from' tune mark.jsonl mark --epochs 2
expect 0 '' tune data.jsonl whole --steps 8
crc=$(sed -n 's/.*parameters_crc32c=//p' said)
expect 0 '' tune data.jsonl part --steps 8 --eval-every 4
rm part/last.safetensors # the next older one is that of step 4
expect 0 "parameters_crc32c=" "$program" resume part --quiet
[ "$(sed -n 's/.*parameters_crc32c=//p' said)" = "$crc" ] || fail "resume has other bits"

# -- wrong data and folders --
echo '{"prompt": 3}' >bad.jsonl
expect 1 'bad.jsonl, line 1: it has "prompt" (a number); the nearest format is' tune bad.jsonl wrong
printf '{"text": "a"}\n{"text": \n' >bad.jsonl
expect 1 'bad.jsonl, line 2' tune bad.jsonl wrong
echo '{"text": "one example"}' >bad.jsonl
expect 1 'at least 2 examples' tune bad.jsonl wrong
: >empty.jsonl
expect 1 '' tune empty.jsonl wrong
expect 2 'not the folder of a model' "$program" tune texts data.jsonl wrong
expect 2 'tune needs the folder of a model' "$program" tune model
expect 2 'either files with examples' tune data.jsonl text wrong
expect 2 'must be float32, bfloat16' tune data.jsonl wrong --weights q3
expect 2 'needs --lora' tune data.jsonl wrong --weights q8_0 --lora 0
expect 1 'matches' tune data.jsonl wrong --lora-targets elbow
expect 1 'the kind klingon is unknown' tune data.jsonl wrong --chat klingon
echo '{{ messages' >model/chat_template.jinja
expect 1 'chat_template.jinja, line 1, column ' tune data.jsonl wrong
grep -q -e '--chat KIND' said || fail "no advice"
tail -n 1 said | grep -q -e '--chat KIND' || fail "the advice comes before the error"
mkdir temporary
TMPDIR=$PWD/temporary
export TMPDIR
expect 1 'chat_template.jinja, line 1, column ' "$program" eval model --text data.jsonl
echo '{' >bad.jsonl
expect 1 'bad.jsonl, line 1' "$program" eval run --text bad.jsonl
expect 0 'loss=' "$program" eval model --text data.jsonl --chat plain
[ -z "$(ls temporary)" ] || fail "a temporary folder stays"
expect 0 'improved from' tune data.jsonl wrong --chat plain --epochs 5 --lr 0.01
printf 'cat 3\n' | "$program" chat wrong --temperature 0 --tokens 5 >said || fail "chat does not know --chat of the run"
rm model/chat_template.jinja

# -- the template of the folder: the run and its export keep it, also without the folder --
template="{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
printf '%s' "$template{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}" >model/chat_template.jinja
expect 0 'improved from' tune data.jsonl own --lora 0 --epochs 2
cmp -s model/chat_template.jinja own/chat_template.jinja || fail "the run loses the chat template"
expect 0 'improved from' tune data.jsonl other --chat llama-3 --epochs 2
grep -q start_header_id other/chat_template.jinja || fail "the run has no template of the kind that it used"
expect 0 '' "$program" export own kept
cmp -s model/chat_template.jinja kept/chat_template.jinja || fail "export loses the chat template"
cp -r model aside && rm -r model
printf 'cat 3\n' | "$program" chat own --temperature 0 --tokens 5 >said 2>&1 || fail "chat needs the base of whole weights: $(cat said)"
mv aside model && rm model/chat_template.jinja

# -- variables, and the date, which the run keeps; a template for tools, which the run and its export keep --
printf '%s' "{{ strftime_now('%Y-%m-%d') }} {{ color }}{% for m in messages %} {{ m.content }}{% endfor %}" >model/chat_template.jinja
mkdir model/additional_chat_templates
echo tools >model/additional_chat_templates/tool_use.jinja
cat >one.jsonl <<'EOF'
{"prompt": [{"role": "user", "content": "cat"}], "completion": [{"role": "assistant", "content": "red"}]}
{"prompt": [{"role": "user", "content": "dog"}], "completion": [{"role": "assistant", "content": "red"}]}
EOF
expect 0 'improved from' tune one.jsonl dated --lora 0 --epochs 40 --lr 0.01 --template-date 2031-05-17 --template-variables '{"color": "blue"}'
grep -aq '2031-05-17' dated/best.safetensors || fail "the run does not keep the date"
expect 0 'loss=' "$program" eval dated --text one.jsonl
loss_of_run=$(sed -n 's/.* loss=\([0-9.]*\).*/\1/p' said)
expect 0 "loss=$loss_of_run" "$program" eval dated --text one.jsonl --template-date 2031-05-17
expect 0 'loss=' "$program" eval dated --text one.jsonl --template-date 1999-12-31 --template-variables '{"color": "green"}'
! grep -q "loss=$loss_of_run " said || fail "the variables and the date do not matter"
expect 1 'it must be like 2026-11-28' "$program" eval dated --text one.jsonl --template-date tomorrow
expect 1 'the variable tools is set by the library' "$program" eval dated --text one.jsonl --template-variables '{"tools": 1}'
expect 0 '' "$program" export dated with_tools
cmp -s model/additional_chat_templates/tool_use.jinja with_tools/additional_chat_templates/tool_use.jinja || fail "export loses the template for tools"
rm -r model/chat_template.jinja model/additional_chat_templates
(ulimit -f 60 && expect 1 'File too large' tune data.jsonl limited --epochs 5) || exit 1
[ ! -e limited/best.safetensors ] && ! ls limited/*.unfinished* 2>/dev/null || fail "a file stays that is not complete"
[ -c /dev/full ] && { "$program" chat run </dev/null >/dev/full 2>said && :; }
mv model elsewhere
expect 1 'model' "$program" eval run

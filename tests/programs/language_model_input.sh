#!/bin/sh
# language_model_input.sh LANGUAGE_MODEL: what the words of a command are: folders of the wrong kind, examples in a pipe or in a folder, a single
# text, questions without an answer. A program that ends early leaves no files.
set -eu
program=$1
. "$(dirname "$0")/language_model_checks.sh"

awk 'BEGIN { for (i = 0; i < 300; i++) printf "The cat number %d is red. User: Assistant: black\n", i % 7 }' >text
awk 'BEGIN { for (i = 0; i < 40; i++) printf "{\"prompt\": \"cat %d is\", \"completion\": \" red\"}\n", i }' >data.jsonl
mkdir texts && cp text texts/1 && cp text texts/2 && cp text text.gguf
expect 0 '' "$program" train --recipe nanogpt texts base --llama --tokenizer bytes --layers 1 --heads 2 --width 16 --length 64 --steps 2 --sample-tokens 0 --quiet
expect 0 '' "$program" export base model
expect 0 '' "$program" export base --gguf one.gguf
tune() {
    "$program" tune "$@" --quiet --steps 2 --batch 2 --sample-tokens 0
}

# -- folders: the message says what the path is --
for words in 'chat nowhere' 'sample nowhere' 'eval nowhere' 'resume nowhere' 'tune nowhere data.jsonl run' 'export nowhere out'; do
    expect 2 'No such file or directory' "$program" $words
done
expect 2 'are for runs; this is a GGUF file' "$program" export one.gguf opened --last
expect 0 'wrote: opened/tokenizer.json' "$program" export one.gguf opened
grep -q '"eos_token": "<|endoftext|>"' opened/tokenizer_config.json || fail "the end of a text is lost: $(cat opened/tokenizer_config.json)"
expect 2 'the file does not begin with GGUF' "$program" export text.gguf shortened
for folder in model opened one.gguf; do
    expect 0 'loss=' "$program" eval $folder --text text
    sed -n 's/.*\(loss=[^ ]*\).*/\1/p' said >loss_$folder
done
cmp loss_model loss_opened || fail "the model of a GGUF file has another loss"
cmp loss_model loss_one.gguf || fail "eval of a GGUF file has another loss"
expect 0 '' tune opened data.jsonl tuned

# -- a GGUF file in place of a folder --
for command in 'sample one.gguf --tokens 5' 'train --from one.gguf text trained --steps 2 --batch 2 --length 32 --sample-tokens 0'; do
    expect 0 '' "$program" $command
done
echo 'cat 1 is' | expect 0 '' "$program" chat one.gguf --tokens 5
for options in '--lora 2' '--lora 0'; do
    expect 0 '' tune opened data.jsonl tuned_folder $options --force
    expect 0 '' tune one.gguf data.jsonl tuned_file $options --force
    expect 0 '' "$program" resume tuned_file --steps 3
    grep -q '"eos_token": "<|endoftext|>"' tuned_file/tokenizer_config.json || fail "a run of a GGUF file has no eos_token"
done

# -- the token that begins a text, which no tokenizer adds: from a folder to a GGUF file, back, and through tune --
cp -r model begun
sed -i '1s/{/{"bos_token": "A",/' begun/tokenizer_config.json
expect 0 '' "$program" export begun --gguf begun.gguf
expect 0 '' "$program" export begun.gguf kept
expect 0 '' tune kept data.jsonl retuned
expect 0 '' "$program" export retuned kept_again
for folder in kept kept_again; do
    grep -q '"bos_token": "A"' $folder/tokenizer_config.json || fail "$folder: bos_token is lost: $(cat $folder/tokenizer_config.json)"
    grep -q '"bos_token_id": 65,' $folder/config.json || fail "$folder: bos_token_id is another token: $(cat $folder/config.json)"
    grep -q '"eos_token_id": 256,' $folder/config.json || fail "$folder: eos_token_id is another token: $(cat $folder/config.json)"
done
head -c 100 one.gguf >short.gguf
expect 1 'short.gguf' "$program" export short.gguf shortened
[ ! -e shortened ] || fail "export of a damaged file makes a folder"
expect 2 'not the folder of a run or a model (it is a file' "$program" chat text
expect 2 'it is a run; `export` writes its model' tune base data.jsonl run
mkdir peft && : >peft/adapter_config.json
expect 2 'it has adapters without their model' tune peft data.jsonl run
expect 2 'it has adapters without their model' "$program" chat peft
cp -r model pickled && mv pickled/model.safetensors pickled/pytorch_model.bin
expect 2 'its weights are in pytorch_model.bin' tune pickled data.jsonl run
rm pickled/pytorch_model.bin
expect 2 'it has no model.safetensors' "$program" chat pickled
cp -r model unnamed && rm unnamed/config.json
expect 2 'it has no config.json' "$program" chat unnamed
expect 2 'a model has config.json, model.safetensors and tokenizer.json' "$program" chat texts
expect 2 'one too many: second' "$program" chat base second
mkdir best && cp base/tokenizer.json base/text.tokens base/best.safetensors best
expect 0 '' "$program" sample best --tokens 5
expect 2 'it has best.safetensors only' "$program" resume best
expect 2 'it has best.safetensors only' "$program" sample best --last
cp -r base newest && rm newest/best.safetensors
expect 2 'checkpoint of the run is missing (--last: the newest, instead of the best): newest/best.safetensors' "$program" chat newest
expect 0 '' "$program" sample newest --last --tokens 5

# -- tune knows its options: those of new models are unknown, and defaults are its own --
expect 2 "unrecognized option '--llama'" tune model data.jsonl run --llama
expect 2 "unrecognized option '--from'" tune model data.jsonl run --from base
expect 0 '--warmup .*default 3 % of the steps' "$program" tune --help
expect 0 '--warmup .*nanogpt 100' "$program" train --help
expect 0 '^The model' "$program" tune --help
! "$program" tune --help | grep -q -e --layers -e 'default 0.003)' || fail "tune lists the defaults of train"

# -- examples, whatever their name is --
tune_and_count() { # the tokens of the validation examples of data.jsonl show that examples were read
    expect 0 'over 5 tokens of validation examples' tune model "$@" --validation 0.02
    rm -r run
}
tune_and_count data.jsonl run
tune_and_count - run <data.jsonl
cp data.jsonl DATA.JSONL && tune_and_count DATA.JSONL run
cp data.jsonl data.txt && tune_and_count data.txt run
mkdir examples && cp data.jsonl examples/1 && tune_and_count examples run
expect 0 '' tune model examples run
expect 0 'loss=[0-9.]* perplexity=[0-9.]* tokens=200' "$program" eval run --text data.jsonl
expect 0 'loss=[0-9.]* perplexity=[0-9.]* tokens=200' "$program" eval run --text data.txt
expect 0 'loss=[0-9.]* perplexity=[0-9.]* tokens=200' "$program" eval run --text examples
rm -r run
cp text examples/2
expect 2 'have examples (JSON or tables), such as examples/1, and others are texts, such as examples/2; give' tune model examples run
mkdir named && cp data.jsonl named && echo '{"other": 1}' >named/other.json
expect 1 'named/other.json, line 1: it has "other" (a number)' tune model named run
expect 0 '' "$program" train examples run --from model --steps 1 --sample-tokens 0 --quiet
rm -r run
expect 0 'tune reads examples' "$program" train data.jsonl run --from model --steps 1 --sample-tokens 0 --quiet
rm -r run
# -- formats: an array in several lines, a table, compressed files, in a pipe, and in a folder; all have the same tokens --
{ echo '[' && sed 's/"completion"/\n    &/; $!s/$/,/' data.jsonl && echo ']'; } >array.json
{ echo 'prompt,completion' && sed 's/.*"prompt": "\(.*\)", "completion": "\(.*\)"}/\1,"\2"/' data.jsonl; } >table.csv
sed 's/,/\t/' table.csv >table.tsv
gzip -c data.jsonl >data.jsonl.gz && gzip -c table.csv >packed
for file in array.json table.csv table.tsv data.jsonl.gz packed; do
    tune_and_count $file run
    expect 0 'loss=[0-9.]* perplexity=[0-9.]* tokens=200' "$program" eval model --text $file
done
tune_and_count - run <data.jsonl.gz
mkdir packed_examples && cp data.jsonl.gz packed_examples/1 && tune_and_count packed_examples run
gzip -c text >text.gz
expect 0 'loss=' "$program" eval model --text text.gz
sed -n 's/.*\(loss=[^ ]*\).*/\1/p' said | cmp - loss_model || fail "a compressed text has another loss"
head -c 100 data.jsonl.gz >cut.jsonl.gz
expect 1 'cut.jsonl.gz: the file ends within its compressed data' tune model cut.jsonl.gz run
printf '{"question": "a"}\n{"text": "b"}\n{"question": "b"}\n' >mixed.jsonl
expect 1 'and "answer" is missing (2 such). In all, 2 of 3 examples have faults' tune model mixed.jsonl run
printf '\377\376{\000' >wide.jsonl
expect 1 'wide.jsonl is UTF-16' tune model wide.jsonl run
awk 'BEGIN { for (i = 0; i < 300; i++) printf "{\"prompt\": \"%0500d\", \"completion\": \"a\"}\n", i }' | head -n 3 >long.jsonl
expect 0 'the longest example has 50[0-9] tokens' tune model long.jsonl run
rm -r run
expect 0 'is not a token of the model' tune model data.jsonl run --chat llama-3
rm -r run

# -- a single text: its end is for measuring --
expect 0 'bits_per_byte' tune model text run
expect 0 'loss=' "$program" eval run
rm -r run

# -- the end before the first checkpoint: nothing stays in a new folder, and other files stay in an old one --
(ulimit -f 4 && expect 1 'File too large' tune model data.jsonl run) || exit 1
[ ! -e run ] || fail "files stay after an error: $(ls -a run)"
mkdir run && : >run/mine
(ulimit -f 4 && expect 1 'File too large' tune model data.jsonl run) || exit 1
[ -e run/mine ] || fail "an error removes other files"
rm -r run
awk 'BEGIN { for (i = 0; i < 40000; i++) printf "{\"prompt\": \"cat %d is %0400d\", \"completion\": \" red\"}\n", i, i }' >large.jsonl
mkdir temporary
wait_for() { # wait_for FILE PROCESS: until the file is there, or the process has ended
    while [ ! -e "$1" ] && kill -0 "$2" 2>/dev/null; do :; done
}
for signal in INT TERM HUP; do
    # A shell starts background commands with SIGINT ignored; this one gets the default.
    env --default-signal=INT,HUP "$program" tune model large.jsonl run --quiet >said 2>&1 &
    process=$!
    wait_for run $process
    kill -s $signal $process || fail "the program ended too early: $(cat said)"
    status=0
    wait $process || status=$?
    [ $status -gt 128 ] || fail "status $status after SIG$signal"
    [ ! -e run ] || fail "files stay after SIG$signal: $(ls -a run)"
    TMPDIR=$PWD/temporary env --default-signal=INT,HUP "$program" eval model --text large.jsonl >said 2>&1 &
    process=$!
    while [ -z "$(ls temporary)" ] && kill -0 $process 2>/dev/null; do :; done
    kill -s $signal $process || fail "the program ended too early: $(cat said)"
    wait $process || :
    [ -z "$(ls temporary)" ] || fail "files stay after SIG$signal: $(find temporary)"
done
# From the first loss on, a signal saves the run. A closed terminal sends SIGHUP.
head -n 4000 large.jsonl >several.jsonl
for signal in INT TERM HUP; do
    env --default-signal=INT,HUP "$program" tune model several.jsonl run --quiet >said 2>&1 &
    process=$!
    wait_for run/log.jsonl $process
    kill -s $signal $process || fail "the program ended too early: $(cat said)"
    status=0
    wait $process || status=$?
    [ $status -gt 128 ] || fail "status $status after SIG$signal"
    grep -q 'stopped and saved at step' said || fail "SIG$signal does not save the run: $(ls -a run)"
    expect 0 '' "$program" eval run
    rm -r run
done

# -- chat: the status tells whether every line has an answer --
expect 0 '' tune model data.jsonl run
printf 'cat 1\n\ncat 2' | "$program" chat run --tokens 3 >said 2>&1 || fail "chat: $(cat said)"
"$program" chat run --tokens 3 </dev/null >said 2>&1 || fail "no questions are an error: $(cat said)"
awk 'BEGIN { printf "%0500d\ncat\n", 1 }' >questions
expect 1 'this message has 5[0-9]* tokens; the model sees 64' "$program" chat run --tokens 3 <questions
[ "$(wc -l <said)" -ge 2 ] || fail "the second question has no answer"
printf 'cat 1\ncat 2\n' >questions
"$program" chat run --tokens 3 --temperature 0 <questions >answers
{ echo 'cat 1' && awk 'BEGIN { printf "%0500d\n", 1 }' && echo 'cat 2'; } >questions
expect 1 'this message has 5' "$program" chat run --tokens 3 --temperature 0 <questions
! grep -q 'forgets its beginning' said || fail "chat forgets the conversation for a message that it does not answer"
[ "$(tail -n 1 said)" = "$(tail -n 1 answers)" ] || fail "a message without an answer changes the next one: $(cat said answers)"
printf 'a\000b\n' >questions
expect 1 'must not contain a NUL byte' "$program" chat run --tokens 3 <questions
expect 1 'standard input cannot be read' "$program" chat run --tokens 3 <.
mv model elsewhere
expect 0 '' "$program" train --recipe nanogpt texts other --llama --tokenizer bytes --layers 1 --heads 2 --width 16 --length 64 --steps 3 --seed 2 \
    --sample-tokens 0 --quiet
expect 0 '' "$program" export other model
for words in 'chat run' 'eval run' 'resume run'; do
    expect 1 'adapters belong to the model in .*/model as it was' "$program" $words
done
rm -r model
for words in 'chat run' 'eval run' 'resume run' 'export run out'; do
    expect 1 'the folder of their model is missing: .*/model\. Put it back' "$program" $words
done

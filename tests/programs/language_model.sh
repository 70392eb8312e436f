#!/bin/sh
# language_model.sh LANGUAGE_MODEL: the commands of the example with a small text: the files that they write and the arguments that
# they refuse.
set -eu
program=$1
. "$(dirname "$0")/language_model_checks.sh"

field() { # field NAME: prints its value in the last output
    sed -n "s/.* $1=\([^ ]*\).*/\1/p" said | tail -n 1
}

awk 'BEGIN { for (i = 0; i < 400; i++) printf "%d bottles of beer on the wall, é %d\n", i % 50, i % 3 }' >text
shape="--layers 2 --heads 2 --width 16" # of a new model
small="--recipe nanogpt --length 16 --batch 4 --warmup 5 --steps 60 --eval-every 20 --eval-batches 2 --quiet
    --sample-tokens 20 --log-every 5"
# shellcheck disable=SC2086 # options are words
train() {
    case " $* " in
    *" --from "*) "$program" train $small "$@" ;;
    *) "$program" train $small $shape "$@" ;;
    esac
}

# -- train: the files in the folder --
expect 0 'bits_per_byte=' train text run
memory=$(field memory) loss=$(field loss)
for file in config.json tokenizer.json text.tokens last.safetensors best.safetensors log.jsonl curves.svg samples/step_0000060.txt; do
    [ -s "run/$file" ] || fail "no run/$file"
done
ls run/events.out.tfevents.* >/dev/null
[ "$(grep -c '"loss/validation"' run/log.jsonl)" -eq 4 ] && [ "$(grep -c '"tokens_per_second"' run/log.jsonl)" -eq 12 ] ||
    fail "log.jsonl is not as requested"
awk '/"loss.train"/ { sub(/.*"loss.train": /, ""); last = $1 + 0; if (!first) first = last } END { exit !(last < 0.9 * first) }' \
    run/log.jsonl || fail "nothing was learned"

# The predicted memory equals the memory of the run, except for logs and windows.
expect 0 'parameters=' train text --memory
awk -v f="$(field memory)" -v m="$memory" 'BEGIN { exit !(f <= m && m <= f + 10000) }' || fail "forecast $(field memory), taken $memory"

# -- sample, eval, export --
"$program" sample run --prompt "12 bottles" --tokens 40 --seed 3 >first
"$program" sample run --prompt "12 bottles" --tokens 40 --seed 3 >second
"$program" sample run --prompt "12 bottles" --tokens 40 --seed 4 >third
cmp first second && grep -q '^12 bottles' first || fail "sample"
"$program" sample run --prompt "12 bottles" --tokens 40 --seed 3 --samples 2 >both
sed -n 2p both >first_of_both
[ "$(sed -n 1p both)" = "--- sample 1 of 2 ---" ] && grep -q '^--- sample 2 of 2 ---$' both || fail "samples: $(cat both)"
head -n 1 first | cmp - first_of_both || fail "the first of two samples: $(cat both)"
"$program" sample run --prompt "12 bottles" --tokens 40 --seed 3 --stop "$(head -c 25 first | tail -c 3)" >stopped
[ "$(wc -c <stopped)" -le 24 ] && cmp -n "$(($(wc -c <stopped) - 1))" first stopped || fail "--stop: $(cat stopped)"
"$program" sample run --prompt "12 bottles" --tokens 30 --temperature 5 --min-p 1 >most_probable
"$program" sample run --prompt "12 bottles" --tokens 30 --temperature 0 >greedy
cmp most_probable greedy || fail "--min-p 1"
"$program" sample run --prompt "12 bottles" --tokens 20 --temperature 0 --no-repeat 2 >without_repeats
cmp -s without_repeats greedy && fail "--no-repeat changes nothing"
cmp -s first third && fail "another seed, the same text"
expect 0 'wrote: page.html' "$program" sample run --prompt "12 bottles" --tokens 4 --page page.html
grep -q '"tokens":\["1","2"," ","b"' page.html && grep -q '"name":"layers.1.self_attn.in_proj_weight"' page.html || fail "page"
expect 1 'cannot be opened for writing' "$program" sample run --tokens 4 --page none/page.html
expect 0 "loss=$loss " "$program" eval run --last
expect 0 'tokens=' "$program" eval run --text text
expect 0 '' "$program" export run model
for file in config.json tokenizer.json model.safetensors; do
    [ -s "model/$file" ] || fail "no model/$file"
done

# A run keeps its precision, and eval uses it.
expect 0 'precision=bfloat16 ' train text reduced --precision bfloat16 --steps 20
loss_in_bfloat16=$(field loss)
expect 0 "loss=$loss_in_bfloat16 " "$program" eval reduced --last
expect 0 'precision=bfloat16 ' "$program" resume reduced --steps 21 --quiet
! grep -q 'takes .* times as long' said || fail "--quiet prints the time of bfloat16"
expect 0 'bfloat16 takes [0-9.]* times as long as float32 on this processor' "$program" resume reduced --steps 22
expect 2 'takes float32, bfloat16x3, bfloat16 or int8, not half' train text other --precision half

# -- train from a model of transformers, with frozen parameters --
expect 0 'loss=' train text tuned --from model --freeze 'embedding.*,layers.0.*'
awk -v a="$(field loss)" -v b="$loss" 'BEGIN { exit !(a < b) }' || fail "fine-tuning: $(field loss), before $loss"
expect 0 'loss=' train text untouched --from model --freeze '*norm*' --lr 1e-9 --min-lr 1e-9 --weight-decay 0
expect 0 'loss=' train text llama --llama --kv-heads 1 --tokenizer bpe --vocabulary 300
[ -s llama/merges.txt ] || fail "no merges.txt"
expect 0 '' "$program" export llama llama_model
expect 0 'loss=' train text llama_tuned --from llama_model
# A sample ends at the pretrained model's end token, here the end of a line. The exported model has the same end token.
end=$(sed -n 's/.*"Ċ": *\([0-9]*\).*/\1/p' llama_model/vocab.json llama/vocab.json 2>/dev/null | head -n 1)
[ -n "$end" ] || fail "no line end among the tokens"
cp -R llama_model ending && sed -i "s/\"eos_token_id\": null/\"eos_token_id\": $end/; s/\"eos_token_id\": [0-9]*/\"eos_token_id\": $end/" ending/config.json
expect 0 'loss=' train text ended --from ending --steps 2
"$program" sample llama_tuned --prompt 12 --tokens 400 >unended
"$program" sample ended --prompt 12 --tokens 400 >ended_text
[ "$(wc -l <unended)" -gt 1 ] && [ "$(wc -l <ended_text)" -eq 1 ] || fail "the text continues after the end token"
expect 0 '' "$program" export ended ended_model
grep -q "\"eos_token_id\": $end" ended_model/config.json || fail "the end token was not exported"
# A sample with a model folder ends at each of several end tokens, here those that end with a comma.
commas=$(grep -o '"[^"]*,": *[0-9]*' ended_model/tokenizer.json | sed 's/.*: */, /' | tr -d '\n')
cp -R ended_model several_ends && sed -i "s/\"eos_token_id\": $end/\"eos_token_id\": [$end$commas]/" several_ends/config.json
one_end=$("$program" sample ended_model --prompt 12 --tokens 400 --temperature 0)
several=$("$program" sample several_ends --prompt 12 --tokens 400 --temperature 0)
[ "$several" != "$one_end" ] && [ "$several" = "${one_end%%,*}" ] || fail "several end tokens$commas: $several"
# Windows have the default length, or the model's if that is smaller. A larger length is refused.
long="--recipe nanogpt --steps 1 --batch 2 --eval-batches 1 --sample-tokens 0 --quiet"
# shellcheck disable=SC2086 # options are words
{
    expect 0 'loss=' "$program" train text usual $long --layers 1 --heads 1 --width 8
    grep -q '"length": 64,' usual/config.json || fail "not the default length"
    expect 0 'loss=' "$program" train text fitting $long --from model
    grep -q '"length": 16,' fitting/config.json || fail "not the length of the model"
    expect 0 'parameters=' "$program" train text --memory $long --from model
    expect 2 '17 is more than the 16 positions' "$program" train text other $long --from model --length 17
}

# -- the defaults of --from --
awk 'BEGIN { for (i = 0; i < 300; i++) printf "%d bottles of beer\n", i % 7 }' >other_text # half of the text is new
quick="--recipe nanogpt --steps 1 --eval-batches 1 --sample-tokens 0 --quiet"
# shellcheck disable=SC2086 # options are words
{
    expect 0 '' "$program" train other_text longer $quick --layers 1 --heads 1 --width 8 --length 100 --tokenizer bytes
    expect 0 '' "$program" export longer longer_model
    expect 0 "--length is 100, the model's own (the model sees up to 100); --batch is 7; --lr is 0.0003" "$program" train other_text own $quick --from longer_model
    grep -q '"length": 100,' own/config.json && grep -q '"batch": 7,' own/config.json && grep -q '"lr": 0.000[23]' own/config.json ||
        fail "settings of --from: $(cat own/config.json)"
    expect 0 "--length is 50, as given .*--batch is 12" "$program" train other_text own $quick --from longer_model --length 50 --force
    expect 0 "" "$program" train other_text own $quick --from longer_model --length 50 --batch 3 --lr 0.003 --force
    grep -q '"batch": 3,' own/config.json && grep -q '"lr": 0.003' own/config.json && ! grep -q -- '--length is' said ||
        fail "given settings with --from: $(cat own/config.json said)"
    head -c 90 other_text >brief
    expect 0 "--length is 80, as many as the text has" "$program" train brief own $quick --steps 3 --from longer_model --force
    memory=$(field memory)
    expect 0 "--length is 80, as many as the text has" "$program" train brief own $quick --from longer_model --memory
    awk -v f="$(field memory)" -v m="$memory" 'BEGIN { exit !(f <= m && m <= f + 10000) }' || fail "forecast $(field memory), taken $memory"
    expect 0 '' "$program" train text llama_longer $quick --llama --layers 1 --heads 1 --width 8 --length 100 --tokenizer bytes
    expect 0 '' "$program" export llama_longer endless_model
    sed -i 's/"max_position_embeddings": 100/"max_position_embeddings": 131072/' endless_model/config.json
    expect 0 "--length is 4096, the largest default (the model sees up to 131072); --batch is 1" \
        "$program" train text own $quick --from endless_model --force
}

# -- advice if training did not help --
expect 0 'the validation loss improved from' train text tuned --from model --force
# shellcheck disable=SC2086 # options are words
expect 0 'did not improve: it was .* at the start .*' "$program" train text worse --from model --lr 3 --min-lr 3 --warmup 1 $quick
grep -q 'best.safetensors is the model as it was at the start; try a lower learning rate, --lr 0.3 instead of 3' said ||
    fail "no advice: $(cat said)"

# -- only the model's tokenizer is accepted --
expect 2 '--tokenizer characters does not have the tokens of the model in llama_model: leave it out .* or give --other-tokenizer' \
    train text other --from llama_model --tokenizer characters
expect 2 '--tokenizer run does not have the tokens' train text other --from llama_model --tokenizer run
expect 2 '--tokenizer bytes does not have the tokens' train text other --from llama_model --tokenizer bytes
expect 0 'the tokenizer has [0-9]* tokens, the model in llama_model 300: the others stay unused' \
    train text fewer --from llama_model --tokenizer run --other-tokenizer --steps 2
expect 0 'loss=' train text fewer --from model --tokenizer run --steps 2 --force # the same tokens in another folder
expect 0 'loss=' train text fewer --from model --tokenizer characters --steps 2 --force # the same tokens of the same text
expect 2 'has 300 tokens, more than the [0-9]* of the model in model' train text other --from model --tokenizer llama --other-tokenizer
cp -R model bare && rm bare/tokenizer.json
expect 0 'loss=' train text fewer --from bare --tokenizer run --steps 2 --force # the folder has no tokenizer
expect 2 'does not have the tokens' train text other --from bare --tokenizer bytes

# -- sample and eval with a model of transformers --
"$program" sample model --prompt "12 bottles" --tokens 40 --seed 3 >of_folder
cmp first of_folder || fail "another sample from the exported model"
expect 0 "" "$program" eval run --text other_text
grep -o 'bits_per_byte.*' said >of_run
expect 0 "--length is 16, the model's own" "$program" eval model --text other_text
grep -o 'bits_per_byte.*' said | cmp of_run - || fail "another loss of the exported model"
expect 2 'a model folder has no text to measure on; name one with --text FILE: model' "$program" eval model
expect 2 '--last is for the checkpoints of a run' "$program" sample model --last
expect 2 'this is a model, not a run' "$program" resume model
expect 2 'this is a model of transformers already' "$program" export model again
printf 1 >single
expect 1 'the text has a single token' "$program" eval model --text single
expect 1 'the text has a single token' "$program" eval run --text single

# -- the last lines: files, and a next command that works as printed --
expect 0 '^wrote: run 2/curves.svg$' train text 'run 2' --steps 2
grep -qx 'wrote: run 2/best.safetensors' said && grep -qx 'wrote: run 2/last.safetensors' said || fail "files: $(cat said)"
next() { # runs the command of the last output
    command=$(sed -n 's/^next:  //p' said)
    expect 0 '' sh -c "$command"
}
[ "$(sed -n 's/^next:  //p' said)" = "$program sample 'run 2'" ] || fail "next: $(cat said)"
next
expect 0 '' "$program" train --recipe nanogpt text --steps 2 --layers 1 --width 8 --quiet -- --run
next
expect 0 "^next:  $program sample 'run 2'" "$program" resume 'run 2' --steps 3 --quiet
next
TAPEHEAD_RUN=scripts/run.sh "$program" resume 'run 2' --steps 4 --quiet >said 2>&1
grep -qx "next:  scripts/run.sh language_model sample 'run 2'" said || fail "next: $(cat said)"
expect 2 'cannot be created (No such file or directory): none/run' "$program" train --recipe nanogpt text none/run
# A failed export can be repeated: config.json, which marks a complete model, is written last.
mkdir -p exported/model.safetensors/in_the_way
expect 1 'model.safetensors' "$program" export 'run 2' exported
rm -r exported/model.safetensors
expect 0 '^wrote: exported/model.safetensors$' "$program" export 'run 2' exported
next
# Several files of weights: the sample is the same, and a later export in one file leaves none of them.
"$program" sample exported --tokens 20 >one_file
expect 0 '^wrote: exported/model.safetensors.index.json$' "$program" export 'run 2' exported --force --max-shard-size 1.5KB
[ ! -e exported/model.safetensors ] || fail "the single file was left"
[ "$(ls exported/model-*-of-*.safetensors | wc -l)" -gt 2 ] || fail "shards: $(ls exported)"
"$program" sample exported --tokens 20 | cmp - one_file || fail "another sample from shards"
expect 0 '^wrote: exported/model.safetensors$' "$program" export 'run 2' exported --force --max-shard-size 1GB
[ -z "$(ls exported | grep -e -of- -e index)" ] || fail "shards were left: $(ls exported)"
for size in 5 GB -1GB 5gb 5GiB 0KB nanGB 1e30TB; do
    expect 2 '--max-shard-size takes a number and a unit' "$program" export 'run 2' other_folder "--max-shard-size=$size"
done

# -- control characters --
awk 'BEGIN { for (i = 0; i < 400; i++) printf "\033[31m%d\007\302\233\342\200\256\303\251\t\n", i % 10 }' >controls
expect 0 '' train controls escapes --steps 150
"$program" sample escapes --tokens 60 --prompt "$(printf '\033')" >plain
for sequence in '\033\[31m' '\007' '\302\233' '\342\200\256'; do
    LC_ALL=C grep -q "$(printf "$sequence")" plain || fail "$sequence is not in a file: $(cat plain)"
done
if command -v script >/dev/null; then
    script -qec "'$program' sample escapes --tokens 60 --prompt '$(printf '\033')'" /dev/null </dev/null >terminal
    LC_ALL=C grep -q "$(printf '[\001-\010\013\014\016-\037\177]\|\302\233\|\342\200\256')" terminal && fail "controls on a terminal: $(od -c terminal)"
    tr -d '\r' <terminal | sed "s/\\\\x1b/$(printf '\033')/g; s/\\\\x07/$(printf '\007')/g; s/\\\\u009b/$(printf '\302\233')/g; s/\\\\u202e/$(printf '\342\200\256')/g" >unescaped
    cmp plain unescaped || fail "another text on a terminal"
fi

expect 0 'loss=' train text run --force --tokenizer bytes --recompute --dropout 0.2
expect 0 'steps=20 ' train text patient --patience 1 --lr 2 --min-lr 2 --eval-batches 0
expect 0 'stopped early' "$program" resume patient --steps 99 --quiet
expect 0 '^12 bottles' "$program" sample run --prompt "12 bottles" --beams 3

expect 0 'steps=1 ' train text run --force --steps 1 --lr 1e-6 # the default of --min-lr is lower
# --force removes a run only after its replacement exists, and removes no other run, even if the name has special characters.
cp -R run 'run[1]' && cp -R run run1
printf 'no UTF-8 \377' >binary
expect 1 'is not UTF-8' train binary 'run[1]' --force
diff -r run 'run[1]' || fail "the run was removed without a replacement"
expect 0 'steps=2 ' train text 'run[1]' --force --steps 2
diff -r run run1 || fail "run1 was changed by a run called run[1]"
[ "$(find 'run[1]' -name 'events*' | wc -l)" -eq 1 ] || fail "events of the replaced run are left"
# The logs do not use closed standard descriptors.
status=0
# shellcheck disable=SC2086 # options are words
"$program" train --recipe nanogpt text closed ${small%--quiet*} --sample-tokens 0 >&- 2>&- || status=$?
[ $status -eq 1 ] || fail "closed standard output: status $status"
grep -qv '^{.*}$' closed/log.jsonl && fail "closed standard error: $(cat closed/log.jsonl)"

# -- refused arguments and files --
expect 2 'there is a run already' train text run
expect 2 'contains something other than a run' train text model --force
expect 2 'this is a run' train text other --from run
expect 2 'there is a model already' "$program" export run model
expect 2 'takes a whole number' train text other --steps many
expect 2 '--heads 3 does not divide --width 128; the next widths that it divides are 126 and 129' "$program" train --recipe nanogpt text other --heads 3
expect 2 '--kv-heads 3 does not divide --heads 4' "$program" train --recipe nanogpt text other --kv-heads 3
expect 2 '--width 12 / --heads 4 is 3: with --llama it must be even, as with --width 16' "$program" train --recipe nanogpt text other --llama --width 12
expect 2 '--min-lr 1 is more than --lr, which is 0.003' "$program" train --recipe nanogpt text other --min-lr 1
expect 2 'no parameter has a name like nobody' train text other --freeze nobody
expect 2 'leaves nothing to train' train text other --freeze '*'
expect 2 'are for new models' "$program" train text other --from model --layers 3
expect 2 'unrecognized option' "$program" resume run --nonsense
expect 2 'needs the folder' "$program" sample
expect 2 '--stop needs 1 to 255 bytes' "$program" sample run --stop ''
expect 2 'samples of temperature 0 are equal' "$program" sample run --samples 2 --temperature 0
expect 2 'unknown command: nonsense' "$program" nonsense
expect 1 'No such file' train nothing other
: >empty
expect 1 'it is empty' train empty other
echo short >short
expect 1 'of its 6 tokens, 5 are for training, which needs 17 .* Give more text, or a larger --validation' train short other
head -c 40 text >brief
expect 1 'Give more text, or --length 12' "$program" train --recipe nanogpt brief other --length 50 --validation 0.65
[ ! -e other ] || fail "a refused run left a folder: $(ls -A other)"
expect 1 'is not UTF-8' train binary other
expect 1 'bytes or bpe takes any file' train binary other
expect 2 'the prompt must not be empty' train text other --prompt ''
expect 2 'not the folder of a run' "$program" resume nowhere
expect 2 'not the folder of a run' "$program" sample nowhere
mkdir begun && cp run/config.json run/text.tokens begun # as if killed before its first checkpoint
expect 0 'loss=' train text begun
expect 1 'is not in the vocabulary' "$program" sample llama_tuned/../patient --prompt '#'
! grep -q '; at ' said || fail "the message has a line of the program's source: $(cat said)"
cp -R run mixed && cp llama/tokenizer.json mixed
expect 1 'tokenizer.json has changed since the run began' "$program" sample mixed
cp run/tokenizer.json mixed && cp llama/text.tokens mixed
expect 1 'text.tokens was not made with' "$program" resume mixed
printf 'x' | dd of=llama/text.tokens bs=1 seek=100 conv=notrunc 2>/dev/null
expect 1 'is damaged' "$program" resume llama --steps 70
for command in '' train resume sample eval export; do
    for option in --help -h; do
        # shellcheck disable=SC2086 # an empty command gives no argument
        expect 0 'language_model' "$program" $command $option
        [ -n "$(tail -n +2 said)" ] || fail "no help: $command $option"
    done
    # shellcheck disable=SC2086
    expect 0 '^language_model (Tapehead) [0-9.]*$' "$program" $command --version
done
expect 0 '--warmup' "$program" train --help
grep -q -- '--width .*(1 to 65536, default by the recipe; nanogpt 128)' said && grep -q -- '--steps .*(0 to 1000000000, ' said || fail "numbers in --help"
if [ -w /dev/full ]; then
    status=0
    "$program" sample tuned >/dev/full 2>said || status=$?
    [ $status -eq 1 ] || fail "a full disk: status $status"
fi
echo "all checks passed"

#!/bin/sh
# encoder.sh ENCODER MODEL: every task of the program, from a table to a prediction, with the folder of a small model of sentence-transformers; a
# run that is stopped and continues; what other programs read; wrong words and wrong data.
set -eu
program=$1 model=$2
. "$(dirname "$0")/language_model_checks.sh"

train() {
    "$program" train "$model" "$@" --quiet --batch 8 --lr 5e-3
}

# -- one label: words decide --
awk 'BEGIN {
    split("tape records order,loss gradients backward", half, ",")
    print "text,label"
    for (i = 0; i < 160; i++) {
        c = i % 2 + 1
        split(half[c], word, " ")
        print "the " word[i % 3 + 1] " and a " word[int(i / 3) % 3 + 1] "," (c == 1 ? "red" : "blue")
    }
}' >colors.csv
expect 0 'wrote: run/model/model.safetensors' train colors.csv run --task classify --epochs 4
grep -q 'best=1.0000' said || fail "the classifier does not learn: $(cat said)"
expect 0 'blue ' "$program" predict run "the loss and gradients"
expect 0 'accuracy=1.0000 macro_f1=1.0000' "$program" eval run colors.csv
printf 'the tape\n\nbackward\r\n' >lines
"$program" predict run lines >predicted
[ "$(cut -c 1-3 predicted | tr '\n' ' ')" = "red blu " ] || fail "predictions of lines: $(cat predicted)"
"$program" predict run - <lines | cmp - predicted || fail "lines of a pipe get other labels"
for file in curves.svg confusion.svg attention.svg log.jsonl last.safetensors model/config.json model/tokenizer.json; do
    [ -s run/$file ] || fail "the run has no $file"
done
grep -q '"id2label"' run/model/config.json || fail "config.json has no names of labels"

# -- the same run, stopped and continued: the same bits --
train colors.csv stopped --task classify --epochs 4 >stop_said 2>&1 &
pid=$!
i=0
while [ ! -s stopped/log.jsonl ] && [ $i -lt 500 ]; do
    sleep 0.02
    i=$((i + 1))
done
kill -INT $pid 2>/dev/null || true
wait $pid || [ $? -eq 130 ] || fail "a stopped run ends with $?: $(cat stop_said)"
expect 0 '' "$program" resume stopped --quiet
expect 0 '' "$program" resume stopped --quiet # a finished run
cmp run/model/model.safetensors stopped/model/model.safetensors || fail "the stopped run has another model"

cp colors.csv changed.csv
train changed.csv changed --task classify --epochs 1000 >stop_said 2>&1 &
pid=$!
i=0
while [ ! -s changed/last.safetensors ] && [ $i -lt 500 ]; do
    sleep 0.02
    i=$((i + 1))
done
kill -INT $pid 2>/dev/null || true
wait $pid || [ $? -eq 130 ] || fail "a stopped run ends with $?: $(cat stop_said)"
head -n 101 colors.csv >changed.csv
expect 1 'the run was started with 144 examples for training, and changed.csv has 90 now' "$program" resume changed --quiet

# -- the loss of an evaluation is the mean over examples or words, also if the last batch is smaller: here it has one long example with
# the wrong label. An evaluation in training has batches of 8, and eval's have 32 --
same_loss() { # same_loss RUN DATA
    expect 0 ' loss=' "$program" eval "$1" "$2"
    in_eval=$(sed -n 's/.* loss=\([0-9.]*\) .*/\1/p' said)
    in_training=$(sed -n 's/.*"loss\/validation": \([0-9.]*\).*/\1/p' "$1/log.jsonl" | tail -n 1)
    awk -v a="$in_eval" -v b="$in_training" 'BEGIN { exit !(a > 0 && a - b < 1e-4 && b - a < 1e-4) }' ||
        fail "the loss of $2 is $in_eval in eval and $in_training in training"
}
head -n 33 colors.csv >odd.csv
echo "the tape and the tape and the tape and the tape,blue" >>odd.csv
expect 0 '' train colors.csv odd --task classify --epochs 1 --validation-file odd.csv
same_loss odd odd.csv
awk 'BEGIN { for (i = 0; i < 33; i++) print "{\"tokens\": [" (i < 32 ? "" : "\"the\", \"end\", \"of\", \"order\", ") "\"tape\"], \"ner_tags\": [" (i < 32 ? "" : "\"B\", \"B\", \"B\", \"B\", ") "\"O\"]}" }' >odd.jsonl
expect 0 '' train odd.jsonl odd_words --task tokens --epochs 1 --validation-file odd.jsonl
same_loss odd_words odd.jsonl

# -- a table that is sorted by label: the examples for validation are not the last ones --
awk 'BEGIN { print "text,label"; for (i = 0; i < 160; i++) print i < 144 ? "the tape,red" : "the end,blue" }' >sorted.csv
expect 0 'best=\(0.[1-9]\|1\)' train sorted.csv sorted --task classify --epochs 1
expect 0 'best=0.0000' train sorted.csv sorted --task classify --epochs 1 --in-order --force

# -- several labels, a number, words --
awk 'BEGIN { for (i = 0; i < 120; i++) print i % 3 == 0 ? "{\"text\": \"a tape\", \"labels\": [\"red\"]}" : i % 3 == 1 ? "{\"text\": \"a loss\", \"labels\": [\"red\", \"blue\"]}" : "{\"text\": \"the end\", \"labels\": []}" }' >several.jsonl
expect 0 '' train several.jsonl several --task classify --epochs 40
grep -q 'best=1.0000' said || fail "several labels are not learned: $(cat said)"
expect 0 'blue 0.[0-9]*, red 0' "$program" predict several "a loss"
expect 0 'micro_f1=1.0000 precision=1.0000 recall=1.0000' "$program" eval several several.jsonl
awk 'BEGIN { print "review\tstars"; for (i = 0; i < 120; i++) print "a " (i % 3 == 0 ? "tape" : i % 3 == 1 ? "loss" : "end") " of order\t" i % 3 }' >stars.tsv
expect 0 '' train stars.tsv stars --task regress --epochs 10
expect 0 'spearman=1.0000' "$program" eval stars stars.tsv
awk 'BEGIN { for (i = 0; i < 120; i++) print "{\"tokens\": [\"a\", \"" (i % 2 ? "tape" : "loss") "\", \"end\"], \"ner_tags\": [\"O\", \"" (i % 2 ? "B-RED" : "B-BLUE") "\", \"O\"]}" }' >tags.jsonl
expect 0 '' train tags.jsonl tags --task tokens --epochs 20
"$program" predict tags "a loss end" >predicted
[ "$(cut -f 2 predicted | tr '\n' ' ')" = "O B-BLUE O  " ] || fail "tags of words: $(cat predicted)"
awk 'BEGIN { for (i = 0; i < 8; i++) print "a\tO\r\n" (i % 2 ? "tape\tB-RED" : "loss\tB-BLUE") "\r\nend\tO\r\n\r" }' >tags.conll
expect 0 'examples=8 .*entity_f1=1.0000 precision=1.0000 recall=1.0000 accuracy=1.0000' "$program" eval tags tags.conll
printf 'a\tO\ntape\tB-RED\nend\tO\n\nloss\tB-BLUE\nend\tI-BLUE\n\n' >longer.conll # I-BLUE is not in the examples
printf '%s\tO\n%s\t%s\nend\t%s\n\n' a tape B-RED O a loss B-RED O a tape O O a loss B-BLUE B-RED >entities.conll
expect 1 'the label "I-BLUE" is none of the 3 known labels: "B-BLUE", "B-RED", "O"' "$program" eval tags longer.conll
expect 0 'entity_f1=0.5000 precision=0.5000 recall=0.5000 accuracy=0.7500' "$program" eval tags entities.conll
sed 's/\tB-/\t/' tags.conll >plain.conll
expect 0 '' train plain.conll plain --task tokens --epochs 1 --validation-file plain.conll
grep -q 'validation/macro_f1' plain/log.jsonl || fail "labels that mark no entities have no macro F1"

# -- pairs: the second text decides --
awk 'BEGIN { print "premise,hypothesis,label"; for (i = 0; i < 160; i++) print (i % 2 ? "tape" : "loss") " order," (int(i / 2) % 2 ? "tape" : "loss") "," (int(i / 2) % 2 ? "red" : "blue") }' >pairs.csv
expect 0 '' train pairs.csv second --task classify --epochs 20
grep -q 'best=1.0000' said || fail "pairs are not learned: $(cat said)"
expect 0 '^red ' "$program" predict second "$(printf 'loss order\ttape')"
expect 0 '^blue ' "$program" predict second "$(printf 'tape order\tloss')"
expect 0 '' train pairs.csv alone --task classify --text hypothesis --epochs 1 --validation 0

# -- answers of questions: a span of a text --
awk 'BEGIN { split("records order end each call from", w, " "); print "question,context,answer,answer_start"; for (i = 0; i < 160; i++) { a = i % 3 ? "loss" : "gradients"; c = ""; for (j = 0; j < i % 7; j++) c = c w[(i + j) % 6 + 1] " "; print "the,\"" c "(" a ") " w[i % 5 + 1] ".\"," a "," length(c) + 1 } }' >answers.csv
expect 0 '' train answers.csv answers --task spans --epochs 12
expect 0 'f1=1.0000 exact_match=1.0000' "$program" eval answers answers.csv
expect 0 '^loss	0.[0-9]*	the$' "$program" predict answers "$(printf 'the\teach (loss), order.')"
long='each order records call from end each order records call from end each order records call'
expect 0 '^gradients	' "$program" predict answers "$(printf 'the\t%s end (gradients) %s' "$long" "$long")" # 12 tokens in a window
expect 2 'a line needs a question, a tab and a text: a' "$program" predict answers a
printf '%s\n' '{"question": "the", "context": "the loss) order.", "answers": {"text": ["order", "the loss)"], "answer_start": [10, 0]}}' >squad.jsonl
expect 0 'f1=1.0000 exact_match=1.0000' "$program" eval answers squad.jsonl # the best of several answers, without articles and signs
printf '%s\n' '{"question": "the", "context": "the loss) order.", "answers": {"text": ["Loss) order"], "answer_start": [4]}}' | sed 's/the loss/the Loss/' >squad.jsonl
expect 0 'f1=0.6667 exact_match=0.0000' "$program" eval answers squad.jsonl
for run in answers tags second; do
    grep -q 'is attended to' $run/attention.svg || fail "$run has no picture of attention"
done
grep -q '\[SEP\]' second/attention.svg || fail "a pair of texts has no separator in the picture"
grep -q '"BertForQuestionAnswering"' answers/model/config.json || fail "the exported model is not one for answers"
expect 1 'it has no question: its fields are' train colors.csv other --task spans
expect 2 '--length takes 5 to 12' train answers.csv other --task spans --length 4

# -- embeddings --
awk 'BEGIN { print "anchor,positive,negative"; for (i = 0; i < 64; i++) print (i % 2 ? "the tape,records order,loss backward" : "the loss,gradients backward,tape records") }' >triplets.csv
for loss in ranking triplet; do
    expect 0 '' train triplets.csv near_$loss --task embed --loss $loss --epochs 2 --length 12
done
cut -d , -f 1,2 triplets.csv >pairs.csv
expect 0 '' train pairs.csv near --task embed --epochs 2 --lora 2
awk 'BEGIN { print "sentence1,sentence2,score"; for (i = 0; i < 64; i++) print "the tape," (i % 2 ? "a tape" : "loss end") "," i % 2 }' >scores.csv
for loss in cosent cosine; do
    expect 0 '' train scores.csv scored_$loss --task embed --loss $loss --epochs 4
    expect 0 'spearman=' "$program" eval scored_$loss scores.csv
done
# -- a dense layer behind the pooling is trained and exported --
cp -r "$model" dense
mkdir dense/2_Dense
sed 's/2_Normalize/3_Normalize/; /"idx": 2/s/^/"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}, {/; s/"idx": 2,$/"idx": 3,/' \
    "$model/modules.json" >dense/modules.json
echo '{"in_features": 8, "out_features": 8, "bias": true, "activation_function": "torch.nn.modules.linear.Identity"}' >dense/2_Dense/config.json
{
    printf '\240\000\000\000\000\000\000\000'
    printf '%-160s' '{"linear.weight":{"dtype":"F32","shape":[8,8],"data_offsets":[0,256]},"linear.bias":{"dtype":"F32","shape":[8],"data_offsets":[256,288]}}'
    for i in 0 1 2 3 4 5 6 7; do # the identity, and a bias of 0
        printf '\000\000\200\077'
        [ $i -eq 7 ] || head -c 32 /dev/zero
    done
    head -c 32 /dev/zero
} >dense/2_Dense/model.safetensors
expect 0 '' "$program" train dense pairs.csv dense_run --task embed --epochs 2 --batch 8 --lr 5e-3 --quiet
expect 0 '' "$program" resume dense_run --quiet
expect 0 'mrr=' "$program" eval dense_run pairs.csv
cmp -s dense/2_Dense/model.safetensors dense_run/model/2_Dense/model.safetensors && fail "the dense layer is not trained"
tail -c 32 dense_run/model/2_Dense/model.safetensors | cmp -s -n 32 - /dev/zero && fail "the bias of the dense layer is not trained"

sed 1d scores.csv >no_header.csv
expect 0 'spearman=' "$program" eval scored_cosine no_header.csv --columns sentence1,sentence2,score
expect 1 '--columns those of a table without a header' "$program" eval scored_cosine no_header.csv
printf 'records the order\nloss and gradients\n' >texts
expect 0 '' "$program" search near_ranking texts "a tape" --top 1
grep -q 'records the order' said || fail "search finds another line: $(cat said)"
expect 0 'wrote: e.npy' "$program" embed near texts --out e.npy
[ "$(head -c 6 e.npy | tail -c 5)" = NUMPY ] || fail "e.npy is no array"
"$program" embed near 'a "text"' | grep -q '^{"text": "a \\"text\\"", "embedding": \[.*\]}$' || fail "embed prints no JSON"
for type in float32 float16 bfloat16; do
    expect 0 'wrote: out_'$type'/model.safetensors' "$program" export near out_$type --type $type
    [ -s out_$type/modules.json ] || fail "export writes no modules.json"
    expect 0 'records the order' "$program" search out_$type texts "a tape"
done

expect 0 'records the order' "$program" search near_ranking texts "a tape" --weights bfloat16 --precision bfloat16 --top 1

# -- GGUF files --
for type in float32 q8_0; do
    expect 0 "wrote: near_$type.gguf" "$program" export near --gguf near_$type.gguf --type $type
    expect 0 'records the order' "$program" search near_$type.gguf texts "a tape" --top 1
    expect 2 'there is a model already' "$program" export near --gguf near_$type.gguf
done
"$program" embed near texts >wanted
"$program" embed near_float32.gguf texts | cmp - wanted || fail "a GGUF file has other embeddings"
expect 0 'wrote: run.gguf' "$program" export run --gguf run.gguf
"$program" predict run texts >wanted
"$program" predict run.gguf texts | cmp - wanted || fail "a GGUF file predicts other labels"
expect 2 '--type is float32, float16 or bfloat16 (with --gguf also q8_0 or q4_0), not q8_0' "$program" export near x --type q8_0
expect 2 'export needs a run, and a folder to write or --gguf FILE' "$program" export near x --gguf x.gguf

# -- wrong words and data --
expect 2 '--weights takes float32' "$program" search near_ranking texts "a tape" --weights q9
expect 2 'train needs the folder of a model' "$program" train "$model"
expect 2 '--task takes embed, classify, tokens, regress or spans, not nothing' train colors.csv other
expect 2 'there is a run already' train colors.csv run --task classify
expect 2 'this is not the folder of a model' "$program" train . colors.csv other --task classify
expect 1 'it has no label: its fields are' train pairs.csv other --task classify
expect 1 'embed needs pairs or triplets' train colors.csv other --task embed
printf 'text,label\na,red\nb,red\n' >one.csv
expect 1 'the examples have only one label' train one.csv other --task classify
printf 'text,label\na,green\n' >green.csv
expect 1 'the label "green" is none of the 2 known labels: "blue", "red"' "$program" eval run green.csv
expect 2 'this model has no head' "$program" predict near "a"
expect 2 'this model has a head' "$program" embed run "a"
expect 2 'there is a model already' "$program" export near out_float32
expect 2 '--freeze: no parameter has a name like nothing' train colors.csv other --task classify --freeze nothing
expect 2 'unknown command' "$program" guess
expect 1 'standard output could not be written' sh -c '"$1" predict run tape >&-' sh "$program"
sed 's/text,/text1,text2,/;2,$s/,/,tape,/' colors.csv >second.csv
printf '{"text": "a", "labels": ["red", "blue"]}\n' >two_labels.jsonl
awk 'BEGIN { print "text,score"; for (i = 0; i < 40; i++) print "a tape," i % 3 }' >scored.csv
sed '2,$s/[12]$/0/' scored.csv >constant.csv
expect 2 '--loss takes ranking, cosent, cosine or triplet, not x' train pairs.csv other --task embed --loss x
expect 2 '--loss is for the task embed, not classify' train colors.csv other --task classify --loss cosine
expect 2 '--pooling is for the task embed, not regress' train stars.tsv other --task regress --pooling max
expect 1 'pairs.csv: the loss needs a score of each pair' train pairs.csv other --task embed --loss cosent
expect 1 'pairs.csv: the loss triplet needs three texts' train pairs.csv other --task embed --loss triplet
expect 1 'colors.csv: embed needs pairs' train pairs.csv other --task embed --validation-file colors.csv
expect 1 'scores.csv: scores must be in both files' train pairs.csv other --task embed --validation-file scores.csv
expect 1 'second.csv: its examples have another number of texts' train colors.csv other --task classify --validation-file second.csv
expect 1 'two_labels.jsonl: an example has no label or several' train colors.csv other --task classify --validation-file two_labels.jsonl
expect 1 'two_labels.jsonl: an example has no label or several' "$program" eval run two_labels.jsonl
expect 1 'colors.csv: embed needs pairs' "$program" eval near colors.csv
expect 2 '--length takes 3 to 12 tokens with this model and its tokenizer, not 13' train colors.csv other --task classify --length 13
expect 2 '--length takes 3 to 12 .* not 2' train colors.csv other --task classify --length 2
expect 2 "the name of the run's folder is empty" train colors.csv '' --task classify
expect 1 'nothing/last.safetensors cannot be read, so there is nothing to continue' "$program" resume nothing
expect 2 'the text is empty' "$program" predict run ''
expect 0 'there is no file nothing.txt, so the word is a text' "$program" predict run nothing.txt
printf 'the\0tape\n' >nul.txt
expect 2 'a line has a NUL character, as in UTF-16' "$program" predict run nul.txt
printf 'a \377 \342\202\254 \355\240\200\n' >invalid.txt
"$program" embed near invalid.txt >invalid.json
iconv -f utf-8 -t utf-8 invalid.json | grep -qF "$(printf '"a \357\277\275 \342\202\254 ')" || fail "embed writes JSON that is not UTF-8"
expect 0 '' train scored.csv constant --task regress --epochs 3 --validation-file constant.csv # no correlation with a constant
expect 0 '' train colors.csv whole --task classify --epochs 1 --validation 0
[ -s whole/curves.svg ] || fail "a run without validation has no curves.svg"
if [ -c /dev/full ]; then
    expect 1 '/dev/full: No space left on device' "$program" embed near texts --out /dev/full
    expect 1 'standard output could not be written' sh -c '"$1" eval run colors.csv >/dev/full' sh "$program"
fi
[ ! -e other ] || fail "a run that did not begin leaves a folder"
expect 0 'best=' train colors.csv frozen --task classify --freeze 'embedding.*,layers.*' --epochs 1

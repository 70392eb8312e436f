#!/bin/sh
# language_model_texts.sh LANGUAGE_MODEL: texts from files, folders, pipes and standard input, as one document or several.
set -eu
program=$1
. "$(dirname "$0")/language_model_checks.sh"

train() {
    "$program" train --recipe nanogpt --length 8 --batch 2 --layers 1 --heads 1 --width 8 --steps 2 --eval-every 2 --eval-batches 1 --sample-tokens 0 "$@"
}
crc() {
    grep -o 'parameters_crc32c=[0-9a-f]*' said
}
tokens() { # tokens RUN: prints the token file without its header
    od -An -v -tu2 -j64 "$1/text.tokens" | tr -s ' \n' '\n\n' | sed '/^$/d'
}

mkdir texts texts/folder
awk 'BEGIN { for (i = 0; i < 20; i++) printf "line %d é\n", i }' >texts/b.txt
printf 'the first document\n' >texts/a.txt
printf 'hidden' >texts/.hidden
: >texts/empty
printf 'deeper' >texts/folder/c.txt

# One document gives the same tokens from a file, a folder or a pipe, without a token at its end.
expect 0 'loss=' train texts/b.txt one
same=$(crc)
for how in pipe stdin fifo redirected single; do
    case $how in
    pipe) cat texts/b.txt | expect 0 '' train - $how ;;
    stdin) cat texts/b.txt | expect 0 "" train /dev/stdin $how ;;
    redirected) expect 0 '' train - $how <texts/b.txt ;;
    fifo)
        mkfifo named
        cat texts/b.txt >named &
        expect 0 '' train named $how
        ;;
    single) mkdir alone && cp texts/b.txt alone && expect 0 '' train alone $how ;;
    esac
    cmp one/text.tokens $how/text.tokens && [ "$(crc)" = "$same" ] || fail "$how: $(crc), from the file $same"
done
# The run keeps the text of a pipe: resume needs no text.
expect 0 'steps=4 ' "$program" resume pipe --steps 4 --quiet </dev/null

# Each of several documents ends with the end-of-text token.
for tokenizer in bytes characters bpe; do
    expect 0 '2 documents, ' train texts "folder_$tokenizer" --tokenizer $tokenizer --vocabulary 280
    expect 0 '2 documents, ' train texts/a.txt texts/b.txt "files_$tokenizer" --tokenizer $tokenizer --vocabulary 280
    cmp "folder_$tokenizer/text.tokens" "files_$tokenizer/text.tokens" || fail "a folder differs from its files in order"
    end=$(sed -n 's/.*"end token": \([-0-9]*\).*/\1/p' "folder_$tokenizer/config.json")
    [ "$end" -ge 0 ] || fail "$tokenizer: no end-of-text token"
    expect 0 '' "$program" export "folder_$tokenizer" "model_$tokenizer"
    grep -q "\"eos_token_id\": $end" "model_$tokenizer/config.json" || fail "$tokenizer: eos_token_id is not $end"
done
tokens folder_bytes | sed -n '1,40p' >all # the last are checksums
[ "$(sed -n 20p all)" -eq 256 ] && [ "$(grep -c '^256$' all)" -eq 1 ] || fail "no end token after the first document: $(cat all)"
[ "$(tokens folder_bytes | grep -c '^256$')" -eq 2 ] || fail "no end token after the last document"
cat texts/a.txt | expect 0 '2 documents, ' train - texts/b.txt mixed --tokenizer bytes
cmp mixed/text.tokens folder_bytes/text.tokens || fail "standard input is not the first document"
# Tuning uses the end-of-text token of the model. A model without one keeps its vocabulary.
expect 0 'each ends with' "$program" train texts tuned --from model_bytes --steps 2 --length 8 --batch 2
expect 0 'loss=' train texts/b.txt one_of_bytes --tokenizer bytes
expect 0 '' "$program" export one_of_bytes model_one
expect 0 'has no end-of-text token' "$program" train texts untied --from model_one --steps 2 --length 8 --batch 2
# Bits per byte counts the bytes of the text, without end-of-text tokens.
expect 0 'tokens=' "$program" eval folder_bytes --text texts
bytes=$(cat texts/a.txt texts/b.txt | wc -c)
sed 's/.* loss=\([^ ]*\).*bits_per_byte=\([^ ]*\) tokens=\([0-9]*\).*/\1 \2 \3/' said | awk -v n="$bytes" '
    END { bytes = $1 * $3 / log(2) / $2; exit !($3 == n + 1 && bytes > 0.99 * (n - 1) && bytes < 1.01 * (n - 1)) }' ||
    fail "bits per byte of $bytes bytes: $(cat said)"

# A sample ends with its document, unless --ignore-eos is given. This model has learned that all documents are "ab".
mkdir many
i=10
while [ $i -lt 60 ]; do printf 'ab' >many/$i.txt && i=$((i + 1)); done
expect 0 '50 documents' train many ends --steps 60 --lr 0.03 --warmup 5
[ "$("$program" sample ends --prompt a --tokens 50 --temperature 0)" = ab ] || fail "a sample continues after the end of its document"
"$program" sample ends --prompt a --tokens 8 --temperature 0 --ignore-eos >sampled
grep -q '^ab<|endoftext|>ab<|endoftext|>ab' sampled || fail "--ignore-eos: $(cat sampled)"

# A refused text leaves no file behind.
expect 1 'from standard input cannot be used: it is empty' train - other <texts/empty
expect 1 'it is a device' train /dev/zero other
mkdir nothing
expect 1 'the text nothing cannot be used: the folder has no regular files with text' train nothing other
expect 1 'it is the folder of a run, not of texts' train one other
expect 1 'No such file' train texts/a.txt missing other
expect 2 'the last word is the folder of the run, but this is a file: texts/b.txt' train texts/a.txt texts/b.txt
expect 1 'is not UTF-8' sh -c 'printf "\\377" | "$1" train - other' - "$program"
printf 'not UTF-8: \377' >binary
expect 1 'is not UTF-8' train texts/a.txt binary other
[ ! -e other ] || fail "a refused run left a folder"
expect 1 'is too short' train texts/a.txt one --force --length 60
cmp one/text.tokens single/text.tokens && [ ! -e one/next.tokens ] || fail "a text that is too short has replaced a run"
echo "all checks passed"

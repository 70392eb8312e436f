#!/bin/sh
# language_model_checkpoints.sh LANGUAGE_MODEL CHANGE_CHECKPOINT: which checkpoints a run keeps, and which ones resume accepts.
set -eu
program=$1 change=$2
. "$(dirname "$0")/language_model_checks.sh"

flip() { # flip FILE BYTES: changes one byte, BYTES before the end
    size=$(stat -c %s "$1")
    byte=$(od -An -tu1 -j $((size - $2)) -N 1 "$1")
    # shellcheck disable=SC2059 # the byte is the format
    printf "\\$(printf %o $((byte ^ 1)))" | dd of="$1" bs=1 seek=$((size - $2)) conv=notrunc 2>/dev/null
}
train() {
    "$program" train --recipe nanogpt text "$@" --length 8 --batch 2 --layers 1 --heads 2 --width 8 --steps 40 --eval-every 10 --eval-batches 2 \
        --sample-tokens 5 --dropout 0.1 --quiet
}
kept() { # kept RUN: prints the names of its checkpoints
    (cd "$1" && echo last*)
}
log() { # log RUN: prints the log without times
    sed 's/, "tokens_per_second": [^,}]*//' "$1/log.jsonl"
}

awk 'BEGIN { for (i = 0; i < 40; i++) printf "line %d\n", i }' >text

# -- the number of checkpoints --
expect 0 'steps=40 ' train whole
crc=$(grep -o 'parameters_crc32c=[0-9a-f]*' said)
[ "$(kept whole)" = "last.1.safetensors last.safetensors" ] || fail "not two by default: $(kept whole)"
expect 0 '' train one --keep 1
[ "$(kept one)" = last.safetensors ] || fail "--keep 1: $(kept one)"
expect 0 '' train three --keep 3
[ "$(kept three)" = "last.1.safetensors last.2.safetensors last.safetensors" ] || fail "--keep 3: $(kept three)"
expect 0 '' train three --force
[ "$(kept three)" = "last.1.safetensors last.safetensors" ] || fail "--force leaves checkpoints: $(kept three)"
expect 2 'takes a whole number from 1 to 100' train other --keep 0

# -- damage: an older checkpoint gives the same bits --
for how in moments header cut missing; do
    cp -R whole $how
    case $how in
    moments) flip $how/last.safetensors 200 ;;
    header) printf x | dd of=$how/last.safetensors bs=1 seek=300 conv=notrunc 2>/dev/null ;;
    cut) head -c 3000 whole/last.safetensors >$how/last.safetensors ;;
    missing) rm $how/last.safetensors ;;
    esac
    cp -R $how fresh
    expect 2 'there is a run already' train fresh
    rm -r fresh
    if [ $how = moments ]; then
        expect 0 '^line' "$program" sample $how --last --prompt line --tokens 5 # its weights are intact
        expect 0 'loss=' "$program" eval $how --last
    fi
    expect 0 'continues from the older checkpoint .*last.1.safetensors, at step 30' "$program" resume $how --quiet
    [ $how = missing ] || grep -q 'last.safetensors' said || fail "$how: no message about the damage"
    [ $how != moments ] || grep -q 'checksum of tensor "\.optimizer' said || fail "no message about the moments"
    [ "$(grep -o 'parameters_crc32c=[0-9a-f]*' said)" = "$crc" ] || fail "$how: other parameters"
    log whole >a && log $how >b && cmp a b && diff -r whole/samples $how/samples
    cmp whole/last.safetensors $how/last.safetensors && cmp whole/best.safetensors $how/best.safetensors
    [ $how = missing ] || [ -e $how/last.safetensors.damaged ] || fail "$how: the damaged file was removed"
    expect 0 'nothing is left to train' "$program" resume $how --quiet
done
flip cut/last.safetensors 200
flip cut/last.1.safetensors 200
expect 1 'no checkpoint of the run is intact' "$program" resume cut
[ "$(grep -c 'the file is damaged' said)" -eq 2 ] || fail "no message for each of two damaged files"
flip cut/last.1.safetensors 200 # (changes it back)
expect 0 'continues from the older' "$program" resume cut --quiet

# -- steps --
expect 2 'has done 40 steps already' "$program" resume whole --steps 30
expect 0 'nothing is left to train: 40 of 40 steps' "$program" resume whole --steps 40 --quiet
expect 0 'steps=41 ' "$program" resume whole --steps 41 --quiet
grep -q 'nothing is left' said && fail "one step was left"
[ "$(kept whole)" = "last.1.safetensors last.safetensors" ] || fail "resumed: $(kept whole)"

# -- untrusted checkpoints: refused with a message, before they take memory --
hostile() { # hostile WORDS FROM TO COMMAND [OPTION...]
    rm -rf hostile && cp -R one hostile
    for file in last best; do "$change" hostile/$file.safetensors "$2" "$3" || fail "no $2"; done
    words=$1
    shift 3
    command=$1
    shift
    expect 1 "$words" "$program" "$command" hostile "$@"
}
for command in sample eval resume; do
    hostile 'embedding.weight is (' 'model.width\": 8' 'model.width\": 800000' "$command"
    hostile 'too few for a model of 60000 layers' 'model.layers\": 1' 'model.layers\": 60000' "$command"
    hostile '"precision" is null; it must be a text' 'precision\": \"float32\"' 'precision\": null' "$command"
    hostile '"heads" is 0; it must be a whole number, 1 to 1024' '\"heads\": 2' '\"heads\": 0' "$command"
done
hostile 'the epoch must be 0 to 4611686018427387903; it is 9223372036854775807' '\"epoch\":' '\"epoch\":9223372036854775807,\"o\":' resume
hostile 'the next window of epoch [0-9]* must be 0 to [0-9]*; it is 900000' '\"window\":' '\"window\":900000,\"o\":' resume
hostile '"worse" is 9223372036854775807; it must be 0 to 1000000000' '\"worse\":' '\"worse\":9223372036854775807,\"o\":' resume
hostile '"best" is nan; it must be 0 or more' '\"best\":' '\"best\":\"nan\",\"o\":' resume
hostile '"step" is 4000000000; it must be 0 to 1000000000' '\"step\":40' '\"step\":4000000000' resume
rm -rf one
expect 0 '' train one --schedule plateau --keep 1
hostile '"plateau rate" is 5 and "plateau best" is [0-9.]*; the rate must be 0 to 0.003' '\"plateau rate\":' '\"plateau rate\":5,\"o\":' resume
hostile '"plateau best" is nan; ' '\"plateau best\":' '\"plateau best\":\"nan\",\"o\":' resume
hostile '"plateau bad" is -1; it must be 0 to 1000000000' '\"plateau bad\":' '\"plateau bad\":-1,\"o\":' resume
echo "all checks passed"

#!/bin/sh
# language_model_mapping.sh LANGUAGE_MODEL: with --no-mapping, files of a model that are overwritten or truncated after loading do not
# change or end chat, sample, eval and tune. Without it they do, which shows that the test changes the file in time.
set -eu
program=$1
. "$(dirname "$0")/language_model_checks.sh"

awk 'BEGIN { for (i = 0; i < 60; i++) printf "line %d of some text\n", i }' >text
printf '{"prompt": "a", "completion": "b"}\n{"prompt": "c", "completion": "d"}\n' >data.jsonl
expect 0 '' "$program" train --recipe nanogpt text first --llama --layers 1 --heads 1 --width 64 --length 64 --batch 2 --steps 30 --lr 0.01 \
    --tokenizer bytes --eval-batches 1 --sample-tokens 0 --quiet --threads 1
expect 0 '' "$program" export first float32
expect 0 '' "$program" export first bfloat16 --type bfloat16
expect 0 '' "$program" export first shards --max-shard-size 60KB
for name in float32 bfloat16 shards; do
    cp -R $name kept_$name
done
tune() { # tune [OPTION...]
    "$program" tune float32 data.jsonl run --steps 3 --length 16 --sample-tokens 0 --quiet --threads 1 --force --keep 3 --eval-every 1 \
        --log-every 1 "$@"
}
expect 0 '' tune

# overwrite|shorten FOLDER: changes the files of weights in place.
overwrite() {
    for file in "$1"/*.safetensors; do
        head -c "$(wc -c <"$file")" /dev/zero | dd of="$file" conv=notrunc status=none
    done
}
shorten() {
    for file in "$1"/*.safetensors; do
        : >"$file"
    done
}
restore() { # restore FOLDER
    rm -rf "$1" && cp -R "kept_$1" "$1"
}

mkfifo pipe
# Each of these commands begins, waits until the model is loaded, calls `change FOLDER`, and ends with status $status and the file
# `answer`.
chat_of() { # chat_of FOLDER PATH [OPTION...]
    folder=$1
    shift
    "$program" chat "$@" --chat plain --temperature 0 --tokens 20 <pipe >answer 2>said &
    pid=$!
    exec 3>pipe
    echo 'line 1' >&3
    until [ -s answer ] && [ "$(tail -c 1 answer | wc -l)" -eq 1 ]; do sleep 0.01; done
    $change "$folder"
    echo 'line 2' >&3
    exec 3>&-
    status=0
    wait $pid 2>/dev/null || status=$?
}
eval_of() {
    folder=$1
    shift
    "$program" eval "$@" --text pipe >answer 2>said &
    pid=$!
    exec 3>pipe # waits until eval opens the pipe, after the model
    $change "$folder"
    cat text >&3
    exec 3>&-
    status=0
    wait $pid 2>/dev/null || status=$?
}
# stopped_at_first_line FOLDER COMMAND...: after its first line of output the command waits for the change.
stopped_at_first_line() {
    folder=$1
    shift
    "$@" >pipe 2>said &
    pid=$!
    exec 3<pipe
    read -r line <&3
    kill -STOP $pid
    $change "$folder"
    kill -CONT $pid
    { echo "$line"; cat <&3; } | grep -av seconds= >answer
    exec 3<&-
    status=0
    wait $pid 2>/dev/null || status=$?
}
sample_of() {
    folder=$1
    shift
    stopped_at_first_line "$folder" "$program" sample "$@" --tokens 1500 --temperature 0 --prompt "line
" --ignore-eos
}
tune_of() {
    folder=$1
    shift 2
    stopped_at_first_line "$folder" tune "$@"
}

survives() { # survives CHANGE COMMAND FOLDER PATH
    how=$1 change=:
    shift
    "$@"
    [ $status -eq 0 ] || fail "$*: $(cat said)"
    mv answer expected
    change=$how
    "$@" --no-mapping
    restore "$2"
    [ $status -eq 0 ] || fail "$change, $* --no-mapping: status $status: $(cat said)"
    cmp answer expected || fail "$change, $* --no-mapping: another result"
    "$@"
    restore "$2"
    [ $status -ne 0 ] || ! cmp -s answer expected || fail "$change, $*: the file is not mapped, or it was changed too late"
}
survives overwrite chat_of float32 float32
survives shorten chat_of float32 float32
survives overwrite chat_of bfloat16 bfloat16
survives shorten chat_of float32 run
survives shorten eval_of shards shards
survives overwrite eval_of float32 run
survives overwrite sample_of float32 float32
survives shorten tune_of float32 run

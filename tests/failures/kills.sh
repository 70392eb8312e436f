#!/bin/sh
# kills.sh KILLS save | KILLS LANGUAGE_MODEL COPY_TASK [WHAT...]: a process is killed at every system call about files.
# WHAT: save, train, resume, export, pictures, interrupt (SIGINT instead, at calls that change files), errors (EIO instead), full
# (disks that are too small). Without WHAT: all. Afterwards every file is the old one or the new one, and complete. The process,
# started again, ends with the same parameters, log, samples and checkpoints as without a kill. strace counts the calls of each
# name separately.
set -eu

kills=$1
shift
language_model= copy_task=
if [ "$1" != save ]; then
    language_model=$1 copy_task=$2
    shift 2
fi
[ $# -gt 0 ] || set -- save train resume export pictures interrupt errors full

command -v strace >/dev/null || { echo "skipped: strace is not installed"; exit 77; }
if ! why=$(strace -qq -o /dev/null true 2>&1); then
    echo "skipped: strace cannot trace here: $why"
    exit 77
fi

place=/tmp
[ ! -w /dev/shm ] || place=/dev/shm
out=$(mktemp -d "$place/tapehead_kills_XXXXXX")
trap 'umount "$out/disk" 2>/dev/null || true; rm -rf "$out"' EXIT
cd "$out"
export OMP_NUM_THREADS=1

wrong() { # wrong MESSAGE FILE...: ends the test
    echo "$where: $1"
    shift
    cat "$@"
    exit 1
}

# -- the calls --

changing='openat|open|creat|write|pwrite64|writev|rename|renameat|renameat2|link|linkat|symlink|unlink|unlinkat|mkdir|rmdir|ftruncate|fchmod|fchown|fsync|flock'

# list_calls MARK COMMAND...: writes "NAME NUMBER" of every call about files to the file `calls`, from the first one on that has
# MARK in its arguments. Earlier calls load the program: a kill there is a program that never started. Mappings of memory
# without a file are left out.
list_calls() {
    mark=$1
    shift
    strace -qq -f --seccomp-bpf -s 300 -o trace -e trace=%file,%desc "$@" >record.out 2>&1 || wrong "failed under strace" record.out
    awk -v mark="$mark" '{
        name = $2
        if (!sub(/\(.*/, "", name) || name !~ /^[a-z]/)
            next
        number[name]++
        began = began || (name != "execve" && index($0, mark))
        if (began && !/MAP_ANONYMOUS/)
            print name, number[name]
    }' trace >calls
    [ -s calls ] || wrong "no calls" trace
}

# list_changes MARK COMMAND...: lists only the calls that change files.
list_changes() {
    list_calls "$@"
    grep -E "^($changing) " calls >changes
    mv changes calls
}

# inject EVENT NAME NUMBER COMMAND...: runs it with a signal or an error at that call. Sets status.
inject() {
    event=$1 name=$2 number=$3
    shift 3
    where="$what, $event at $name $number"
    runs=$((runs + 1))
    status=0
    # (not with --seccomp-bpf: strace 6.1 then sends no signal)
    strace -qq -f -o /dev/null -e trace="$name" -e inject="$name:$event:when=$number" "$@" >killed.out 2>&1 || status=$?
}

must_be_killed() {
    [ $status -eq 137 ] || wrong "status $status instead of a kill" killed.out
}

# A picture of the speed may be a little longer, so a training run may have one call less or more of `write`.
may_be_killed() {
    [ $status -eq 0 ] || must_be_killed
    [ $status -ne 0 ] || missed=$((missed + 1))
    [ $missed -le 4 ] || wrong "too many runs ended before the call" killed.out
}

may_be_interrupted() {
    [ $status -eq 130 ] || [ $status -eq 0 ] || wrong "status $status" killed.out
}

may_have_an_error() {
    [ $status -eq 0 ] || [ $status -eq 1 ] || [ $status -eq 2 ] || wrong "status $status" killed.out
    [ $status -eq 0 ] || [ "$name" = write ] || grep -q 'Input/output error' killed.out || wrong "no reason" killed.out
}

# -- the checks --

complete() { # complete FOLDER: if it is there, every file in it is complete, except unfinished ones
    [ -d "$1" ] || return 0
    # shellcheck disable=SC2046 # no name has a space
    set -- $(find "$1" -type f ! -name '*.unfinished*' ! -name 'events.*')
    [ $# -eq 0 ] || "$kills" verify "$@" >verify.out 2>&1 || wrong "a file is not complete" verify.out
}

no_leftover() {
    left=$(find "$1" -name '*.unfinished*' -o -name '*.damaged')
    [ -z "$left" ] || wrong "these files are left: $left"
}

either() { # either FILE OLD NEW: it is one of the two; if there is no OLD, it need not be there
    [ -e "$1" ] || [ ! -e "$2" ] || wrong "$1 is gone"
    [ ! -e "$1" ] || cmp -s "$1" "$2" || cmp -s "$1" "$3" || wrong "$1 is neither the old file nor the new one"
}

crc() {
    grep -o 'parameters_crc32c=[0-9a-f]*' "$1"
}

log() { # log RUN: prints the log without times
    sed 's/, "tokens_per_second": [^,}]*//' "$1/log.jsonl"
}

same_run() { # same_run RUN OUTPUT: it ended as the run `whole` did. An interruption saves one more checkpoint
    [ "$(crc "$2")" = "$(crc whole.out)" ] || wrong "other parameters" "$2"
    log "$1" >a && log whole >b && cmp -s a b || wrong "another log" a b
    diff -r "$1/samples" whole/samples >a || wrong "other samples" a
    last=last.1.safetensors
    [ "$what" != interrupt ] || last=
    for file in $last last.safetensors best.safetensors text.tokens tokenizer.json config.json; do
        cmp -s "$1/$file" "whole/$file" || wrong "another $file"
    done
    no_leftover "$1"
}

training="--recipe nanogpt --layers 1 --heads 1 --width 8 --length 8 --batch 2 --steps 4 --eval-every 2 --eval-batches 1 --sample-tokens 3
    --log-every 1 --dropout 0.1 --threads 1 --quiet"

train() { # train RUN
    # shellcheck disable=SC2086 # options are words
    "$language_model" train text "$1" $training
}

make_whole() {
    [ ! -e whole ] || return 0
    awk 'BEGIN { for (i = 0; i < 30; i++) printf "line %d of some text\n", i }' >text
    train whole >whole.out 2>&1 || wrong "training failed" whole.out
}

# go_on RUN: continues the run, or begins it again if it has no checkpoint yet.
go_on() {
    if [ -e "$1/last.safetensors" ] || [ -e "$1/last.1.safetensors" ]; then
        "$language_model" resume "$1" --quiet >again.out 2>&1 || wrong "it does not resume" again.out
        ! grep -qE 'damaged|older checkpoint' again.out || wrong "the newest checkpoint is gone" again.out
    else
        train "$1" >again.out 2>&1 || wrong "it does not begin again" again.out
    fi
    same_run "$1" again.out
}

# -- what is killed --

sweep_save() {
    "$kills" save old 1 && "$kills" save new 2
    for old in old none; do
        rm -f run.safetensors
        [ $old = none ] || cp old run.safetensors
        list_calls run.safetensors "$kills" save run.safetensors 2
        while read -r name number; do
            rm -f run.safetensors
            [ $old = none ] || cp old run.safetensors
            inject signal=KILL "$name" "$number" "$kills" save run.safetensors 2
            must_be_killed
            either run.safetensors $old new
            if [ -e run.safetensors.unfinished0 ]; then # the next save removes it
                "$kills" save run.safetensors 2 && cmp run.safetensors new && no_leftover .
            fi
        done <calls
    done
}

# sweep_training LIST EVENT CHECK: training has this event at each call that LIST lists. CHECK tests the status. Then the run
# is continued.
sweep_training() {
    rm -rf run
    # shellcheck disable=SC2086 # options are words
    "$1" '"run' "$language_model" train text run $training
    while read -r name number; do
        rm -rf run
        # shellcheck disable=SC2086
        inject "$2" "$name" "$number" "$language_model" train text run $training
        "$3"
        complete run
        go_on run
    done <calls
}

sweep_train() {
    sweep_training list_calls signal=KILL may_be_killed
}

# SIGINT at each call that changes files: the step ends, a checkpoint is saved, and the run can be continued.
sweep_interrupt() {
    sweep_training list_changes signal=INT may_be_interrupted
}

# EIO at each call that changes files: training ends with a message, or with the same result. Then it can be continued.
sweep_errors() {
    sweep_training list_changes error=EIO may_have_an_error
}

# Makes the run `half`: training was killed just before its second checkpoint became the newest.
make_half() {
    [ ! -e half ] || return 0
    # shellcheck disable=SC2086
    list_calls half/last.safetensors "$language_model" train text half $training
    rm -rf half
    number=$(awk '$2 ~ /^rename\(/ { n++; if (/half\/last\.safetensors"/ && ++found == 2) print n }' trace)
    [ -n "$number" ] || wrong "the run has too few checkpoints" trace
    # shellcheck disable=SC2086
    inject signal=KILL rename "$number" "$language_model" train text half $training
    must_be_killed
}

sweep_resume() {
    make_half
    rm -rf run
    cp -R half run
    list_calls '"run' "$language_model" resume run --quiet
    while read -r name number; do
        rm -rf run
        cp -R half run
        inject signal=KILL "$name" "$number" "$language_model" resume run --quiet
        may_be_killed
        complete run
        go_on run
    done <calls
}

# whole_model OLD: each file of `model` is the old one or the new one. If the file that marks the folder as complete is there,
# all are old or all are new.
whole_model() {
    for file in newer/*; do
        file=${file#newer/}
        [ ! -e "model/$file" ] || either "model/$file" "$1/$file" "newer/$file"
    done
    [ ! -e model/config.json ] && [ ! -e model/adapter_config.json ] && [ ! -e model/one.gguf ] ||
        diff -rq -x '*.unfinished*' model newer >a || diff -rq -x '*.unfinished*' model "$1" >a ||
        wrong "the mark is there, but the model is not whole" a
}

# Makes two runs with adapters and chat files, `old_run` and `new_run`, of the same model.
make_tuned() {
    [ ! -e new_run ] || return 0
    # shellcheck disable=SC2086
    "$language_model" train text bytes $training --tokenizer bytes >export.out 2>&1 || wrong "training failed" export.out
    "$language_model" export bytes base >export.out 2>&1 || wrong "export failed" export.out
    echo '{"eos_token_id": 1}' >base/generation_config.json
    for i in 1 2 3 4; do
        echo "{\"prompt\": \"line $i\", \"completion\": \" of some text\"}"
    done >data.jsonl
    set -- base data.jsonl --length 8 --sample-tokens 0 --quiet --threads 1
    "$language_model" tune "$@" old_run --steps 1 >export.out 2>&1 || wrong "tune failed" export.out
    "$language_model" tune "$@" new_run --steps 3 --lr 0.01 --chat chatml >export.out 2>&1 || wrong "tune failed" export.out
}

# export_kind RUN FOLDER KIND: replaces what is there.
export_kind() {
    case $3 in
    folder) set -- "$1" "$2" ;;
    shards) set -- "$1" "$2" --max-shard-size 1KB ;;
    adapter) set -- "$1" "$2" --adapter ;;
    gguf) mkdir -p "$2" && set -- "$1" --gguf "$2/one.gguf" ;;
    esac
    "$command" "$language_model" export "$@" --force
}

sweep_export() {
    make_tuned
    for kind in folder shards adapter gguf; do
        rm -rf older newer
        command=env
        export_kind old_run older $kind >export.out 2>&1 || wrong "export failed" export.out
        export_kind new_run newer $kind >export.out 2>&1 || wrong "export failed" export.out
        ! diff -rq older newer >/dev/null || wrong "both exports are equal"
        for old in older none; do
            sweep_kind $old $kind
        done
    done
}

# sweep_kind OLD KIND: an export that replaces OLD is killed at each of its calls; one to a new folder, only at calls that change
# files.
sweep_kind() {
    rm -rf model
    [ "$1" = none ] || cp -R "$1" model
    list=list_calls
    [ "$1" != none ] || list=list_changes
    command=list_export export_kind new_run model "$2"
    while read -r name number; do
        rm -rf model
        [ "$1" = none ] || cp -R "$1" model
        command=kill_export export_kind new_run model "$2"
        must_be_killed
        whole_model "$1"
        command=env export_kind new_run model "$2" >export.out 2>&1 || wrong "export failed" export.out
        diff -r model newer >export.out || wrong "another model" export.out
    done <calls
}

list_export() {
    $list '"model' "$@"
}

kill_export() {
    inject signal=KILL "$name" "$number" "$@"
}

sweep_pictures() {
    set -- "$copy_task" --quiet --steps 3 --batch 2 --length 4 --width 8 --heads 1 --threads 1 --out pictures
    "$@" >pictures.out
    mv pictures drawn
    list_calls '"pictures' "$@"
    while read -r name number; do
        rm -rf pictures
        inject signal=KILL "$name" "$number" "$@"
        must_be_killed
        mkdir -p pictures
        for file in copy_loss.svg copy_attention.svg; do
            either pictures/$file none/$file drawn/$file
        done
        "$@" >again.out
        cmp -s again.out pictures.out && diff -r pictures drawn >a || wrong "other pictures" again.out
    done <calls
}

# Training fills a small disk. It ends with a message, and continues when the disk is larger.
sweep_full() {
    mkdir disk
    if ! mount -t tmpfs -o size=64k tapehead disk 2>mount.out; then
        echo "full: skipped: a small disk cannot be mounted: $(cat mount.out)"
        return
    fi
    umount disk
    status=1 size=0
    while [ $status -ne 0 ]; do
        size=$((size + 4)) runs=$((runs + 1)) status=0 where="full, $size KiB"
        mount -t tmpfs -o size=${size}k tapehead disk
        train disk/run >killed.out 2>&1 || status=$?
        if [ $status -ne 0 ]; then
            [ $status -eq 1 ] && grep -q 'No space left on device' killed.out || wrong "status $status, or no reason" killed.out
            complete disk/run
            no_leftover disk
            mount -o remount,size=8m disk
        fi
        go_on disk/run
        umount disk
    done
    [ $runs -gt 5 ] || wrong "the smallest disk is not full"
    make_tuned
    for kind in folder shards adapter gguf; do
        fill_export $kind
    done
}

# fill_export KIND: an export fills a small disk, and keeps the older model there.
fill_export() {
    rm -rf older
    command=env export_kind old_run older "$1" >export.out 2>&1 || wrong "export failed" export.out
    size=$(du -sk --apparent-size older | cut -f1) status=1 failures=0
    while [ $status -ne 0 ]; do
        size=$((size + 4)) runs=$((runs + 1)) status=0 where="full, $1, $size KiB"
        mount -t tmpfs -o size=${size}k tapehead disk
        if cp -R older disk/model 2>/dev/null; then
            command=env export_kind new_run disk/model "$1" >killed.out 2>&1 || status=$?
            [ $status -eq 0 ] || { [ $status -eq 1 ] && grep -q 'No space left on device' killed.out; } ||
                wrong "status $status, or no reason" killed.out
            [ $status -eq 0 ] || { diff -r disk/model older >a && failures=$((failures + 1)); } || wrong "the older model changed" a
        else
            status=1
        fi
        umount disk
    done
    [ $failures -gt 2 ] || wrong "the smallest disk is not full"
}

for what; do
    where=$what
    case $what in
    save | pictures) ;;
    train | resume | export | interrupt | errors | full) make_whole ;;
    *) wrong "unknown; --help explains" ;;
    esac
    runs=0 missed=0
    "sweep_$what"
    echo "$what: $runs times"
done

#!/bin/sh
# processes_examples.sh MPIRUN COPY_TASK LANGUAGE_MODEL: copy_task and language_model give the same bits with 1, 2 and 3 processes. An error ends all
# processes and is printed once. A signal to one process ends the training of all, with a checkpoint from which any number of
# processes continues. MPIRUN is scripts/processes/mpirun.sh; the programs were built with MPI.
set -eu
mpirun=$1 copy_task=$2 language_model=$3
. "$(dirname "$0")/../programs/language_model_checks.sh"

awk 'BEGIN { for (i = 0; i < 800; i++) printf "line %d of %s\n", i, i % 7 ? "some text" : "others" }' >text
options="--recipe nanogpt --layers 2 --heads 2 --width 16 --length 16 --batch 16 --accumulate 2 --dropout 0.1 --warmup 5 --eval-every 20
    --eval-batches 2 --log-every 5 --sample-tokens 30 --threads 1 --quiet --shards 8"

processes() { # processes N COMMAND...: runs it in N processes; the pid of rank R is in the file pid.R
    count=$1
    shift
    # shellcheck disable=SC2016 # the variables are the inner shell's
    timeout 300 "$mpirun" "$count" sh -c 'echo $$ >"pid.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}"; exec "$@"' sh "$@"
}
crc() {
    grep -o 'parameters_crc32c=[0-9a-f]*' "$1" || { cat "$1"; fail "no checksum: $1"; }
}
log() { # log RUN: prints the log without times
    sed 's/, "tokens_per_second": [^,}]*//' "$1/log.jsonl"
}
same() { # same RUN OUTPUT: compares with the run of a process alone
    [ "$(crc "$2")" = "$(crc alone.out)" ] || fail "other parameters: $(cat "$2")"
    log "$1" >a && log alone >b && cmp a b && cmp "$1/last.safetensors" alone/last.safetensors &&
        cmp "$1/best.safetensors" alone/best.safetensors && diff -r "$1/samples" alone/samples || fail "another run: $1"
}
once() { # once STATUS WORDS COMMAND...: ends with this status, and prints these words once
    expect "$@"
    [ "$(grep -c -- "$2" said)" -eq 1 ] || { cat said; fail "not printed once: $2"; }
}
# shellcheck disable=SC2086 # options are words
train() { # train N RUN [OPTION...]
    count=$1 run=$2
    shift 2
    processes "$count" "$language_model" train text "$run" $options "$@"
}

# -- the same bits --
# shellcheck disable=SC2086
"$language_model" train text alone $options --steps 60 >alone.out 2>&1
"$copy_task" --quiet --steps 12 --shards 8 --threads 1 >copy
for n in 1 2 3; do
    train $n "run$n" --steps 60 >"run$n.out" 2>&1 || { cat "run$n.out"; fail "$n processes"; }
    same "run$n" "run$n.out"
    processes $n "$copy_task" --quiet --steps 12 --shards 8 --threads 1 2>said | cmp - copy || { cat said; fail "copy_task, $n processes"; }
done
for option in "--precision bfloat16" "--optimizer muon"; do
    # shellcheck disable=SC2086
    train 3 other --force --steps 60 $option >other.out 2>&1
    # shellcheck disable=SC2086
    "$language_model" train text other_alone --force $options --steps 60 $option >other_alone.out 2>&1
    [ "$(crc other.out)" = "$(crc other_alone.out)" ] || fail "other parameters with $option"
done

# -- a plan: the first process chooses for all, and its command repeats the run in one process --
processes 2 "$language_model" train text planned --minutes 0.02 --shards 2 --threads 1 --quiet >planned.out 2>&1 || { cat planned.out; fail "a plan"; }
[ "$(grep -c '^repeat:' planned.out)" -eq 1 ] || { cat planned.out; fail "not one command"; }
sh -c "$(sed -n 's/^repeat:  //p' planned.out | sed 's/ text planned / text repeated /') --quiet" >repeated.out 2>&1 || { cat repeated.out; fail "repeat"; }
[ "$(crc planned.out)" = "$(crc repeated.out)" ] || fail "other parameters: $(cat planned.out repeated.out)"

# -- local steps: the signal arrives between outer steps, and the run stops after the next one --
local_steps() { # local_steps N RUN [OPTION...]: trains with --local-steps 4
    count=$1 run=$2
    shift 2
    train "$count" "$run" --steps 40 --local-steps 4 --eval-every 20 "$@"
}
local_steps 2 whole >whole.out 2>&1 || { cat whole.out; fail "local steps"; }
[ "$(crc whole.out)" != "$(crc run1.out)" ] || fail "local steps do nothing"
rm -f pid.*
local_steps 2 local --steps 400 >local.out 2>&1 &
started=$!
until [ -e local/last.safetensors ]; do sleep 0.05; done
kill -TERM "$(cat pid.1)"
status=0
wait $started || status=$?
[ $status -eq 143 ] && [ "$(grep -c 'stopped and saved at step [0-9]*[02468]$' local.out)" -eq 1 ] || { cat local.out; fail "local steps: status $status"; }
processes 2 "$language_model" resume local --quiet >local.out 2>&1 || { cat local.out; fail "resume local"; }
local_steps 2 without_stop --steps 400 >without_stop.out 2>&1
[ "$(crc local.out)" = "$(crc without_stop.out)" ] || fail "other parameters after a stop"
once 1 'adam_w of 2 workers in the file, adam_w of 4 workers here' processes 4 "$language_model" resume whole --steps 48 --quiet

# -- errors --
once 2 'does not divide --batch' train 2 other --steps 9 --batch 18
once 2 '3 processes need --shards 3 or more' train 3 other --steps 9 --shards 2
once 2 'there is a run already' train 3 run1 --steps 9
once 2 'unrecognized option' train 3 other --nonsense
once 0 'of a step, for as many processes' processes 3 "$language_model" train --help
once 2 'not the folder of a run' processes 2 "$language_model" resume nothing
mkdir -p no_log/log.jsonl no_checkpoint/next.safetensors no_sample && : >no_sample/samples
once 1 'language_model: rank 0: .*log.jsonl' train 3 no_log --steps 9
once 1 'language_model: rank 0: .*next.safetensors' train 3 no_checkpoint --steps 9
once 1 'samples.*cannot be written' train 3 no_sample --steps 9

# -- signals: to one process, and to mpirun.sh --
# shellcheck disable=SC2086
"$language_model" train text alone $options --steps 1000 --eval-every 500 --force >alone.out 2>&1
stop() { # stop RUN: starts a run in three processes, and waits until its training has begun
    rm -f pid.*
    train 3 "$1" --steps 1000 --eval-every 500 >"$1.out" 2>&1 &
    started=$!
    until [ -e "$1/last.safetensors" ]; do sleep 0.05; done
}
stopped() { # stopped RUN STATUS N: the run ends with a status and a checkpoint, from which N processes continue to the same end
    status=0
    wait $started || status=$?
    [ $status -eq "$2" ] && [ "$(grep -c 'stopped and saved at step' "$1.out")" -eq 1 ] || { cat "$1.out"; fail "$1: status $status"; }
    processes "$3" "$language_model" resume "$1" --quiet >"$1.out" 2>&1 || { cat "$1.out"; fail "resume $1"; }
    same "$1" "$1.out"
}
stop term
kill -TERM "$(cat pid.1)"
stopped term 143 2
stop int
kill -INT "$(cat pid.0)"
stopped int 130 1
# A test runs in the background, where a shell ignores SIGINT.
# shellcheck disable=SC2086
env --default-signal=INT "$mpirun" 3 "$language_model" train text ctrl_c $options --steps 1000 --eval-every 500 >ctrl_c.out 2>&1 &
started=$!
until [ -e ctrl_c/last.safetensors ]; do sleep 0.05; done
kill -INT $started
stopped ctrl_c 138 5 # 128 + SIGUSR1

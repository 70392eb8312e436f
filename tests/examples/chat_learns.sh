#!/bin/sh
# chat_learns.sh CHAT_LEARNS LANGUAGE_MODEL: the program learns a correction, and the next start knows it. A wrong command line ends
# with 2, and a wrong folder with 1.
set -eu
chat=$1 program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "$*"
    exit 1
}
awk 'BEGIN { for (i = 0; i < 60; i++) printf "line %d of some text\n", i }' >text
"$program" train --recipe nanogpt text run --layers 2 --heads 2 --width 32 --length 96 --batch 2 --steps 1 --tokenizer bytes \
    --eval-batches 1 --sample-tokens 0 --quiet --threads 1 >said 2>&1 || fail "$(cat said)"
"$program" export run model >said 2>&1 || fail "$(cat said)"
echo '{"eos_token": "|"}' >model/tokenizer_config.json

export OMP_NUM_THREADS=1
[ "$(echo sky | "$chat" model adapter)" != blue ] || fail "the model knows the answer before it learns"
[ ! -e adapter ] || fail "an adapter without corrections"
printf 'sky\n=blue\n' | "$chat" model adapter --lr 0.02 >said
answer=$(echo sky | "$chat" model adapter)
[ "$answer" = " blue" ] || [ "$answer" = blue ] || fail "it learned \"$answer\", not \"blue\""
[ -e adapter/adapter_model.safetensors ] || fail "no adapter"

status=0
"$chat" model >said 2>&1 || status=$?
[ $status -eq 2 ] || fail "status $status without an adapter"
status=0
"$chat" nothing adapter </dev/null >said 2>&1 || status=$?
[ $status -eq 1 ] && grep -q nothing said || fail "status $status for a folder that is missing: $(cat said)"

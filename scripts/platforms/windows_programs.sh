#!/bin/sh
# windows_programs.sh LIBRARIES BUILD PROGRAM: builds the program language_model for Windows, and runs it in Wine beside PROGRAM, the same program
# for this machine. Both train, stop, resume, sample, measure, tune, chat and export. Every output, every checksum of parameters and every
# exported file must be the same. scripts/platforms/mingw.sh calls it.
#   LIBRARIES  a directory with jansson and utf8proc for Windows
#   BUILD      a directory for the build
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
case ${1-} in
-*) refuse "$1 is not an option" ;;
esac
[ $# -eq 3 ] || refuse "three words are needed, and $# are given"
libraries=$1 build=$2 here=$(readlink -f "$3")
[ -x "$here" ] || refuse "$3 is not a program"
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

fail() {
    printf '%s\n' "$*"
    exit 1
}

# The kernels for AVX2 compute the same bits on all processors that have them.
cmake -S "$root" -B "$build" --toolchain "$root/cmake/toolchains/x86_64-w64-mingw32.cmake" -DCMAKE_FIND_ROOT_PATH="$libraries" \
    -DTAPEHEAD_ISAS=avx2 -DTAPEHEAD_WERROR=ON >"$work/log"
cmake --build "$build" --parallel "$(nproc)" --target language_model >"$work/log" 2>&1 || fail "$(grep -A 5 'error' "$work/log" | head -n 40)"
there=$(readlink -f "$build/programs/language_model.exe")
x86_64-w64-mingw32-objdump -p "$there" | awk '/DLL Name/ { print $3 }' >"$work/libraries"
! grep -viE '^(kernel32|advapi32|shell32|msvcrt|ucrtbase|api-ms-win-.*)\.dll$' "$work/libraries" || fail "the program needs these libraries too"
echo "language_model.exe: $(stat -c %s "$there") bytes; it needs $(tr '\n' ' ' <"$work/libraries")"

export TAPEHEAD_ISA=avx2 TAPEHEAD_GEMM=native # (Wine does not find this machine's OpenBLAS)
mkdir "$work/here" "$work/there"

# shown FILE: the output of a program without what differs from run to run: times and memory.
shown() {
    sed -E 's/(seconds|memory|tokens_per_second)=[0-9.]*//g' "$1"
}

# both STATUS COMMAND...: runs a subcommand here and in Wine, each in its own folder and with the file `input`. Both must end with this status
# and write the same to standard output.
both() {
    status=$1 got=0
    shift
    (cd "$work/here" && "$here" "$@" <"$work/input") >"$work/here.out" 2>"$work/here.err" || got=$?
    [ $got -eq "$status" ] || fail "language_model $*: status $got: $(tail -n 5 "$work/here.err")"
    got=0
    (cd "$work/there" && wine "$there" "$@" <"$work/input") >"$work/there.out" 2>"$work/there.err" || got=$?
    [ $got -eq "$status" ] || fail "language_model.exe $*: status $got: $(tail -n 5 "$work/there.err")"
    shown "$work/here.out" >"$work/here.shown"
    shown "$work/there.out" >"$work/there.shown"
    cmp "$work/here.shown" "$work/there.shown" || fail "language_model $*: $(diff "$work/here.shown" "$work/there.shown" | head -n 20)"
    echo "language_model $*: the same output$(sed -n 's/.*\(parameters_crc32c=[0-9a-f]*\).*/, \1/p' "$work/here.out")"
}

# same_files FILE...: files that both wrote must have the same bytes.
same_files() {
    for file; do
        cmp "$work/here/$file" "$work/there/$file" || fail "$file differs"
    done
}

# -- texts: one with the line ends of Windows, with a name in other letters; and examples --

text='тексты/mémoire ✓.txt'
small='--layers 2 --heads 2 --width 32 --length 32 --batch 4 --eval-batches 4 --sample-tokens 40 --quiet'
for side in here there; do
    mkdir "$work/$side/тексты"
    sed 's/$/\r/' "$root/ARCHITECTURE.md" "$root/README.md" | head -c 30000 >"$work/$side/$text"
    i=0
    while [ $i -lt 24 ]; do
        printf '{"prompt": "What is %d plus one?", "completion": "It is %d, naïvely."}\r\n' $i $((i + 1))
        i=$((i + 1))
    done >"$work/$side/examples.jsonl"
done
printf 'What is 3 plus one?\r\nÜber was?\r\n' >"$work/input"

# -- training, stops and continuations --

# shellcheck disable=SC2086 # a list of options
{
    both 0 train "$text" run --recipe nanogpt --steps 30 --eval-every 10 $small
    both 2 train "$text" run --recipe nanogpt --steps 30 $small # there is a run already
    both 0 train "$text" run --recipe nanogpt --steps 30 --eval-every 10 --tokenizer bpe --vocabulary 300 --force $small
    both 0 train тексты "zweiter Lauf" --recipe nanogpt --steps 5 --validation "$text" $small
}
same_files run/tokenizer.json run/merges.txt run/text.tokens run/best.safetensors run/last.safetensors run/last.1.safetensors
grep -q 'parameters_crc32c=' "$work/there.out" || fail "training printed no checksum"

# Ctrl-C: the program saves a checkpoint and ends with the status of SIGINT. Wine passes the signal on as Windows passes Ctrl-C on.
# shellcheck disable=SC2086 # a list of options
(
    cd "$work/there"
    wine "$there" train "$text" stopped --recipe nanogpt --steps 100000 --eval-every 10 $small >"$work/stopped.out" 2>"$work/stopped.err" &
    echo $! >"$work/process"
    status=0
    wait $! || status=$?
    echo $status >"$work/status"
) &
waiting=$!
tries=0
until [ -e "$work/there/stopped/last.1.safetensors" ]; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || fail "training does not write a checkpoint: $(tail -n 5 "$work/stopped.err")"
    sleep 0.2
done
for process in $(pgrep -f 'language_model\.exe train .* stopped'); do
    kill -INT "$process"
done
wait $waiting
[ "$(cat "$work/status")" = 130 ] || fail "Ctrl-C: status $(cat "$work/status"): $(tail -n 5 "$work/stopped.err")"
grep 'stopped and saved at step' "$work/stopped.err" || fail "Ctrl-C: $(tail -n 5 "$work/stopped.err")"

# A run that Windows stopped continues on this machine, and in Wine: with the same bits.
cp -r "$work/there/stopped" "$work/here/"
step=$(sed -n 's/.*stopped and saved at step \([0-9]*\).*/\1/p' "$work/stopped.err")
both 0 resume stopped --steps $((step + 7)) --quiet
both 0 sample stopped --prompt 'The ' --tokens 60 --seed 4

# -- a model of a run --

both 0 sample run --prompt 'Die Größe' --tokens 80 --seed 3 --last
both 0 sample run --tokens 30 --beams 3 --stop e
both 0 eval run --text "$text"
both 1 eval run --text 'nicht da.txt'
both 0 export run model
both 0 export run --gguf model.gguf
same_files model/model.safetensors model/config.json model/tokenizer.json model.gguf
both 0 tune model examples.jsonl tuned --lora 4 --steps 12 --eval-every 6 --length 32 --chat plain --quiet

both 0 chat tuned --temperature 0 --tokens 24
both 0 export tuned adapter --adapter
both 0 export tuned merged
same_files adapter/adapter_model.safetensors merged/model.safetensors
both 0 sample merged --prompt 'What' --tokens 20 --temperature 0
both 0 sample model.gguf --prompt 'What' --tokens 20 --temperature 0

# -- nothing is left over --

left=$(find "$work/there" -name '*unfinished*' -o -name '*replaced*')
[ -z "$left" ] || fail "the program left $left"
echo "language_model does the same in $(wine --version) as here"

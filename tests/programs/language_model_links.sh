#!/bin/sh
# language_model_links.sh LANGUAGE_MODEL: the folder of an untrusted run may have links and pipes in place of files. The program
# writes to no file outside that folder, and does not wait for a pipe.
set -eu
program=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"
export TMPDIR="$out/temporary"
mkdir "$TMPDIR" outside

fail() {
    echo "FAILED: $*"
    exit 1
}
unharmed() { # unharmed [FILE]: outside/ holds only this file, unchanged
    [ "$(ls outside)" = "$1" ] && { [ -z "$1" ] || [ "$(cat "outside/$1")" = precious ]; } || fail "outside: $(ls -l outside)"
}
resume() { # resume STEPS: writes the files of each evaluation
    timeout 60 "$program" resume run --steps "$1" --quiet >said 2>&1
}

awk 'BEGIN { for (i = 0; i < 200; i++) printf "%d bottles of beer on the wall\n", i % 50 }' >text
"$program" train --recipe nanogpt text run --layers 1 --heads 1 --width 8 --length 16 --batch 2 --steps 2 --eval-every 1 --eval-batches 1 \
    --sample-tokens 5 --log-every 1 --quiet >/dev/null
echo precious >outside/victim

# The log: an error names the link, and a file that is not a log does not change.
mv run/log.jsonl log.jsonl
ln -s ../outside/victim run/log.jsonl
resume 3 && fail "the log was written through a link"
grep -q 'log.jsonl is a symbolic link' said || { cat said; fail "the link is not named"; }
cp --remove-destination outside/victim run/log.jsonl
resume 3 && fail "a text was accepted as a log"
grep -q 'its first line is not a record' said && cmp run/log.jsonl outside/victim || { cat said; fail "the text was changed"; }
unharmed victim
mv log.jsonl run/log.jsonl

# Files that are replaced whole: the link is replaced.
steps=3
for file in curves.svg best.safetensors "samples/step_0000005.txt"; do
    cp "run/$file" kept 2>/dev/null || :
    rm -f "run/$file"
    case $file in
    samples/*) ln -s "$out/outside/victim" "run/$file" ;;
    *) ln -s ../outside/victim "run/$file" ;;
    esac
    resume $steps || { cat said; fail "$file"; }
    unharmed victim
    [ "$file" = best.safetensors ] || { [ -f "run/$file" ] && [ ! -L "run/$file" ]; } || fail "$file is still a link"
    steps=$((steps + 1))
done

# No sample is written if the folder of samples is a link.
rm -r run/samples
ln -s ../outside run/samples
resume 9 && fail "samples were written elsewhere"
grep -q 'samples cannot be written' said || { cat said; fail "the folder is not named"; }
unharmed victim

# Pipes that have the names of temporary files.
rm run/samples
for file in last best; do
    mkfifo "run/$file.safetensors.unfinished0"
done
mkfifo run/curves.svg.unfinished0
resume 12 || { cat said; fail "a pipe in the way"; }
[ -p run/last.safetensors.unfinished0 ] && [ ! -e run/last.safetensors.unfinished1 ] || fail "$(ls -l run)"
unharmed victim

# A new run where a link is already, and one that replaces a run.
rm outside/victim
mkdir fresh
ln -s ../outside/new fresh/config.json
"$program" train --recipe nanogpt text fresh --layers 1 --heads 1 --width 8 --length 16 --batch 2 --steps 1 --eval-batches 1 --sample-tokens 0 \
    --quiet >/dev/null
unharmed ""
[ -f fresh/config.json ] && [ ! -L fresh/config.json ] || fail "config.json is a link"
echo precious >outside/step_0000001.txt
rm -rf fresh/samples
ln -s ../outside fresh/samples
"$program" train --recipe nanogpt text fresh --force --layers 1 --heads 1 --width 8 --length 16 --batch 2 --steps 1 --eval-batches 1 \
    --sample-tokens 0 --quiet >/dev/null
unharmed step_0000001.txt

# eval removes its file of tokens.
"$program" eval fresh --text text >/dev/null
[ -z "$(ls -A "$TMPDIR")" ] || fail "left in the temporary folder: $(ls -l "$TMPDIR")"

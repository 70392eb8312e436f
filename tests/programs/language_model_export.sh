#!/bin/sh
# language_model_export.sh LANGUAGE_MODEL: what export must not change. An export that fails leaves the older model bit for bit, or no
# folder. It never replaces the run, the model from which the run was tuned, or files outside the folder. tune and export read
# no pipe and no device.
set -eu
program=$1
. "$(dirname "$0")/language_model_checks.sh"

awk 'BEGIN { for (i = 0; i < 60; i++) printf "line %d of some text\n", i }' >text
printf '{"prompt": "a", "completion": "b"}\n{"prompt": "c", "completion": "d"}\n' >data.jsonl
expect 0 '' "$program" train --recipe nanogpt text first --layers 1 --heads 1 --width 8 --length 16 --batch 2 --steps 1 --tokenizer bytes \
    --eval-batches 1 --sample-tokens 0 --quiet --threads 1
expect 0 '' "$program" export first base
echo '{"eos_token_id": 1}' >base/generation_config.json
tune_base() { # tune_base RUN [OPTION...]
    run=$1
    shift
    timeout 20 "$program" tune base data.jsonl "$run" --steps 1 --length 16 --sample-tokens 0 --quiet --threads 1 "$@"
}
expect 0 '' tune_base run
export_run() { # export_run [OPTION...]
    timeout 20 "$program" export run "$@"
}
cp -R base kept_base
unchanged() { # unchanged FOLDER COPY
    diff -r "$1" "$2" || fail "$1 has changed, after: $(cat said)"
}

# -- a refused export leaves nothing --
for options in '' --adapter; do
    expect 1 'unknown family "typo"' export_run new --family typo $options
    [ ! -e new ] || fail "a refused export leaves a folder"
done

# -- a failed export --force keeps the older model --
expect 0 '' export_run model
expect 0 '' export_run adapter --adapter
expect 0 '' export_run --gguf one.gguf
expect 0 '' tune_base other --lr 0.01
for name in model adapter; do
    cp -R $name kept_$name
    option=
    [ $name = model ] || option=--adapter
    expect 1 'unknown family "typo"' export_run $name --force --family typo $option
    unchanged $name kept_$name
    # A limit for the size of a file stops the export as a full disk does.
    failures=0 size=0 status=1
    while [ $status -ne 0 ]; do
        status=0
        (ulimit -f $size && timeout 20 "$program" export other $name --force $option 2>&1) | cat >said
        cmp -s $name/adapter_config.json kept_$name/adapter_config.json 2>/dev/null || [ $name = model ] || fail "the configuration is gone"
        if grep -q 'File too large' said; then
            unchanged $name kept_$name
            failures=$((failures + 1)) status=1
        fi
        size=$((size + 1 + size / 4))
    done
    grep -q "wrote: $name/" said || fail "export never succeeds: $(cat said)"
    [ $failures -ge 2 ] || fail "the smallest disk is not full"
    ! diff -rq $name kept_$name >/dev/null || fail "the export changed nothing"
done
cp one.gguf kept.gguf
(ulimit -f 4 && expect 1 'File too large' "$program" export other --gguf one.gguf --force) || exit 1
cmp one.gguf kept.gguf || fail "a failed export changes the GGUF file"

# -- files of the older model that the new one does not have go --
expect 0 '' "$program" export first model --force
[ ! -e model/generation_config.json ] || fail "the end tokens of the older model stay"

# -- the model of the run, by any name --
ln -s base link
ln -s "$PWD/base/model.safetensors" weights.gguf
ln base/model.safetensors second.gguf
ln -s model.safetensors base/weights.gguf
mv kept_base/model.safetensors saved && cp -P base/weights.gguf kept_base/ && mv saved kept_base/model.safetensors
for name in base ./base/ link "$PWD/run/../base"; do
    expect 2 'from which the run was tuned' export_run "$name" --force
    expect 2 'from which the run was tuned' export_run "$name" --adapter
done
for name in base/model.safetensors weights.gguf second.gguf base/weights.gguf link/config.json; do
    expect 2 'from which the run was tuned' export_run --gguf "$name" --force
done
expect 2 'it reads' "$program" export base --gguf base/model.safetensors --force
expect 2 'it reads' export_run --gguf run/text.tokens --force
mkdir best && cp -R run/. best && rm best/last*
expect 2 'it reads' "$program" export best ./best --force
mkdir named && cp one.gguf named/model.safetensors
expect 2 'it reads' "$program" export named/model.safetensors named --force
unchanged base kept_base
rm second.gguf weights.gguf
expect 0 'loss=' "$program" eval run
expect 0 '' "$program" export one.gguf beside # a GGUF file may lie in the folder
mv one.gguf beside/ && expect 0 '' "$program" export beside/one.gguf beside --force

# -- pipes, devices and links in folders --
for name in generation_config.json special_tokens_map.json chat_template.jinja; do
    for kind in pipe device; do
        rm -rf odd new
        cp -R base odd && rm -f odd/$name
        if [ $kind = pipe ]; then mkfifo odd/$name; else ln -s /dev/zero odd/$name; fi
        expect 1 "$name.*not a regular file" timeout 20 "$program" tune odd data.jsonl new --steps 1 --quiet
        [ ! -e new ] || fail "the run stays without its files"
        cp -R run odd_run && rm -f odd_run/$name
        mv odd/$name odd_run/
        expect 1 "$name.*not a regular file" timeout 20 "$program" export odd_run new
        [ ! -e new ] || fail "a refused export leaves a folder"
        rm -rf odd_run
    done
done
mkdir outside && echo precious >outside/victim
for name in chat_template.jinja tokenizer_config.json tokenizer.json generation_config.json config.json; do
    rm -rf new && mkdir new
    ln -s ../outside/victim new/$name
    expect 0 '' export_run new --force
    [ "$(ls outside)" = victim ] && [ "$(cat outside/victim)" = precious ] || fail "written through a link: $name"
    [ ! -L new/$name ] || fail "the link stays: $name"
    cp -R new piped
    rm piped/$name && mkfifo piped/$name
    expect 1 "$name" export_run piped --force # nobody reads the pipe
    rm piped/$name && cp new/$name piped/
    unchanged piped new
    rm -r piped
done

#!/bin/sh
# interop.sh [--fixtures] [NAME...]: compares Tapehead with PyTorch, transformers, PEFT, TRL, tokenizers, tiktoken, GGUF and others.
# Runs all comparisons scripts/interop/NAME.py, or the named ones, and prints their measurements; fails if one fails. Each
# comparison also checks that it would write the same files in tests/fixtures; --fixtures writes them again instead.
# The Python packages (scripts/interop/requirements.txt) are installed once, into ~/.cache/tapehead/interop.
set -eu

root=$(dirname "$(dirname "$(readlink -f "$0")")")
here=$root/scripts/interop
build=${TAPEHEAD_INTEROP_BUILD:-$root/build/interop}
environment=${XDG_CACHE_HOME:-$HOME/.cache}/tapehead/interop
fixtures=

. "$root/scripts/library/help.sh"
answer_help "$@"
case ${1:-} in
--fixtures)
    fixtures=--fixtures
    shift
    ;;
-*) refuse "unknown option $1" ;;
esac
if [ $# -eq 0 ]; then
    for program in "$here"/*.py; do
        name=$(basename "$program" .py)
        case $name in common | chat_templates | llama) ;; *) set -- "$@" "$name" ;; esac
    done
fi
for name; do
    case $name in common | chat_templates | llama) refuse "$name is not a comparison" ;; esac
    [ -e "$here/$name.py" ] || refuse "there is no comparison called $name"
done

# -- set-up: makes a new environment if requirements.txt has changed --

"$root/scripts/setup.sh" interop
if ! cmp -s "$here/requirements.txt" "$environment/complete"; then
    echo "Installing PyTorch and the other packages into $environment" >&2
    python3 -m venv --clear "$environment"
    "$environment/bin/pip" install --quiet -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$environment/complete"
fi
echo "Building into $build" >&2
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_INTEROP=ON -DTAPEHEAD_TESTS=OFF >/dev/null
cmake --build "$build" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" >/dev/null

# -- the comparisons: models are small, and more than one thread would make them slower --

failed=
for name; do
    OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 "$environment/bin/python" "$here/$name.py" --build "$build" $fixtures ||
        failed="$failed $name"
done
if [ -n "$failed" ]; then
    echo "interop.sh: FAILED:$failed" >&2
    exit 1
fi

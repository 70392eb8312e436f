#!/bin/sh
# demo.sh [OPTION...]: installs what is missing, builds the library and watches one attention layer learn to copy.
# Options are those of examples/copy_task.c (--help lists them); pictures go to ./copy_task_out unless --out says otherwise.
set -eu

scripts=$(dirname "$(readlink -f "$0")")
"$scripts/setup.sh" demo
# What the build says goes to standard error: standard output is the demo's.
build=$("$scripts/configure.sh" -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=ON)
cmake --build "$build" --target copy_task --parallel "$(nproc)" >&2
exec "$build/examples/copy_task" --out copy_task_out "$@"

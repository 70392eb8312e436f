#!/bin/sh
# demo.sh [OPTION...]: installs what is missing, builds the library and watches one attention layer learn to copy.
# Options are those of examples/copy_task.c (--help lists them); pictures go to ./copy_task_out unless --out says otherwise.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
"$root/scripts/setup.sh" demo
# What the build says goes to standard error: standard output is the demo's.
cmake -S "$root" -B "$root/build" -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=ON >&2
cmake --build "$root/build" --target copy_task --parallel "$(nproc)" >&2
exec "$root/build/examples/copy_task" --out copy_task_out "$@"

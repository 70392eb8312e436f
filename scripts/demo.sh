#!/bin/sh
# demo.sh [OPTION...]: installs what is missing, builds the library and watches one attention layer learn to copy.
# Options are those of examples/copy_task.c (--help lists them); pictures go to ./copy_task_out unless --out says otherwise.
set -eu

exec "$(dirname "$(readlink -f "$0")")/run.sh" copy_task --out copy_task_out "$@"

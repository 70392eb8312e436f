#!/bin/sh
# demo.sh [OPTION...]: installs what is missing, builds the library and watches one attention layer learn to copy.
# Options are those of examples/copy_task.c; pictures go to ./copy_task_out unless --out says otherwise.
# --help and --version install and build nothing.
set -eu

scripts=$(dirname "$0") # as it was typed: the command that the demo ends with begins so
[ -e "$scripts/run.sh" ] || scripts=$(dirname "$(readlink -f "$0")")
. "$(dirname "$(readlink -f "$0")")/help.sh"

for option; do
    case $option in
    -h | --help)
        usage
        echo
        exec "$scripts/run.sh" copy_task --help
        ;;
    --version) answer_help --version ;;
    esac
done
exec "$scripts/run.sh" copy_task --out copy_task_out "$@"

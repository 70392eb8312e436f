#!/bin/sh
# demo.sh [OPTION...]: installs missing packages, builds the core library and trains one attention layer to copy.
# Options are those of examples/copy_task.c. Pictures go to ./copy_task_out; --out changes that.
# --help and --version install and build nothing.
set -eu

scripts=$(dirname "$0") # as the user typed it: the command in the demo's last line begins with it
[ -e "$scripts/run.sh" ] || scripts=$(dirname "$(readlink -f "$0")")
. "$(dirname "$(readlink -f "$0")")/library/help.sh"

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

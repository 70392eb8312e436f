#!/bin/sh
# failures.sh COMMAND [OPTION...]: lets something fail at every moment, and checks what is left. Exits with 1 after a defect.
#
#   calls [OPERATION]   each system call about files fails: EIO, ENOSPC, EMFILE, interrupted, short. Less than a minute
#   kills [WHAT...]     processes are killed at each system call about files. WHAT: save, train, resume, export, pictures,
#                       interrupt (SIGINT), errors (EIO), full (small disks; only as root). Ten minutes in all
set -eu

root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/scripts/help.sh"
answer_help "$@"
command=${1:-}
[ $# -eq 0 ] || shift
case $command in
calls) targets=calls ;;
kills) targets='kills language_model copy_task' ;;
'') refuse "needs a command" ;;
*) refuse "unknown command or option $command" ;;
esac

"$root/scripts/setup.sh" audit
build=$("$root/scripts/configure.sh" -DTAPEHEAD_TESTS=ON -DTAPEHEAD_EXAMPLES=ON)
# shellcheck disable=SC2086 # targets are words
cmake --build "$build" --parallel "$(nproc)" --target $targets >/dev/null
case $command in
calls) "$root/tests/failures/calls.sh" "$build/tests/failures/calls" "$@" ;;
kills)
    "$root/tests/failures/kills.sh" "$build/tests/failures/kills" "$build/examples/language_model" "$build/examples/copy_task" "$@"
    ;;
esac

#!/bin/sh
# failures.sh WHAT [OPTION...]: runs programs while the system refuses something, and checks what is left.
#
#   calls [OPERATION]   each system call about files fails, in each operation of the library with files: EIO, ENOSPC, EMFILE,
#                       interruptions, short counts. Half a minute
#   kills [HOW...]      processes are killed at each system call about files. HOW: save, train, resume, export, pictures,
#                       interrupt (SIGINT), errors (EIO), full (small disks; only as root). Without HOW: all, in ten minutes
#
# It builds into build/failures, or into the folder in TAPEHEAD_FAILURES_BUILD. The tests failures.* are samples of it.
set -eu

root=$(dirname "$(dirname "$(readlink -f "$0")")")
build=${TAPEHEAD_FAILURES_BUILD:-$root/build/failures}

. "$root/scripts/help.sh"
answer_help "$@"
[ $# -gt 0 ] || refuse "name what fails: calls or kills"
what=$1
shift

build_target() { # build_target NAME...
    echo "Building $* into $build" >&2
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_TESTS=ON -DTAPEHEAD_EXAMPLES=ON >/dev/null
    cmake --build "$build" --target "$@" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" >/dev/null
}

case $what in
calls)
    build_target calls
    "$build/tests/failures/calls" --all "$@"
    ;;
kills)
    build_target kills language_model copy_task
    "$root/tests/failures/kills.sh" "$build/tests/failures/kills" "$build/examples/language_model" "$build/examples/copy_task" "$@"
    ;;
*) refuse "unknown word $what" ;;
esac

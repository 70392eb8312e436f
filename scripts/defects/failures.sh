#!/bin/sh
# failures.sh WHAT [OPTION...]: runs programs while the system refuses something, and checks what is left.
#
#   allocations [NAME...]  each allocation of each program in tests/failures/programs fails, once and with all later ones; then
#                          each creation of a thread. A failed step must have an error that names memory. It must leave no memory,
#                          file or part of a file behind. Repeated in the same context, it must give the same bits
#   calls [OPERATION]      each system call about files fails, in each operation of the library with files: EIO, ENOSPC, EMFILE,
#                          interruptions, short counts. Half a minute
#   kills [HOW...]         processes are killed at each system call about files. HOW: save, train, resume, export, pictures,
#                          interrupt (SIGINT), errors (EIO), full (small disks; only as root). Without HOW: all, in a quarter of an hour
#
# It builds into build/failures, or into the folder in TAPEHEAD_FAILURES_BUILD. The tests failures.* are samples of it.
set -eu

root=$(dirname "$(dirname "$(dirname "$(readlink -f "$0")")")")
build=${TAPEHEAD_FAILURES_BUILD:-$root/build/failures}

. "$root/scripts/library/help.sh"
answer_help "$@"
[ $# -gt 0 ] || refuse "name what fails: allocations, calls or kills"
what=$1
shift

build_target() { # build_target NAME...
    "$root/scripts/setup.sh" test
    echo "Building $* into $build" >&2
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_TESTS=ON -DTAPEHEAD_EXAMPLES=ON >/dev/null
    cmake --build "$build" --target "$@" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" >/dev/null
}

case $what in
allocations)
    build_target allocations
    status=0
    "$build/tests/failures/allocations" --all "$@" || status=1
    "$build/tests/failures/allocations" --all --threads "$@" || status=1
    exit $status
    ;;
calls)
    build_target calls
    "$build/tests/failures/calls" --all "$@"
    ;;
kills)
    build_target kills language_model copy_task
    "$root/tests/failures/kills.sh" "$build/tests/failures/kills" "$build/programs/language_model" "$build/examples/copy_task" "$@"
    ;;
*) refuse "unknown word $what" ;;
esac

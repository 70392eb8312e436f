#!/bin/sh
# failures.sh allocations [NAME...]: runs programs that together use the whole API while the system refuses something. The
# programs are in tests/failures/programs; names choose some of them.
#
#   allocations   each allocation of each program fails, once and with all later ones; then each creation of a thread. A failed
#                 step must have an error that names memory. It must leave no memory, file or part of a file behind. Repeated in
#                 the same context, it must give the same bits
#
# It builds into build/failures, or into the folder in TAPEHEAD_FAILURES_BUILD, and takes minutes to an hour. The test
# failures.allocations is a sample of it.
set -eu

root=$(dirname "$(dirname "$(readlink -f "$0")")")
build=${TAPEHEAD_FAILURES_BUILD:-$root/build/failures}

. "$root/scripts/help.sh"
answer_help "$@"
[ $# -gt 0 ] || refuse "name what fails: allocations"
what=$1
shift

build_target() { # build_target NAME
    echo "Building $1 into $build" >&2
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_TESTS=ON >/dev/null
    cmake --build "$build" --target "$1" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" >/dev/null
}

case $what in
allocations)
    build_target allocations
    status=0
    "$build/tests/failures/allocations" --all "$@" || status=1
    "$build/tests/failures/allocations" --all --threads "$@" || status=1
    exit $status
    ;;
*) refuse "unknown word $what" ;;
esac

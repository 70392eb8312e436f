#!/bin/sh
# processes.sh [openmpi|mpich]...: installs missing packages, and runs the tests over MPI with these implementations, or with both. Builds
# the core library and these tests in build-openmpi and build-mpich.
#
# CI runs the tests with Open MPI 4. `scripts/platforms/bare_root.sh 13 processes` runs this script on Debian 13, with Open MPI 5.
set -eu

scripts=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$scripts/library/help.sh"
answer_help "$@"
for mpi; do
    case $mpi in
    openmpi | mpich) ;;
    *) refuse "$mpi is not openmpi or mpich" ;;
    esac
done
[ $# -gt 0 ] || set -- openmpi mpich
"$scripts/setup.sh" audit

status=0
for mpi; do
    build=$scripts/../build-$mpi
    cmake -S "$scripts/.." -B "$build" -DCMAKE_BUILD_TYPE=Release -DTAPEHEAD_WERROR=ON -DTAPEHEAD_MODELS=OFF -DTAPEHEAD_MPI=ON \
        -DMPI_C_COMPILER="mpicc.$mpi" -DMPIEXEC_EXECUTABLE="mpirun.$mpi"
    cmake --build "$build" --target mpi_tests --parallel "$(nproc)"
    "mpirun.$mpi" --version | head -n 3
    ctest --test-dir "$build" --output-on-failure -L mpi || status=1
done
exit $status

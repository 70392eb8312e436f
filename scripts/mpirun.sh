#!/bin/sh
# mpirun.sh N PROGRAM [ARGUMENT...]: runs a program that was built with MPI in N processes on this machine. N may be more than
# the number of processors. Each process computes with (processors / N) threads, unless OMP_NUM_THREADS or the program says otherwise.
#
# Runs `mpirun`, or the command in the environment variable MPIRUN. It must belong to the MPI that the program was built with: Open
# MPI or MPICH.
set -eu

. "$(dirname "$(readlink -f "$0")")/help.sh"
answer_help "${1:-}"
case ${1:-} in
'' | *[!0-9]* | 0*) refuse "the number of processes comes first, not ${1:-nothing}" ;;
esac
[ $# -gt 1 ] || refuse "the program is missing"
n=$1
shift

processors=$(nproc)
threads=$((processors > n ? processors / n : 1))
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-$threads}"

# Settings of Open MPI 4 (OMPI_MCA) and of the launcher of Open MPI 5 (PRTE). MPICH ignores them, and needs none.
if [ "$(id -u)" -eq 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# More processes than processors; no process is bound to a processor; MPI_Init and MPI_Finalize give the processor away while they wait.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1

# shellcheck disable=SC2086 # (MPIRUN may be "mpirun --mca ...")
exec ${MPIRUN:-mpirun} -n "$n" "$@"

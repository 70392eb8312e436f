#!/bin/sh
# mpirun.sh N PROGRAM [ARGUMENT...]: runs a program that was built with MPI in N processes on this machine. N may be more than
# the number of processors. Each process computes with (processors / N) threads, unless OMP_NUM_THREADS or the program says otherwise.
#
# Ctrl-C (SIGINT) becomes SIGUSR1 in all processes. The examples then save a checkpoint and end; mpirun alone would kill them within
# two seconds. A second Ctrl-C, and SIGTERM, are passed to mpirun.
#
# Runs `mpirun`, or the command in the environment variable MPIRUN. It must belong to the MPI that the program was built with: Open
# MPI or MPICH.
set -eu

. "$(dirname "$(readlink -f "$0")")/../library/help.sh"
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
# More processes than processors are allowed, and none is bound to a processor. MPI_Init and MPI_Finalize yield while they wait. Messages
# stay in this machine's memory.
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl="${OMPI_MCA_btl:-^tcp}"

# Ctrl-C does not reach a session without this terminal. A process in the background has standard input only if it is given.
exec 3<&0
# shellcheck disable=SC2086 # (MPIRUN may be "mpirun --mca ...")
setsid ${MPIRUN:-mpirun} -n "$n" "$@" <&3 3<&- &
job=$!
trap 'kill -USR1 $job; trap "kill -TERM $job" INT' INT
trap 'kill -TERM $job' TERM HUP
status=0
wait $job || status=$?
while kill -0 $job 2>/dev/null; do # a signal has interrupted the wait
    status=0
    wait $job || status=$?
done
exit $status

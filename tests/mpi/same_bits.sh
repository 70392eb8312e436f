#!/bin/sh
# same_bits.sh MPIRUN PROGRAM [ARGUMENT...]: a program that trains a model prints the same line when it runs alone, and with 1, 2, 3
# and 4 processes over MPI. MPIRUN is scripts/processes/mpirun.sh.
set -eu

mpirun=$1
shift
alone=$(OMP_NUM_THREADS=1 "$@")
printf '%s\n' "$alone" | grep 'parameters_crc32c=[0-9a-f]' || {
    echo "no checksum in: $alone"
    exit 1
}
for n in 1 2 3 4; do
    shared=$(timeout 300 "$mpirun" "$n" "$@") || { echo "$n processes fail"; exit 1; }
    [ "$shared" = "$alone" ] || { echo "$n processes: $shared"; exit 1; }
done

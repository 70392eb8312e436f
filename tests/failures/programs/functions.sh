#!/bin/sh
# functions.sh SOURCE OBJECTS: the programs use the whole API: their object files, in the folder OBJECTS, refer to every
# function in docs/functions.md. Exceptions are listed here with reasons.
set -eu
source=$1 objects=$2
command -v nm >/dev/null || {
    echo "skipped: nm is not installed"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# th_apply is a macro, which calls th_apply_n. th_mpi_group_new needs MPI (tests/mpi).
exceptions='th_apply\|th_mpi_group_new'

nm "$objects"/*.o | sed -n 's/^ *U \(th_[a-z0-9_]*\)$/\1/p' | sort -u >"$work/called"
grep -o '`th_[a-z0-9_]*`' "$source/docs/functions.md" | tr -d '`' | grep -vx "$exceptions" | sort -u >"$work/named"
comm -13 "$work/called" "$work/named" >"$work/missing"
if [ -s "$work/missing" ]; then
    echo "no program in tests/failures/programs calls these functions:"
    cat "$work/missing"
    exit 1
fi
echo "the programs call $(wc -l <"$work/named") public functions"

#!/bin/sh
# calls.sh CALLS [NAME]: every system call about files fails, in ten ways and in every operation of the library with files, or only
# in the operation NAME. CALLS is the program.
set -eu
program=$1
shift
exec "$program" --all "$@"

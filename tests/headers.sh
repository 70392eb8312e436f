#!/bin/sh
# headers.sh INCLUDE CC CXX [DIRECTORY...]: each public header compiles alone, as C11, C23 and C++17, without a warning. The directories
# have the headers of MPI, for tapehead/mpi.h; without them that header is left out.
set -eu
include=$1 cc=$2 cxx=$3
shift 3
warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror"

status=0
check() { # check HEADER [FLAG...]
    name=tapehead/$(basename "$1")
    shift
    for standard in c11 c2x; do
        echo "#include \"$name\"" | "$cc" -std=$standard $warnings -Wconversion -I "$include" "$@" -fsyntax-only -x c - ||
            { echo "$name does not compile alone as $standard"; status=1; }
    done
    echo "#include <$name>" | "$cxx" -std=c++17 $warnings -I "$include" "$@" -fsyntax-only -x c++ - ||
        { echo "$name does not compile alone as C++17"; status=1; }
}

for header in "$include"/tapehead/*.h; do
    case $header:$# in
    */mpi.h:0) echo "tapehead/mpi.h is left out: this build has no MPI" ;;
    */mpi.h:*)
        directories=$*
        set --
        for directory in $directories; do
            set -- "$@" -isystem "$directory"
        done
        check "$header" "$@"
        ;;
    *) check "$header" ;;
    esac
done
exit $status

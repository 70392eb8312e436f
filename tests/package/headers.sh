#!/bin/sh
# headers.sh INCLUDE CC CXX [DIRECTORY...]: each public header compiles alone, as C11, C23 and C++17, without a warning. The directories
# have the headers of MPI, for tapehead/mpi.h; without them that header is left out. A list of sizes, axes or an index must not be empty.
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

# list MACRO(..) COMPILER...: compiles a function that returns this list.
list() {
    printf '%s\n' '#include <tapehead/core.h>' 'th_shape list(int64_t n);' \
        "th_shape list(int64_t n) { return n > 0 ? $1 : TH_SCALAR; }" >"$work/list.c"
    shift
    "$@" -I "$include" -fsyntax-only "$work/list.c" 2>"$work/message"
}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
for macro in TH_SHAPE TH_AXES TH_INDEX; do
    for compiler in "$cc -std=gnu11" "$cc -std=c11 -Wconversion $warnings" "$cxx -x c++ -std=c++17 $warnings"; do
        # shellcheck disable=SC2086 # a list of words
        list "$macro(n, 1 << 3, -1)" $compiler || { cat "$work/message"; echo "$macro(n, 1 << 3, -1) does not compile: $compiler"; status=1; }
        # shellcheck disable=SC2086
        ! list "$macro()" $compiler || { echo "$macro() compiles: $compiler"; status=1; }
        grep -q TH_SIZES_MUST_BE_GIVEN_OR_TH_SCALAR_OR_TH_ALL_AXES "$work/message" ||
            { echo "the error for $macro() does not say what is right: $compiler"; status=1; }
    done
done
exit $status

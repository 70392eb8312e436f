#!/bin/sh
# run.sh [--processes N] EXAMPLE [OPTION...]: installs missing packages, builds an example of examples/ and runs it in the current
# directory:
#   run.sh language_model train novel.txt
#
# --processes N  builds the example with MPI and runs it in N processes, which train one model together. They share this machine's
#                processors, unless the example's --threads says otherwise. (mpirun starts processes on several machines.)
#
# --help and --version install and build nothing. After the first build run.sh EXAMPLE --help prints the example's own help.
set -eu

scripts=$(dirname "$(readlink -f "$0")")
. "$scripts/library/help.sh"

processes=
if [ "${1:-}" = --processes ]; then
    need_value "$@"
    processes=$2
    case $processes in
    '' | *[!0-9]* | 0*) refuse "--processes takes a positive number, not $processes" ;;
    esac
    shift 2
fi
example=${1:-}
names=$(cd "$scripts/../examples" && for file in *.c class/*.c; do printf '  %s\n' "${file%.c}"; done)
case $example in
-h | --help)
    usage
    printf 'EXAMPLE is one of\n%s\n' "$names"
    exit 0
    ;;
-*)
    answer_help "$example"
    refuse "the name of an example comes before options: $example"
    ;;
esac
if [ -z "$example" ] || [ ! -e "$scripts/../examples/$example.c" ]; then
    printf 'run.sh: %s\n%s\n' "${example:+there is no example $example; }EXAMPLE is one of" "$names" >&2
    exit 2
fi
shift
case $0 in
*/*) TAPEHEAD_RUN=$0 ;;
*) TAPEHEAD_RUN=./$0 ;; # started as: sh run.sh
esac
export TAPEHEAD_RUN # the next command that an example prints begins with it

# The core library is enough for an example that does not include tapehead/models.h.
packages=demo core=--core
if cat "$scripts/../examples/$example.c" "$scripts/../examples/$example"/*.[ch] 2>/dev/null |
    grep '^#include [<"]tapehead/models\.h' >/dev/null; then
    packages=models core=
fi
[ -z "$processes" ] || packages=mpi
program=$scripts/../build/examples/$example
[ -z "$core" ] || [ -x "$program" ] || program=$scripts/../build/core/examples/$example
for option; do
    case $option in
    -h | --help | --version)
        [ ! -x "$program" ] || exec "$program" "$@"
        [ "$option" != --version ] || answer_help --version
        awk '{ last = sub(/ *\*\/$/, ""); sub(/^(\/\*| \*) ?/, ""); print } last { exit }' "$scripts/../examples/$example.c"
        printf '\nAfter the first build its options are listed here too. This command builds and runs it:\n  %s %s\n' "$0" "$example"
        exit 0
        ;;
    esac
done

# A build is unchanged if nothing is newer than the stamp of the last one: no file or folder of sources, and not the configuration.
build=$("$scripts/library/configure.sh" $core --where)
stamp=$build/run/$example${processes:+.processes}
unchanged() {
    [ -e "$stamp" ] && [ -x "$build/examples/$example" ] && newer=$(cd "$scripts/.." &&
        find CMakeLists.txt cmake include src examples scripts/setup.sh "$build/CMakeCache.txt" -newer "$stamp") && [ -z "$newer" ]
}
build() {
    "$scripts/setup.sh" $packages &&
        "$scripts/library/configure.sh" $core --new -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=ON ${processes:+-DTAPEHEAD_MPI=ON} >/dev/null &&
        mkdir -p "$(dirname "$stamp")" && touch "$stamp.building" &&
        cmake --build "$build" --target "${example##*/}" --parallel "$(nproc)" >&2 &&
        mv "$stamp.building" "$stamp"
}
if ! unchanged; then
    # The messages of the build go to standard error. After the first build they are printed only if it fails. Standard input belongs to
    # the example: it may be a text.
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if [ -e "$build/examples/$example" ]; then
        build 2>"$log" </dev/null || { cat "$log" >&2; exit 1; }
    else
        build </dev/null
    fi
    rm -f "$log"
fi
[ -z "$processes" ] || exec "$scripts/processes/mpirun.sh" "$processes" "$build/examples/$example" "$@"
exec "$build/examples/$example" "$@"

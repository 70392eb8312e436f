#!/bin/sh
# run.sh [--processes N] NAME [OPTION...]: installs missing packages, builds a program of programs/, examples/ or teaching/lessons/ and runs
# it in the current directory:
#   run.sh language_model train novel.txt
#
# --processes N  builds the program with MPI and runs it in N processes, which train one model together. They share this machine's
#                processors, unless the program's --threads says otherwise. (mpirun starts processes on several machines.)
#
# --help and --version install and build nothing. After the first build run.sh NAME --help prints the program's own help.
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
name=${1:-}
# place NAME: sets `main` to the source with the program's main, and `built` to the program in the build, which is also the folder of its
# other sources in the checkout.
place() {
    main=programs/$1/$1.c built=programs/$1
    case $1 in
    class/*) main=teaching/lessons/${1#class/}.c built=${main%.c} ;;
    *) [ -e "$scripts/../$main" ] || main=examples/$1.c built=examples/$1 ;;
    esac
}
names=$(cd "$scripts/.." && printf '  %s\n' programs/*/ examples/*.c teaching/lessons/*.c |
    sed -e 's|programs/||; s|examples/||; s|teaching/lessons/|class/|' -e 's|/$||; s|\.c$||')
case $name in
-h | --help)
    usage
    printf 'NAME is one of\n%s\n' "$names"
    exit 0
    ;;
-*)
    answer_help "$name"
    refuse "the name of a program comes before options: $name"
    ;;
esac
place "$name"
if [ -z "$name" ] || [ ! -e "$scripts/../$main" ]; then
    printf 'run.sh: %s\n%s\n' "${name:+there is no program $name; }NAME is one of" "$names" >&2
    exit 2
fi
shift
case $0 in
*/*) TAPEHEAD_RUN=$0 ;;
*) TAPEHEAD_RUN=./$0 ;; # started as: sh run.sh
esac
export TAPEHEAD_RUN # the next command that a program prints begins with it

# The core library is enough for a program that does not include tapehead/models.h.
packages=demo core=--core
if (cd "$scripts/.." && cat "$main" "$built"/*.[ch]) 2>/dev/null |
    grep '^#include [<"]tapehead/models\.h' >/dev/null; then
    packages=models core=
fi
[ -z "$processes" ] || packages=mpi
program=$scripts/../build/$built
[ -z "$core" ] || [ -x "$program" ] || program=$scripts/../build/core/$built
for option; do
    case $option in
    -h | --help | --version)
        [ ! -x "$program" ] || exec "$program" "$@"
        [ "$option" != --version ] || answer_help --version
        awk '{ last = sub(/ *\*\/$/, ""); sub(/^(\/\*| \*) ?/, ""); print } last { exit }' "$scripts/../$main"
        printf '\nAfter the first build its options are listed here too. This command builds and runs it:\n  %s %s\n' "$0" "$name"
        exit 0
        ;;
    esac
done

# A build is unchanged if nothing is newer than the stamp of the last one: no file or folder of sources, and not the configuration. It
# may be for one processor only, so the stamp has the processor's features.
build=$("$scripts/library/configure.sh" $core --where)
stamp=$build/run/$name${processes:+.processes}
processor() {
    sed -n '/^flags/ { p; q; }' /proc/cpuinfo 2>/dev/null | cksum
}
unchanged() {
    [ "$(cat "$stamp" 2>/dev/null)" = "$(processor)" ] && [ -x "$build/$built" ] && newer=$(cd "$scripts/.." &&
        find CMakeLists.txt cmake include src examples programs teaching scripts/setup.sh "$build/CMakeCache.txt" -newer "$stamp") && [ -z "$newer" ]
}
build() {
    "$scripts/setup.sh" $packages &&
        "$scripts/library/configure.sh" $core --new -DTAPEHEAD_TESTS=OFF --new -DTAPEHEAD_ISAS=native -DTAPEHEAD_EXAMPLES=ON ${processes:+-DTAPEHEAD_MPI=ON} >/dev/null &&
        mkdir -p "$(dirname "$stamp")" && processor >"$stamp.building" &&
        cmake --build "$build" --target "${name##*/}" --parallel "$(nproc)" >&2 &&
        mv "$stamp.building" "$stamp"
}
if ! unchanged; then
    # The messages of the build go to standard error. After the first build they are printed only if it fails. Standard input belongs to
    # the program: it may be a text.
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if [ -e "$build/$built" ]; then
        build 2>"$log" </dev/null || { cat "$log" >&2; exit 1; }
    else
        build </dev/null
    fi
    rm -f "$log"
fi
[ -z "$processes" ] || exec "$scripts/processes/mpirun.sh" "$processes" "$build/$built" "$@"
exec "$build/$built" "$@"

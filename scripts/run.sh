#!/bin/sh
# run.sh EXAMPLE [OPTION...]: installs what is missing, builds an example of examples/ and runs it where you are:
#   run.sh language_model train novel.txt
#
# --help and --version install and build nothing. Once an example is built, run.sh EXAMPLE --help prints its own help.
set -eu

scripts=$(dirname "$(readlink -f "$0")")
. "$scripts/help.sh"

example=${1:-}
names=$(cd "$scripts/../examples" && for file in *.c; do printf '  %s\n' "${file%.c}"; done)
case $example in
-h | --help)
    usage
    printf 'EXAMPLE is one of\n%s\n' "$names"
    exit 0
    ;;
-*)
    answer_help "$example"
    refuse "the name of an example comes before options, not $example"
    ;;
esac
if [ -z "$example" ] || [ ! -e "$scripts/../examples/$example.c" ]; then
    printf 'run.sh: %s\n%s\n' "${example:+there is no example $example; }EXAMPLE is one of" "$names" >&2
    exit 2
fi
shift
case $0 in
*/*) TAPEHEAD_RUN=$0 ;;
*) TAPEHEAD_RUN=./$0 ;; # (sh run.sh)
esac
export TAPEHEAD_RUN # examples begin the command that they end with by it

program=$scripts/../build/examples/$example
for option; do
    case $option in
    -h | --help | --version)
        [ ! -x "$program" ] || exec "$program" "$@"
        [ "$option" != --version ] || answer_help --version
        awk '{ last = sub(/ *\*\/$/, ""); sub(/^(\/\*| \*) ?/, ""); print } last { exit }' "$scripts/../examples/$example.c"
        printf '\nIts options are listed here after the first build, which this command makes:\n  %s %s\n' "$0" "$example"
        exit 0
        ;;
    esac
done

# Standard input is the example's: it may be a text.
"$scripts/setup.sh" demo </dev/null
# What the build says goes to standard error, and after the first time it is said only when it fails: the rest is the example's.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
build() {
    build=$("$scripts/configure.sh" -DTAPEHEAD_TESTS=OFF -DTAPEHEAD_EXAMPLES=ON) &&
        cmake --build "$build" --target "$example" --parallel "$(nproc)" >&2
}
if [ -e "$program" ]; then
    build 2>"$log" </dev/null || { cat "$log" >&2; exit 1; }
else
    build </dev/null
fi
rm -f "$log"
exec "$build/examples/$example" "$@"

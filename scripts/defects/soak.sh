#!/bin/sh
# soak.sh [--short] [steps|contexts|threads]...: long training runs. Fails if memory grows, or if the bits differ from a short
# run. Without a name all three run. Each prints the memory twenty times.
#   steps      a million steps of a small model: some minutes on two processors
#   contexts   10,000 contexts, created and freed: a minute
#   threads    eight threads, each with its own contexts, for ten minutes on all processors
# --short    a hundredth of it
set -eu

scripts=$(dirname "$(dirname "$(readlink -f "$0")")")
part=1

. "$scripts/library/help.sh"
answer_help "$@"
if [ "${1:-}" = --short ]; then
    part=100
    shift
fi
for name; do
    case $name in
    steps | contexts | threads) ;;
    -*) refuse "unknown option $name" ;;
    *) refuse "$name is not one of steps, contexts and threads" ;;
    esac
done
[ $# -gt 0 ] || set -- steps contexts threads

"$scripts/setup.sh" test
build=$("$scripts/library/configure.sh" -DTAPEHEAD_TESTS=ON -DTAPEHEAD_ISAS=all)
cmake --build "$build" --target soak --parallel "$(nproc)" >&2
soak=$build/tests/soak/soak
checkpoint=$(mktemp)
trap 'rm -f "$checkpoint"' EXIT
for name; do
    case $name in
    steps) "$soak" steps $((1000000 / part)) "$checkpoint" ;;
    contexts) "$soak" contexts $((10000 / part)) ;;
    threads) "$soak" threads $((600 / part)) ;;
    esac
done

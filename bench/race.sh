#!/bin/sh
# race.sh --text FILE [--rows NAME,...] [--seeds N] [--threads N] [--out DIRECTORY] [--python PYTHON] [--program PATH] [--steps N]:
# how long a training takes to a target of the validation loss, in Tapehead and in PyTorch. The row's number of steps is
# fixed beforehand. Each of N seeds (default 5) is evaluated once on the last tenth of the text. README.md has the rule.
#
# --rows: the recipes of race.py, nanogpt and ours-LOSS, each with -tapehead, -tapehead-bfloat16 and -torch (default:
# all). --threads: default 2. PYTHON must have PyTorch (default: an environment that this script makes). --program: a
# language_model (default: built for this processor). --steps: another number of steps, to try the rows, with --out. Appends to
# race.csv and writes its table and a picture in DIRECTORY (default bench/results); omits the runs that race.csv has. Run nothing else at the same time.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
peers=$root/build-bench/peers
rows=torch python= text=

. "$root/scripts/library/help.sh"
. "$root/bench/peers.sh"
answer_help "$@"
option=
for word; do
    case $option in
    --text) text=$word ;;
    --rows) rows=$word ;;
    --python) python=$word ;;
    esac
    case $option,$word in
    ,--text | ,--rows | ,--seeds | ,--threads | ,--out | ,--python | ,--program | ,--steps) option=$word ;;
    ,*) refuse "unknown option $word" ;;
    *) option= ;;
    esac
done
[ -z "$option" ] || refuse "$option needs a value"
[ -r "$text" ] || refuse "the text is missing: give the path of a file with --text"
case $rows in
*torch*)
    if [ -z "$python" ] && make_environment && install_torch && [ -e "$peers/torch.complete" ]; then
        python=$peers/bin/python
        set -- "$@" --python "$python"
    fi
    ;;
esac

# Without these settings glibc's malloc would return big blocks to the system and have page faults in every step.
export MALLOC_TOP_PAD_=1073741824 MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296
PYTHONDONTWRITEBYTECODE=1 exec python3 "$root/bench/race.py" "$@"

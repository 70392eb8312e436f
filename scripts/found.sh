#!/bin/sh
# found.sh LIBRARY OUT: checks the operations of torch, jax, autograd or tinygrad, and writes a CSV with a verdict for each.
# Installs the library and the checker into ~/.cache/tapehead/found once. docs/found.md describes the results.
set -eu
root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/scripts/library/help.sh"
answer_help "$@"
[ $# -eq 2 ] || refuse "expected LIBRARY OUT, there are $# arguments"
case $1 in
torch) packages="torch==2.13.0 numpy expecttest scipy" ;;
jax) packages="jax==0.10.2" ;;
autograd) packages="autograd==1.9.1 scipy" ;;
tinygrad) packages="tinygrad==0.14.0 numpy" ;;
*) refuse "the library is torch, jax, autograd or tinygrad, not $1" ;;
esac
environment=${XDG_CACHE_HOME:-$HOME/.cache}/tapehead/found/$1
if [ ! -e "$environment/complete" ]; then
    python3 -m venv --clear "$environment"
    # shellcheck disable=SC2086
    "$environment/bin/pip" install --quiet $packages
    touch "$environment/complete"
fi
"$environment/bin/pip" install --quiet --force-reinstall "$root/python"
OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 "$environment/bin/python" "$root/scripts/found/$1_ops.py" "$2"

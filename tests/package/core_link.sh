#!/bin/sh
# core_link.sh SOURCE CC CORE MODELS: a program that calls a function of tapehead/models.h and links the core alone gets the linker's
# message that docs/installing.md explains. With the libraries on that page it links.
set -eu
source=$1 cc=$2 core=$3 models=$4
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

cat >"$work/main.c" <<'END'
#include <tapehead/tapehead.h>
int main(void)
{
    return th_generate(NULL, NULL, NULL) == TH_OK;
}
END
"$cc" -I "$source/include" -c "$work/main.c" -o "$work/main.o"
link() { # link LIBRARY...
    LC_ALL=C "$cc" "$work/main.o" -o "$work/main" -Wl,-rpath-link,"$(dirname "$core")" "$@" >"$work/message" 2>&1
}

! link "$core" || { echo "the core alone has th_generate"; exit 1; }
message="undefined reference to \`th_generate'"
grep -qF "$message" "$work/message" || { cat "$work/message"; echo "skipped: this linker has another message"; exit 77; }
page=docs/installing.md
grep -qF "$message" "$source/$page" || { echo "$page does not explain: $message"; exit 1; }
grep -F -A 2 "$message" "$source/$page" | grep -qF -e "-ltapehead_models -ltapehead" || { echo "$page does not name the libraries"; exit 1; }
grep -qF "$message" "$source/include/tapehead/tapehead.h" || { echo "tapehead.h does not explain: $message"; exit 1; }
link "$models" "$core" || { cat "$work/message"; echo "with both libraries the program does not link"; exit 1; }

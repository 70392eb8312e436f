#!/bin/sh
# symbols.sh LIBRARY SONAME INCLUDE: the shared library exports the functions that the public headers declare, all of them and
# nothing else, and carries its SONAME.
set -eu
library=$1 soname=$2 include=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

nm -D --defined-only "$library" | awk '{ print $3 }' | sort >"$work/exported"
# A declaration starts with TH_API; its name is the word before its first opening parenthesis.
cat "$include"/tapehead/*.h | tr '\n' ' ' | grep -oE 'TH_API [^(;]*\bth_[a-z0-9_]+\(' | sed -E 's/.*\b(th_[a-z0-9_]+)\($/\1/' |
    sort -u >"$work/declared"

status=0
if ! readelf -d "$library" | grep -q "SONAME.*\[$soname\]"; then
    echo "the SONAME of $library is not $soname"
    status=1
fi
if [ ! -s "$work/declared" ]; then
    echo "no declaration found under $include"
    status=1
fi
comm -23 "$work/exported" "$work/declared" | sed 's/.*/exported, but in no public header: &/' >"$work/complaints"
comm -13 "$work/exported" "$work/declared" | sed 's/.*/declared in a public header, but not exported: &/' >>"$work/complaints"
if [ -s "$work/complaints" ]; then
    cat "$work/complaints"
    status=1
fi
echo "$(wc -l <"$work/exported") functions exported by $soname"
exit $status

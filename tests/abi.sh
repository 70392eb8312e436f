#!/bin/sh
# abi.sh SOURCE CC [write]: compares the public headers, and the names of private functions, with the lists in abi/. Any difference
# is an error. If git finds a tag of a release with the same soname, a declaration in that release's lists must not be missing
# or different. With "write", writes the lists. (tests/symbols.sh compares the headers with the symbols of the libraries.)
set -eu
here=$(dirname "$(readlink -f "$0")")
. "$here/package_checks.sh"
cd "$1"
cc=$2 action=${3:-compare}
export LC_ALL=C

# list HEADER...: prints the declarations in these headers.
list() {
    echo '#include "tapehead/tapehead.h"' | "$cc" -std=c11 -I include -E - >"$work/preprocessed"
    awk -v headers="$*" -f "$here/abi_list.awk" "$work/preprocessed" | sort | cut -f 2- | tr '\1' '\n'
}

# declarations <LIST: prints each declaration of a list in one line.
declarations() {
    awk '/^#/ { next }
         !/^[ }]/ && all { print all; all = "" }
         { all = all $0 }
         END { print all }' | sort
}

# missing OLD NEW: prints the declarations of the list OLD that the list NEW does not have.
missing() {
    declarations <"$1" >"$work/first"
    declarations <"$2" >"$work/second"
    comm -23 "$work/first" "$work/second"
}

complain() { # complain SENTENCE: prints it and the lines of standard input
    echo "$1"
    sed 's/^/    /'
    status=1
}

models_headers=$(models_headers include)
core_headers=$(cd include && ls tapehead/*.h | grep -vxF "$models_headers")
# shellcheck disable=SC2086 # lists of words
{
    list $core_headers && echo "# private: these functions have the symbol version TAPEHEAD_PRIVATE_ and the release" &&
        declared TH_PRIVATE_API $(grep -rl --include='*.h' '^TH_PRIVATE_API' src) | sed 's/^/TAPEHEAD_PRIVATE /'
} >"$work/libtapehead.txt"
# shellcheck disable=SC2086
list $models_headers >"$work/libtapehead_models.txt"

if [ "$action" = write ]; then
    cp "$work"/libtapehead*.txt abi/
fi

for name in libtapehead libtapehead_models; do
    [ "$(grep -c '^[a-z].*(.*);$' "$work/$name.txt")" -gt 50 ] || complain "the headers of $name have too few functions" <"$work/$name.txt"
    [ -e "abi/$name.txt" ] || { echo "there is no abi/$name.txt"; status=1; continue; }
    cmp -s "abi/$name.txt" "$work/$name.txt" && continue
    diff -U 1 "abi/$name.txt" "$work/$name.txt" | tail -n +3 >"$work/difference"
    complain "abi/$name.txt (-) differs from the headers (+):" <"$work/difference"
    if missing "abi/$name.txt" "$work/$name.txt" | grep -qv '^TAPEHEAD_PRIVATE '; then
        echo "A declaration is missing or different. If a release has it, raise the minor version in CMakeLists.txt (docs/abi.md)."
    fi
done
[ "$status" -eq 0 ] || echo "If this is intended, write the lists with: tests/abi.sh . $cc write"

# -- the last release with this soname --

version=$(sed -n 's/^project(tapehead VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
case $version in
0.*) same=${version%.*} ;;
*) same=${version%%.*} ;;
esac
tag=$(git tag --list "v$same.*" --sort=-version:refname 2>/dev/null | head -n 1)
for name in libtapehead libtapehead_models; do
    [ -n "$tag" ] && git show "$tag:./abi/$name.txt" >"$work/released" 2>/dev/null || continue
    missing "$work/released" "$work/$name.txt" | grep -v '^TAPEHEAD_PRIVATE ' >"$work/lost" || continue
    complain "release $tag has these declarations in $name, and the soname is still $name.so.$same. Raise the minor version." <"$work/lost"
done
[ "$status" -ne 0 ] ||
    echo "$(cat abi/libtapehead*.txt | grep -c ');$') functions and their types as in abi/${tag:+; every declaration of $tag is there}"
exit $status

#!/bin/sh
# abi.sh SOURCE CC [write|release]: compares the public headers, and the names of private functions, with the lists in abi/. Any
# difference is an error. Compares them also with the declarations of the last release (abi/releases.txt, abi/VERSION):
#   - With the same soname, none of them may be missing or different, and a patch version adds none.
#   - The version is higher than that of the release, except in the release itself.
# "write" writes the lists and debian/*.symbols. "release" also writes abi/VERSION and the line of abi/releases.txt, with the date of
# CHANGELOG.md. (tests/package/symbols.sh compares the headers with the symbols of the libraries.)
set -eu
here=$(dirname "$(readlink -f "$0")")
. "$here/package_checks.sh"
cd "$1"
cc=$2 action=${3:-compare}
export LC_ALL=C
read_version

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

# The last release.
last=$(grep -v '^#' abi/releases.txt | tail -n 1)
read -r released _ commit <<END
$last
END

# public LIST: prints the list without private functions.
public() {
    grep -v -e '^#' -e '^TAPEHEAD_PRIVATE ' "$1"
}

if [ "$action" != compare ]; then
    cp "$work"/libtapehead*.txt abi/
    for library in tapehead tapehead_models; do
        debian_symbols "$library" >"$work/symbols"
        find debian -name "$(debian_package "$library" '[0-9]*').symbols" -exec rm {} +
        cp "$work/symbols" "debian/$(debian_package "$library").symbols"
    done
fi
if [ "$action" = release ]; then
    [ "$version" != "$released" ] || { echo "version $version is released already: raise it in CMakeLists.txt"; exit 1; }
    date=$(changelog_dates | sed -n "s/^$version //p")
    [ -n "$date" ] || { echo "CHANGELOG.md has no section \"## [$version] - DATE\""; exit 1; }
    rm -r "abi/$released"
    mkdir "abi/$version"
    for name in libtapehead libtapehead_models; do
        public "abi/$name.txt" >"abi/$version/$name.txt"
    done
    echo "$version $date -" >>abi/releases.txt
    released=$version commit=-
fi

for name in libtapehead libtapehead_models; do
    [ "$(grep -c '^[a-z].*(.*);$' "$work/$name.txt")" -gt 50 ] || complain "the headers of $name have too few functions" <"$work/$name.txt"
    [ -e "abi/$name.txt" ] || { echo "there is no abi/$name.txt"; status=1; continue; }
    cmp -s "abi/$name.txt" "$work/$name.txt" && continue
    diff -U 1 "abi/$name.txt" "$work/$name.txt" | tail -n +3 >"$work/difference"
    complain "abi/$name.txt (-) differs from the headers (+):" <"$work/difference"
    if missing "abi/$name.txt" "$work/$name.txt" | grep -qv '^TAPEHEAD_PRIVATE '; then
        echo "A declaration is missing or different."
    fi
done
[ "$status" -eq 0 ] || echo "If this is intended, write the lists with: tests/package/abi.sh . $cc write"

# -- the last release --

for name in libtapehead libtapehead_models; do
    [ "$(soversion "$released")" = "$soversion" ] || continue
    missing "abi/$released/$name.txt" "$work/$name.txt" >"$work/lost"
    [ ! -s "$work/lost" ] || complain "release $released has these declarations, and the soname is still $name.so.$soversion:" <"$work/lost"
    public "$work/$name.txt" >"$work/public"
    missing "$work/public" "abi/$released/$name.txt" >"$work/added"
    [ "${version%.*}" != "${released%.*}" ] || [ ! -s "$work/added" ] ||
        complain "release $released does not have these declarations of $name, and $version is not a new minor version:" <"$work/added"
    [ ! -s "$work/lost" ] && [ ! -s "$work/added" ] ||
        echo "Raise the minor version (docs/internals/releases.md, \"Raising the version\"), or take the change back."
done
newest=$(printf '%s\n' "$released" "$version" | sort -V | tail -n 1)
if [ "$newest" != "$version" ] || { [ "$released" = "$version" ] && [ "$commit" != - ]; }; then
    wrong "$released was released with commit $commit. The version in CMakeLists.txt must be higher, but is $version."
fi
grep -v '^#' abi/releases.txt | cut -d ' ' -f 1,2 >"$work/recorded"
changelog_dates | tac >"$work/dated"
diff "$work/dated" "$work/recorded" >"$work/difference" ||
    complain "the dated sections of CHANGELOG.md (<) differ from abi/releases.txt (>):" <"$work/difference"
[ "$status" -ne 0 ] ||
    echo "$(cat abi/libtapehead*.txt | grep -c ');$') functions and their types as in abi/; the last release is $released"
exit $status

#!/bin/sh
# pages.sh SOURCE: the pages agree with the sources. Links lead to files and to headings (paths.py checks other paths).
# README.md has at most 12 KB and shows examples/train.c. The picture of ARCHITECTURE.md shows the tested order of folders, and its
# glossary has at most 25 entries. docs/functions.md has a place for every public function and names no other.
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
pages="README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md CHANGELOG.md bench/README.md $(find docs teaching -name '*.md')"

complain() { # complain SENTENCE: prints it and the lines of standard input, if there are any
    lines=$(cat)
    [ -n "$lines" ] || return 0
    printf '%s\n%s\n' "$1" "$lines"
    status=1
}

# -- links --
for page in $pages; do
    grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -v : | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
    done
done >"$work/links"
complain "these links lead nowhere:" <"$work/links"

headings() { # headings PAGE: prints the names by which links lead to its headings
    awk '/^```/ { code = !code } !code && /^#+ / { sub(/^#+ /, ""); print tolower($0) }' "$1" | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}
for page in $pages; do
    grep -oE '\]\([^) ]*#[^) ]+\)' "$page" | sed -E 's/^\]\((.*)\)$/\1/' | grep -v : | while read -r link; do
        target=${link%%#*}
        headings "${target:+$(dirname "$page")/}${target:-$page}" | grep -qxF -e "${link#*#}" || echo "$page: $link"
    done
done >"$work/anchors"
complain "these links lead to no heading:" <"$work/anchors"

# -- README.md: its first block of C is the end of examples/train.c --
if [ "$(wc -c <README.md)" -gt 12288 ]; then
    echo "README.md has $(wc -c <README.md) bytes; 12,288 are allowed"
    status=1
fi
awk '/^```c$/ { inside = 1; next } /^```$/ && inside { exit } inside' README.md >"$work/shown"
tail -n "$(wc -l <"$work/shown")" examples/train.c | diff "$work/shown" - >"$work/loop" || true
complain "the training loop of README.md (<) is not the end of examples/train.c (>):" <"$work/loop"

# -- ARCHITECTURE.md --
docs/images/architecture.sh --check || status=1
entries=$(sed -n '/^## Glossary/,/^## Internals/p' ARCHITECTURE.md | grep -c '^| ')
if [ "$entries" -gt 26 ]; then # with the heading of the table
    echo "the glossary of ARCHITECTURE.md has $((entries - 1)) entries; 25 are enough"
    status=1
fi

# -- docs/functions.md --
# A declaration starts with TH_API; its name is the word before its first opening parenthesis. th_apply is a macro, and
# th_mpi_group_new a static function.
{
    printf '%s\n' th_apply th_mpi_group_new
    cat include/tapehead/*.h | tr '\n' ' ' | grep -oE 'TH_API [^(;]*\bth_[a-z0-9_]+\(' | sed -E 's/.*\b(th_[a-z0-9_]+)\($/\1/'
} | sort -u >"$work/declared"
grep -o '`th_[a-z0-9_]*`' docs/functions.md | tr -d '`' | sort -u >"$work/named"
comm -23 "$work/declared" "$work/named" >"$work/unnamed"
comm -13 "$work/declared" "$work/named" >"$work/unknown"
complain "these public functions have no place in docs/functions.md:" <"$work/unnamed"
complain "docs/functions.md names functions that do not exist:" <"$work/unknown"

[ "$status" -ne 0 ] || echo "$(wc -l <"$work/named") public functions have a place in docs/functions.md; all links lead somewhere"
exit $status

#!/bin/sh
# archives.sh SOURCE: each archive of inputs has the bytes that `fuzz.sh --add` writes for the same inputs. A new file appears in the
# archive, and nothing else changes. Other files than archives in corpus/ would not be tested.
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/scripts" "$work/one"
cp -R scripts/defects scripts/library "$work/scripts/"
mkdir "$work/tests"
cp -R tests/fuzz "$work/tests/"
cp CMakeLists.txt "$work/"

others=$(find tests/fuzz/corpus -type f ! -name '*.tar' ! -name README.md)
[ -z "$others" ] || { echo "add these with scripts/defects/fuzz.sh --add, and remove them: $others"; exit 1; }
archives=0
for archive in tests/fuzz/corpus/*.tar; do
    target=$(basename "$archive" .tar)
    first=$(tar -tf "$archive" | head -n 1)
    tar -xf "$archive" -C "$work/one" "$first"
    "$work/scripts/defects/fuzz.sh" --add "$target" "$work/one/$first" 2>"$work/said" || { cat "$work/said"; exit 1; }
    cmp "$archive" "$work/$archive"
    archives=$((archives + 1))
done

echo new >"$work/a_new_input"
"$work/scripts/defects/fuzz.sh" --add json "$work/a_new_input" 2>"$work/said"
{ tar -tf tests/fuzz/corpus/json.tar; echo a_new_input; } | LC_ALL=C sort >"$work/expected"
tar -tf "$work/tests/fuzz/corpus/json.tar" | LC_ALL=C sort | diff "$work/expected" -
echo "$archives archives"

#!/bin/sh
# reference.sh SOURCE DIRECTORY: doxygen writes the reference of the public headers into DIRECTORY. The pages have no scripts: no search
# and no menus. (doxygen's scripts contain jQuery.) Fails if doxygen reports something.
set -eu
cd "$1"
directory=$2
rm -rf "$directory"
mkdir -p "$directory"
version=$(sed -n 's/^project(tapehead VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
reports=$({ cat docs/Doxyfile && printf '%s\n' "PROJECT_NUMBER = $version" "OUTPUT_DIRECTORY = \"$(dirname "$directory")\"" "HTML_OUTPUT = \"$(basename "$directory")\"" \
    "SEARCHENGINE = NO" "HTML_DYNAMIC_MENUS = NO"; } | doxygen - 2>&1) && [ -z "$reports" ] || {
    printf '%s\n' "$reports" >&2
    exit 1
}
cd "$directory"
rm -f ./*.js ./*.map ./*.md5
sed -i -e '/<script .*<\/script>/d' -e '/<script/,/<\/script>/d' -e 's/<div class="levels">.*<\/div><table/<table/' -e 's/ onclick="[^"]*"//g' ./*.html
if grep -l '<script\|javascript' ./*.html; then
    echo "reference.sh: these pages of doxygen still use scripts" >&2
    exit 1
fi

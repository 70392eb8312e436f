#!/bin/sh
# doxygen.sh SOURCE: doxygen takes the public headers without a warning, and every public function has a comment there.
set -eu
cd "$1"
command -v doxygen >/dev/null || { echo "skipped: there is no doxygen"; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

reference() { # reference EXTRACT_ALL: prints what doxygen warns of
    { cat docs/Doxyfile; printf '%s\n' "OUTPUT_DIRECTORY = $out" "EXTRACT_ALL = $1" "WARN_FORMAT = \"\$file:\$line: \$text\""; } |
        doxygen - 2>&1
}

warnings=$(reference YES)
if [ -n "$warnings" ]; then
    printf '%s\n' "$warnings"
    exit 1
fi
# The page of a header must show what its comments say, or the filter has lost them.
grep -q "Natural logarithm\|softmax(q k" "$out/html/ops_8h.html"
if reference NO | grep '(function)'; then
    exit 1
fi

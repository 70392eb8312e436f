#!/bin/sh
# doxygen.sh SOURCE: `doxygen docs/Doxyfile` makes the reference of the public headers in a new checkout without a warning. Every
# public function has a comment, functions have their own text, summaries are complete, and the main page is not empty.
set -eu
command -v doxygen >/dev/null || { echo "skipped: doxygen is not installed (scripts/setup.sh installs it)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/docs"
cp -r "$1/include" "$work/"
cp "$1/docs/Doxyfile" "$1/docs/doxygen.awk" "$work/docs/"
cd "$work"
out=build-reference

status=0
wrong() {
    printf '%s\n' "$*"
    status=1
}

doxygen docs/Doxyfile >warnings 2>&1 || wrong "doxygen docs/Doxyfile fails"
[ ! -s warnings ] || wrong "$(cat warnings)"
grep -q '<[^>]*>.*Ownership' $out/html/index.html || wrong "the main page is empty"
# A word of a comment: the filter must not lose comments.
grep -q "natural logarithm" $out/html/ops_8h.html || wrong "the text of th_log is missing"

# A second run lists functions without a comment, and writes XML, in which summaries are easy to find.
{ cat docs/Doxyfile; printf '%s\n' "EXTRACT_ALL = NO" "GENERATE_HTML = NO" "GENERATE_XML = YES"; } | doxygen - >warnings 2>&1
! grep '(function)' warnings || wrong "these functions have no comment"

# Prints "NAME: SUMMARY" for each function and macro.
summaries() {
    awk '/<memberdef kind="(function|define)"/ { name = "" }
         name == "" && /<name>/ { name = $0; gsub(/ *<\/?name>/, "", name) }
         /<briefdescription>/ { getline; gsub(/<[^>]*>/, ""); print name ": " $0 }' $out/xml/*_8h.xml
}
summaries >summaries
[ "$(wc -l <summaries)" -gt 300 ] || wrong "only $(wc -l <summaries) summaries"
! grep -E '(et al| \.|\.\.)\. *$' summaries || wrong "these summaries are cut off"
while read -r name word; do
    grep "^$name: .*$word" summaries >/dev/null || wrong "$(grep "^$name:" summaries), without \"$word\""
done <<END
th_ndim dimensions
th_numel elements
th_stride stride
th_dtype_of type
th_shape_of shape
th_is_contiguous row-major
TH_INDEX index
th_schedule_noam warmup_steps
th_tape_node index
th_tokenizer_write_end FFFD
END
exit $status

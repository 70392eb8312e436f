#!/bin/sh
# site.sh SOURCE: scripts/site.sh writes the pages of the class: formulas are MathML, links lead to files of the site, and nothing is
# loaded from elsewhere. Without pandoc the test is skipped.
set -eu
command -v pandoc >/dev/null || {
    echo "skipped: pandoc is not installed"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
complain() {
    printf '%s\n' "$*"
    status=1
}
site=$work/site
mkdir "$site"
touch "$site/site.css" "$site/old.html" # an earlier site, which is replaced
"$1/scripts/site.sh" --pages-only "$site" >/dev/null
[ ! -e "$site/old.html" ] || complain "an earlier site stays"

for lesson in "$1"/teaching/lessons/[0-9]*-*.md; do
    [ -s "$site/lessons/$(basename "$lesson" .md).html" ] || complain "there is no page of $lesson"
done
for exercise in "$1"/teaching/exercises/[0-9]*.c; do
    [ -s "$site/exercises/$(basename "$exercise").html" ] || complain "there is no page of $exercise"
done
grep -q '<msub><mrow><mi mathvariant="normal">d</mi><mi>A</mi></mrow>' "$site/docs/attention-backward.html" || complain "dA_ik is not MathML"
grep -q '<mfrac>' "$site/lessons/4-softmax-cross-entropy.html" || complain "a partial derivative is not MathML"
grep -q '<msqrt>' "$site/lessons/6-attention.html" || complain "a square root is not MathML"
grep -q '<math><mi mathvariant="normal">exp</mi>' "$site/lessons/4-softmax-cross-entropy.html" || complain "exp(z_k) in a sentence is not MathML"
grep -q 'class="sourceCode c"' "$site/lessons/6-attention.html" || complain "code has no colors"
grep -q '"></a><span class="dt">double</span> sum' "$site/lessons/4-softmax-cross-entropy.html" || complain "a part of a program is indented"
grep -q 'href="../exercises/4_softmax.c.html"><code>' "$site/lessons/4-softmax-cross-entropy.html" || complain "the path of an exercise is not a link"
! grep -rlE '(src|href)="[a-z]+://' "$site" || complain "these pages load or link something elsewhere"
for page in $(find "$site" -name '*.html'); do
    grep -oE '(src|href)="[^"#]+' "$page" | sed 's/^[a-z]*="//' | grep -v '^data:' | sort -u | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
    done
done >"$work/lost"
[ ! -s "$work/lost" ] || complain "these links lead nowhere: $(cat "$work/lost")"
python3 - "$site" <<'PYTHON' || complain "the formulas are not well formed"
import pathlib, re, sys
import xml.etree.ElementTree
count = 0
for page in pathlib.Path(sys.argv[1]).rglob("*.html"):
    for math in re.findall(r"<math.*?</math>", page.read_text(encoding="utf-8"), re.S):
        xml.etree.ElementTree.fromstring(math)
        count += 1
print(count, "formulas")
sys.exit(count < 200)
PYTHON
! "$1/scripts/site.sh" --pages-only "$work" 2>/dev/null || complain "a folder that is not a site was replaced"
exit $status

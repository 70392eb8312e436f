#!/bin/sh
# example_pages.sh COPY_TASK ATTENTION_BACKWARD: the pages of --page have the tape's data, a picture and a table, and no addresses on the
# network. The page of the copy task's model has at most 500 KB. A page that cannot be written is an error.
set -eu
copy_task=$1 attention_backward=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out"

fail() {
    echo "FAILED: $*"
    exit 1
}

check() { # check FILE WORDS...: the page has each of these words
    page=$1
    shift
    for part in '<!DOCTYPE html>' '<svg' '<table>' '</html>' '"backward":true' "$@"; do
        grep -qF -- "$part" "$page" || fail "$page does not contain $part"
    done
    [ "$(grep -o 'https*://[^"]*' "$page" | grep -vc '^http://www\.w3\.org/')" = 0 ] || fail "$page has an address on the network"
}

"$copy_task" --steps 2 --out . --page copy.html >/dev/null 2>said
grep -q 'wrote: copy.html' said || fail "copy_task does not name the page"
check copy.html '"name":"attention.in_proj_weight"' '"name":"tokens"' '"op":"scaled_dot_product_attention"' '"dscores":{' '"difference":{'
bytes=$(wc -c <copy.html)
[ "$bytes" -le 500000 ] || fail "the page has $bytes bytes"

"$attention_backward" --heads 2 --causal --dropout 0.3 --page attention.html >/dev/null 2>&1
check attention.html '"name":"Wq"' '"name":"L"' '"dropped":{' '"op":"masked_softmax"'

! "$copy_task" --quiet --steps 2 --out . --page none/copy.html >/dev/null 2>said || fail "copy_task wrote none/copy.html"
grep -q 'none/copy.html cannot be opened for writing' said || fail "copy_task does not say why"
! "$attention_backward" --page none/attention.html >/dev/null 2>&1 || fail "attention_backward wrote none/attention.html"
echo "the page of the copy task has $bytes bytes"

#!/bin/sh
# classify_learns.sh CLASSIFY FIRST LAST [OPTION...]: with each seed from FIRST to LAST the model classifies new sentences
# correctly, longer ones too. The picture shows the attention of [class] in the sentence "behind the girl , the queen that found
# the brave kings ___ lost ." It attends to the subject, the queen.
set -eu
program=$1 first=$2 last=$3
shift 3
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

figure() {
    echo "$line" | sed "s/.* $1=\([0-9.]*\).*/\1/"
}

# If the picture cannot be written, the rest of the run is unchanged.
status=0
"$program" --quiet --steps 1 --picture "$out/none/picture.svg" >"$out/line" 2>"$out/said" || status=$?
if [ $status -ne 1 ] || ! grep -q 'none/picture.svg' "$out/said" || ! grep -q 'right=' "$out/line"; then
    echo "without a picture: status $status"
    cat "$out/line" "$out/said"
    exit 1
fi

status=0
seed=$first
while [ "$seed" -le "$last" ]; do
    line=$("$program" --quiet --seed "$seed" --picture "$out/picture.svg" "$@")
    echo "$line"
    awk -v right="$(figure right)" -v longer="$(figure longer)" -v subject="$(figure subject)" \
        'BEGIN { exit !(right >= 0.99 && longer >= 0.97 && subject >= 0.75) }' || status=1
    # In the second block [class] attends to the queen more than to the girl and the kings together. In the first block no
    # word attends to a later one.
    sed -n 's/.*<title>\(.*\): \(.*\)<\/title>.*/\1 \2/p' "$out/picture.svg" | awk '
        $1 == "[class]" && $2 == "←" { seen[$3]++; weight[$3, seen[$3]] = $4 }
        END {
            queen = weight["queen", 2]; others = weight["girl", 2] + weight["kings", 2]
            printf "[class] attends to the queen with %s, to the other nouns with %s\n", queen, others
            exit !(queen > 0.5 && queen > others && weight["[class]", 1] > 0.99 && weight["behind", 1] == 0)
        }' || status=1
    seed=$((seed + 1))
done
exit $status

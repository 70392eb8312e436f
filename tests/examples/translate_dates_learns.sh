#!/bin/sh
# translate_dates_learns.sh TRANSLATE_DATES LOWEST FIRST LAST [OPTION...]: with each seed from FIRST to LAST at least the share LOWEST
# of held-out dates is exact. In the picture of "Thursday, May 3rd 2001" the digits of year, month and day each attend more to
# their part of the source than to all other parts together.
set -eu
program=$1 lowest=$2 first=$3 last=$4
shift 4
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

status=0
seed=$first
while [ "$seed" -le "$last" ]; do
    line=$("$program" --quiet --seed "$seed" --date "Thursday, May 3rd 2001" --picture "$out/picture.svg" "$@")
    echo "$line"
    echo "$line" | sed 's/.* exact=\([0-9.]*\).*/\1/' | awk -v lowest="$lowest" '{ exit !($1 >= lowest) }' || status=1
    # The picture has one line for each entry: the heads in order, 10 rows of 22 columns each, 2001-05-03 from
    # 0         1         2
    # 0123456789012345678901
    # Thursday, May 3rd 2001
    sed -n 's/.*<title>.*: \(.*\)<\/title>.*/\1/p' "$out/picture.svg" | awk '
        {
            row = int((NR - 1) / 22) % 10; column = (NR - 1) % 22
            part = row < 4 ? "year" : row == 5 || row == 6 ? "month" : row > 7 ? "day" : ""
            source = column > 17 ? "year" : column > 9 && column < 13 ? "month" : column > 13 && column < 17 ? "day" : "nothing"
            if (part) { all[part] += $1; if (part == source) own[part] += $1 }
        }
        END {
            right = NR % 220 == 0
            for (part in all) {
                printf "%s: %.3f  ", part, own[part] / all[part]
                right = right && own[part] > all[part] / 2
            }
            print ""
            exit !right
        }' || status=1
    seed=$((seed + 1))
done
exit $status

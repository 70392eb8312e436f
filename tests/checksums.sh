#!/bin/sh
# checksums.sh short|long|unfused[:PROGRAM] DIRECTORY...: runs the programs of checksums.txt, which are in these directories, and compares the
# checksums that they print. "short" leaves out the lines with "long". "unfused" runs only the lines with "unfused".
# With a program's name, its lines only.
set -eu
lines=$(readlink -f "$(dirname "$0")/checksums.txt") most=${1%%:*} only=${1#"${1%%:*}"}
shift
for directory; do
    PATH=$(cd "$directory" && pwd):$PATH
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

count=0 failed=
while read -r length wanted command; do
    case $length:$most in
    unfused:unfused) ;;
    "#:"* | long:short | unfused:* | *:unfused) continue ;;
    esac
    case ${only#:} in
    "" | "${command%% *}") ;;
    *) continue ;;
    esac
    # shellcheck disable=SC2086 # a program and its options
    got=$($command </dev/null 2>error | sed -n 's/.*parameters_crc32c=\([0-9a-f]*\).*/\1/p')
    count=$((count + 1))
    if [ "$got" = "$wanted" ]; then
        printf '%s  %s\n' "$got" "$command"
    else
        cat error
        printf '%s, not %s:  %s\n' "${got:-no checksum}" "$wanted" "$command"
        failed=yes
    fi
done <"$lines"
[ "$count" -gt 0 ] && [ -z "$failed" ]

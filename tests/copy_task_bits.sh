#!/bin/sh
# copy_task_bits.sh COPY_TASK: 60 steps of the copy task end with the parameters below, with every compiler, option and processor that
# has fused multiply-add.
set -eu
copy_task=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$(uname -m)" = x86_64 ] && ! grep '^flags.* fma\b' /proc/cpuinfo >/dev/null; then
    echo "skipped: this processor has no fused multiply-add"
    exit 77
fi
status=0
while read -r precision expected; do
    crc=$("$copy_task" --steps 60 --quiet --precision "$precision" --out "$work" | sed -n 's/.*parameters_crc32c=//p')
    echo "$precision: parameters_crc32c=$crc"
    [ "$crc" = "$expected" ] || { echo "instead of $expected"; status=1; }
done <<EOF
float32 cb1fe020
bfloat16x3 8ed01ca5
bfloat16 b59a11ec
EOF
exit $status

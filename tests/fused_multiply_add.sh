#!/bin/sh
# fused_multiply_add.sh LIBRARY: the compiler made fused multiply-adds of the micro-kernel's loop, in both element types and
# every instruction set that has them, and no separate multiplication. (gcc's -std=c11 alone would switch them off.)
set -eu
library=$1

case $(uname -m) in
x86_64) ;;
*) echo "skipped: looks for x86-64 instructions"; exit 77 ;;
esac

status=0
for instance in f32_avx2 f64_avx2 f32_avx512 f64_avx512; do
    case $instance in
    f32_*) type=ps ;;
    f64_*) type=pd ;;
    esac
    case $instance in
    *_avx2) register=ymm ;;
    *_avx512) register=zmm ;;
    esac
    code=$(objdump -d --no-show-raw-insn "$library" | sed -n "/<th_tile_packed_$instance[^>]*>:/,/^$/p")
    fused=$(echo "$code" | grep -c "vfmadd[0-9]*$type .*%$register" || true)
    apart=$(echo "$code" | grep -c "vmul$type .*%$register" || true)
    echo "th_tile_packed_$instance: $fused fused multiply-adds on %$register, $apart separate multiplications"
    if [ "$fused" -lt 12 ] || [ "$apart" -gt 0 ]; then
        status=1
    fi
done
exit $status

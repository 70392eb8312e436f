#!/bin/sh
# fused_multiply_add.sh LIBRARY: in each instruction set that has them, the loops of the micro-kernels contain fused
# multiply-adds and no separate multiplications. The test looks at the kernels for float32 and float64, and at the full tile of bfloat16 parts.
# (The latter's functions have the same name in all instruction sets; their registers differ.) gcc's -std=c11 alone would turn
# fused multiply-add off.
set -eu
library=$1

case $(uname -m) in
x86_64) ;;
*) echo "skipped: the test is for x86-64 instructions"; exit 77 ;;
esac

status=0

# fused FUNCTION TYPE REGISTER
fused() {
    code=$(objdump -d --no-show-raw-insn "$library" | sed -n "/<$1[^>]*>:/,/^$/p")
    fused=$(echo "$code" | grep -c "vfmadd[0-9]*$2 .*%$3" || true)
    apart=$(echo "$code" | grep -c "vmul$2 .*%$3" || true)
    echo "$1: $fused fused multiply-adds on %$3, $apart separate multiplications"
    if [ "$fused" -lt 12 ] || [ "$apart" -gt 0 ]; then
        status=1
    fi
}

fused th_tile_packed_f32_avx2 ps ymm
fused th_tile_packed_f64_avx2 pd ymm
fused th_tile_packed_f32_avx512 ps zmm
fused th_tile_packed_f64_avx512 pd zmm
fused fma_tile_6_2 ps ymm
fused fma_tile_12_2 ps zmm

# The baseline has none, even with -march=native in the compiler's flags: its results do not depend on the flags.
for function in th_tile_packed_f32_baseline th_tile_packed_f64_baseline; do
    instructions=$(objdump -d --no-show-raw-insn "$library" | sed -n "/<$function>:/,/^$/p")
    echo "$function: $(echo "$instructions" | grep -c vfmadd) fused multiply-adds"
    ! echo "$instructions" | grep vfmadd >/dev/null && echo "$instructions" | grep mul >/dev/null || status=1
done
exit $status

#!/bin/sh
# fused_multiply_add.sh LIBRARY ARCHITECTURE OBJDUMP: in each instruction set that has them, the loops of the micro-kernels contain
# fused multiply-adds and no separate multiplications. The test looks at the kernels for float32 and float64, and at the full tile
# of bfloat16 parts. (The latter's functions have the same name in all instruction sets of x86-64; their registers differ.) gcc's
# -std=c11 alone would turn fused multiply-add off.
set -eu
library=$1 architecture=$2 objdump=$3
status=0

# instructions FUNCTION: prints the function's instructions. (llvm-objdump separates operands with tabs, objdump with spaces. Objects for
# RISC-V keep the labels of loops.)
instructions() {
    "$objdump" -d --no-show-raw-insn "$library" | tr '\t' ' ' |
        awk -v name="^<$1" '/^[0-9a-f]+ <.*>:$/ { if ($2 !~ /^<\.L/) inside = $2 ~ name; next } inside'
}

# fused FUNCTION FUSED SEPARATE: the regular expressions of the two kinds of instructions
fused() {
    code=$(instructions "$1")
    fused=$(echo "$code" | grep -cE "$2" || true)
    separate=$(echo "$code" | grep -cE "$3" || true)
    echo "$1: $fused fused multiply-adds ($2), $separate separate multiplications"
    if [ "$fused" -lt 12 ] || [ "$separate" -gt 0 ]; then
        status=1
    fi
}

case $architecture in
x86_64)
    for registers in avx2:ymm avx512:zmm; do
        fused "th_tile_packed_f32_${registers%:*}" "vfmadd[0-9]*ps .*%${registers#*:}" "vmulps .*%${registers#*:}"
        fused "th_tile_packed_f64_${registers%:*}" "vfmadd[0-9]*pd .*%${registers#*:}" "vmulpd .*%${registers#*:}"
    done
    fused fma_tile_6_2 "vfmadd[0-9]*ps .*%ymm" "vmulps .*%ymm"
    fused fma_tile_12_2 "vfmadd[0-9]*ps .*%zmm" "vmulps .*%zmm"
    # The baseline has no fused multiply-adds, even with -march=native in the compiler's flags: its results do not depend on the flags.
    for function in th_tile_packed_f32_baseline th_tile_packed_f64_baseline; do
        code=$(instructions "$function")
        echo "$function: $(echo "$code" | grep -c vfmadd) fused multiply-adds"
        ! echo "$code" | grep vfmadd >/dev/null && echo "$code" | grep mul >/dev/null || status=1
    done
    ;;
aarch64)
    fused th_tile_packed_f32_neon "fmla.*\.4s" "fmul.*\.4s"
    fused th_tile_packed_f64_neon "fmla.*\.2d" "fmul.*\.2d"
    fused fma_tile_6_2 "fmla.*\.4s" "fmul.*\.4s"
    ;;
generic) # RISC-V: one number at a time; POWER: vectors
    fused th_tile_packed_f32_generic "fmadd\.s|xvmadd[am]sp" "fmul\.s|xvmulsp"
    fused th_tile_packed_f64_generic "fmadd\.d|xvmadd[am]dp" "fmul\.d|xvmuldp"
    fused fma_tile_6_2 "fmadd\.s|xvmadd[am]sp" "fmul\.s|xvmulsp"
    ;;
esac
exit $status

/* The instruction sets of x86-64 (isa.h). */
#include "kernels/machine/isa.h"

#include <cpuid.h>
#include <stddef.h>

#include "kernels/machine/amx.h"
#include "kernels/product_kernels.h"

extern const th_kernels th_kernels_f32_baseline, th_kernels_f32_avx2, th_kernels_f32_avx512;
extern const th_kernels th_kernels_f64_baseline, th_kernels_f64_avx2, th_kernels_f64_avx512;
extern const th_product_kernels th_product_fma_f32_baseline[2], th_product_fma_f32_avx2[2],
    th_product_fma_f32_avx512[2], th_product_dpbf16_f32_avx512bf16[2];
#ifdef TAPEHEAD_TILES /* defined by the build */
extern const th_product_kernels th_product_amx_f32_amx[2];
#else
#define th_product_amx_f32_amx NULL
#endif

enum { BASELINE, AVX2, AVX512, ISAS };
enum { AVX512_BF16 = ISAS, AMX, CHOICES };

const th_isa th_isas[ISAS] = {
    [BASELINE] = {"baseline", 16, 16, false, {&th_kernels_f32_baseline, &th_kernels_f64_baseline}},
    [AVX2] = {"avx2", 32, 16, true, {&th_kernels_f32_avx2, &th_kernels_f64_avx2}},
    [AVX512] = {"avx512", 64, 32, true, {&th_kernels_f32_avx512, &th_kernels_f64_avx512}},
};
const int th_isa_count = ISAS;

/* Clang 14 has no name for F16C in __builtin_cpu_supports. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static bool has_avx512_bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

static const char *missing_avx2(void)
{
    return has_avx2() ? NULL : "TAPEHEAD_ISA is avx2, but this processor has no AVX2 with fused multiply-add and F16C";
}

static const char *missing_avx512(void)
{
    return has_avx512() ? NULL : "TAPEHEAD_ISA is avx512, but this processor has no AVX-512 (F, BW, DQ and VL)";
}

static const char *missing_avx512_bf16(void)
{
    return has_avx512_bf16() ? NULL : "TAPEHEAD_ISA is avx512_bf16, but this processor has no AVX-512 with BF16";
}

const th_isa_choice th_isa_choices[CHOICES] = {
    [BASELINE] = {"baseline", &th_isas[BASELINE], th_product_fma_f32_baseline, NULL},
    [AVX2] = {"avx2", &th_isas[AVX2], th_product_fma_f32_avx2, missing_avx2},
    [AVX512] = {"avx512", &th_isas[AVX512], th_product_fma_f32_avx512, missing_avx512},
    [AVX512_BF16] = {"avx512_bf16", &th_isas[AVX512], th_product_dpbf16_f32_avx512bf16, missing_avx512_bf16},
    [AMX] = {"amx", &th_isas[AVX512], th_product_amx_f32_amx, th_amx_missing},
};
const int th_isa_choice_count = CHOICES;

const char th_isa_choice_names[] = "TAPEHEAD_ISA must be baseline, avx2, avx512, avx512_bf16 or amx";

const th_isa_choice *th_isa_automatic(void)
{
    return &th_isa_choices[!has_avx2() ? BASELINE : !has_avx512() ? AVX2 : AVX512];
}

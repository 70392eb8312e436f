/* The instruction sets of x86-64 (isa.h). */
#include "kernels/machine/isa.h"

#include <cpuid.h>
#include <stddef.h>

#include "kernels/machine/amx.h"
#include "kernels/product_kernels.h"

/* The kernels of the instruction sets that the library was built for (TAPEHEAD_ISAS), NULL for the others. The build
 * defines TAPEHEAD_BUILT_... and TAPEHEAD_TILES. */
#ifdef TAPEHEAD_BUILT_baseline
extern const th_kernels th_kernels_f32_baseline, th_kernels_f64_baseline;
extern const th_product_kernels th_product_fma_f32_baseline[2];
#define BASELINE_KERNELS &th_kernels_f32_baseline, &th_kernels_f64_baseline
#else
#define BASELINE_KERNELS NULL, NULL
#define th_product_fma_f32_baseline NULL
#endif
#ifdef TAPEHEAD_BUILT_avx2
extern const th_kernels th_kernels_f32_avx2, th_kernels_f64_avx2;
extern const th_product_kernels th_product_fma_f32_avx2[2];
#define AVX2_KERNELS &th_kernels_f32_avx2, &th_kernels_f64_avx2
#else
#define AVX2_KERNELS NULL, NULL
#define th_product_fma_f32_avx2 NULL
#endif
#ifdef TAPEHEAD_BUILT_avx512
extern const th_kernels th_kernels_f32_avx512, th_kernels_f64_avx512;
extern const th_product_kernels th_product_fma_f32_avx512[2], th_product_dpbf16_f32_avx512bf16[2];
#define AVX512_KERNELS &th_kernels_f32_avx512, &th_kernels_f64_avx512
#else
#define AVX512_KERNELS NULL, NULL
#define th_product_fma_f32_avx512 NULL
#define th_product_dpbf16_f32_avx512bf16 NULL
#endif
#ifdef TAPEHEAD_TILES
extern const th_product_kernels th_product_amx_f32_amx[2];
#else
#define th_product_amx_f32_amx NULL
#endif

enum { BASELINE, AVX2, AVX512, ISAS };
enum { AVX512_BF16 = ISAS, AMX, CHOICES };

const th_isa th_isas[ISAS] = {
    [BASELINE] = {"baseline", 16, 16, false, {BASELINE_KERNELS}},
    [AVX2] = {"avx2", 32, 16, true, {AVX2_KERNELS}},
    [AVX512] = {"avx512", 64, 32, true, {AVX512_KERNELS}},
};
const int th_isa_count = ISAS;

/* -- what the processor has and the system saves, from the instruction cpuid. (In programs that zig links,
 * __builtin_cpu_supports finds nothing.) -- */

enum {
    LEAF_1_ECX = 1 << 12 | 1 << 29, /* FMA, F16C */
    LEAF_1_ECX_OSXSAVE = 1 << 27,
    LEAF_7_EBX_AVX2 = 1 << 5,
    LEAF_7_1_EAX_AVX512_BF16 = 1 << 5,
    XCR0_YMM = 6,
    XCR0_ZMM = 0xe6
};
static const unsigned leaf_7_ebx_avx512 = 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31; /* F, DQ, BW, VL */

/* Returns whether the system saves these registers of a thread. */
static bool is_saved(unsigned registers)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & LEAF_1_ECX_OSXSAVE))
        return false;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (a & registers) == registers;
}

static bool has_avx2(void)
{
    unsigned a, b, c, d;
    return is_saved(XCR0_YMM) && __get_cpuid(1, &a, &b, &c, &d) && (c & LEAF_1_ECX) == LEAF_1_ECX &&
           __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & LEAF_7_EBX_AVX2);
}

static bool has_avx512(void)
{
    unsigned a, b, c, d;
    return has_avx2() && is_saved(XCR0_ZMM) && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (b & leaf_7_ebx_avx512) == leaf_7_ebx_avx512;
}

static bool has_avx512_bf16(void)
{
    unsigned a, b, c, d;
    return has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & LEAF_7_1_EAX_AVX512_BF16);
}

static bool is_built(int isa)
{
    return th_isas[isa].kernels[0] != NULL;
}

#define NOT_BUILT(choice, isa)                                                                                         \
    "TAPEHEAD_ISA is " choice ", but this library was built without " isa " (TAPEHEAD_ISAS of its build)"

static const char *why_not_baseline(void)
{
    return is_built(BASELINE) ? NULL : NOT_BUILT("baseline", "baseline");
}

static const char *why_not_avx2(void)
{
    return !has_avx2()      ? "TAPEHEAD_ISA is avx2, but this processor has no AVX2 with fused multiply-add and F16C"
           : is_built(AVX2) ? NULL
                            : NOT_BUILT("avx2", "avx2");
}

static const char *why_not_avx512(void)
{
    return !has_avx512()      ? "TAPEHEAD_ISA is avx512, but this processor has no AVX-512 (F, BW, DQ and VL)"
           : is_built(AVX512) ? NULL
                              : NOT_BUILT("avx512", "avx512");
}

static const char *why_not_avx512_bf16(void)
{
    return !has_avx512_bf16() ? "TAPEHEAD_ISA is avx512_bf16, but this processor has no AVX-512 with BF16"
           : is_built(AVX512) ? NULL
                              : NOT_BUILT("avx512_bf16", "avx512");
}

static const char *why_not_amx(void)
{
    return is_built(AVX512) ? th_why_not_amx() : NOT_BUILT("amx", "avx512");
}

const th_isa_choice th_isa_choices[CHOICES] = {
    [BASELINE] = {"baseline", &th_isas[BASELINE], th_product_fma_f32_baseline, why_not_baseline},
    [AVX2] = {"avx2", &th_isas[AVX2], th_product_fma_f32_avx2, why_not_avx2},
    [AVX512] = {"avx512", &th_isas[AVX512], th_product_fma_f32_avx512, why_not_avx512},
    [AVX512_BF16] = {"avx512_bf16", &th_isas[AVX512], th_product_dpbf16_f32_avx512bf16, why_not_avx512_bf16},
    [AMX] = {"amx", &th_isas[AVX512], th_product_amx_f32_amx, why_not_amx},
};
const int th_isa_choice_count = CHOICES;

const char th_isa_choice_names[] = "TAPEHEAD_ISA must be baseline, avx2, avx512, avx512_bf16 or amx";

const th_isa_choice *th_isa_automatic(void)
{
    if (is_built(AVX512) && has_avx512())
        return &th_isa_choices[AVX512];
    if (is_built(AVX2) && has_avx2())
        return &th_isa_choices[AVX2];
    return is_built(BASELINE) ? &th_isa_choices[BASELINE] : NULL;
}

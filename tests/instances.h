/* All tables of kernels, one for each element type and instruction set, for tests that compare them. */
#ifndef TESTS_INSTANCES_H
#define TESTS_INSTANCES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/machine/machine.h"
#include "kernels/products/product_block.h"
#include "tile_interpreter.h"

extern const th_kernels th_kernels_f32_baseline, th_kernels_f32_avx2, th_kernels_f32_avx512;
extern const th_product_kernels th_product_fma_f32_baseline[2], th_product_fma_f32_avx2[2],
    th_product_fma_f32_avx512[2], th_product_dpbf16_f32_avx512bf16[2], th_product_amx_f32_amx[2];
extern const th_kernels th_kernels_f64_baseline, th_kernels_f64_avx2, th_kernels_f64_avx512;

/* The instruction sets with a table of all kernels; then those that only have products of bfloat16 parts, beside
 * AVX-512. */
enum { BASELINE, AVX2, AVX512, ISAS, AVX512_BF16 = ISAS, AMX, PRODUCT_PATHS };
static const th_kernels *const f32[ISAS] = {&th_kernels_f32_baseline, &th_kernels_f32_avx2, &th_kernels_f32_avx512};
static const th_kernels *const f64[ISAS] = {&th_kernels_f64_baseline, &th_kernels_f64_avx2, &th_kernels_f64_avx512};

static const th_product_kernels *const part_products[PRODUCT_PATHS] = {
    th_product_fma_f32_baseline, th_product_fma_f32_avx2, th_product_fma_f32_avx512, th_product_dpbf16_f32_avx512bf16,
#ifdef TAPEHEAD_TILES
    th_product_amx_f32_amx,
#endif
};
static const char *const product_path_names[] = {"baseline", "AVX2 with fused multiply-add", "AVX-512",
                                                 "AVX-512 with BF16", "AMX"};

/* Whether this processor has the instruction set. AMX, which few processors have, is interpreted. */
static inline bool supported(int isa)
{
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const bool bf16 = avx512 && __builtin_cpu_supports("avx512bf16");
    const bool has[PRODUCT_PATHS] = {true, avx2, avx512, bf16, bf16 && part_products[AMX]};
    return has[isa] && (isa != AMX || tiles_start());
}

/* A machine with this instruction set. */
static inline th_machine machine_of(int isa, int threads)
{
    const int kernels = isa < ISAS ? isa : AVX512;
    return (th_machine){.isa = (th_isa)kernels,
                        .gemm = isa == BASELINE ? TH_GEMM_OPENBLAS : TH_GEMM_NATIVE,
                        .threads = threads,
                        .kernels = {f32[kernels], f64[kernels]},
                        .products = part_products[isa]};
}

/* The name of an elementwise kernel, and its offset in the table. */
#define ENTRY(name) #name, offsetof(th_kernels, name)

static inline th_elementwise_kernel *kernel_at(const th_kernels *kernels, size_t entry)
{
    th_elementwise_kernel *map;
    memcpy(&map, (const char *)kernels + entry, sizeof map);
    return map;
}

/* Equal, including the signs of zeros; any NaN equals any other. */
static inline bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

#endif

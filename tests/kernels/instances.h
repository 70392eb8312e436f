/* All tables of kernels, one for each element type and instruction set, for tests that compare them. */
#ifndef TESTS_INSTANCES_H
#define TESTS_INSTANCES_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/machine/machine.h"
#include "kernels/product_block.h"

/* The instruction sets (th_isas), then further ways to multiply bfloat16 parts (th_isa_choices). From FUSED on, all have
 * fused multiply-add and give the same bits. */
#ifdef __x86_64__
#include "tile_interpreter.h"

enum { BASELINE, AVX2, AVX512, ISAS, AVX512_BF16 = ISAS, AMX, PRODUCT_PATHS, FUSED = AVX2 };
#define MAY_LACK extern const __attribute__((weak)) /* its address is NULL if TAPEHEAD_ISAS leaves it out */
MAY_LACK th_kernels th_kernels_f32_baseline, th_kernels_f32_avx2, th_kernels_f32_avx512;
MAY_LACK th_kernels th_kernels_f64_baseline, th_kernels_f64_avx2, th_kernels_f64_avx512;
static const th_kernels *const f32[ISAS] = {&th_kernels_f32_baseline, &th_kernels_f32_avx2, &th_kernels_f32_avx512};
static const th_kernels *const f64[ISAS] = {&th_kernels_f64_baseline, &th_kernels_f64_avx2, &th_kernels_f64_avx512};
#elif defined __wasm__
enum { SIMD128, ISAS, PRODUCT_PATHS = ISAS, FUSED = ISAS /* none */, AMX = PRODUCT_PATHS /* none */ };
extern const th_kernels th_kernels_f32_simd128, th_kernels_f64_simd128;
static const th_kernels *const f32[ISAS] = {&th_kernels_f32_simd128};
static const th_kernels *const f64[ISAS] = {&th_kernels_f64_simd128};
#elif defined __riscv || defined __powerpc64__
enum { GENERIC, ISAS, PRODUCT_PATHS = ISAS, FUSED = GENERIC, AMX = PRODUCT_PATHS /* none */ };
extern const th_kernels th_kernels_f32_generic, th_kernels_f64_generic;
static const th_kernels *const f32[ISAS] = {&th_kernels_f32_generic};
static const th_kernels *const f64[ISAS] = {&th_kernels_f64_generic};
#else
enum { NEON, ISAS, PRODUCT_PATHS = ISAS, FUSED = NEON, AMX = PRODUCT_PATHS /* none */ };
extern const th_kernels th_kernels_f32_neon, th_kernels_f64_neon;
static const th_kernels *const f32[ISAS] = {&th_kernels_f32_neon};
static const th_kernels *const f64[ISAS] = {&th_kernels_f64_neon};
#endif

/* Whether this processor has the instructions of a choice. AMX, which few processors have, is interpreted. */
static inline bool supported(int choice)
{
#ifdef __x86_64__
    if (choice == AMX)
        return th_isa_choices[AMX].products && !th_isa_choices[AVX512_BF16].why_not() && tiles_start();
#endif
    return choice < PRODUCT_PATHS && (!th_isa_choices[choice].why_not || !th_isa_choices[choice].why_not());
}

/* A machine with this choice. */
static inline th_machine machine_of(int choice, int threads)
{
    const th_isa_choice *c = &th_isa_choices[choice];
    return (th_machine){.isa = c->isa,
                        .gemm = c->isa->fused ? TH_GEMM_NATIVE : TH_GEMM_OPENBLAS,
                        .threads = threads,
                        .products = c->products};
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

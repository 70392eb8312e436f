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
extern const th_kernels th_kernels_f64_baseline, th_kernels_f64_avx2, th_kernels_f64_avx512;

/* Indices of th_isas, and of th_isa_choices (kernels/machine/isa.h). */
enum { BASELINE, AVX2, AVX512, ISAS, AVX512_BF16 = ISAS, AMX, PRODUCT_PATHS };
static const th_kernels *const f32[ISAS] = {&th_kernels_f32_baseline, &th_kernels_f32_avx2, &th_kernels_f32_avx512};
static const th_kernels *const f64[ISAS] = {&th_kernels_f64_baseline, &th_kernels_f64_avx2, &th_kernels_f64_avx512};

static const char *const product_path_names[] = {"baseline", "AVX2 with fused multiply-add", "AVX-512",
                                                 "AVX-512 with BF16", "AMX"};

/* Whether this processor has the instructions of a choice. AMX, which few processors have, is interpreted. */
static inline bool supported(int choice)
{
    const th_isa_choice *c = &th_isa_choices[choice == AMX ? AVX512_BF16 : choice];
    return (!c->missing || !c->missing()) && (choice != AMX || (th_isa_choices[AMX].products && tiles_start()));
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

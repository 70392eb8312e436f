/* The instruction set of x86 with 32 bits (isa.h): SSE2, with the bits of x86-64 with TAPEHEAD_ISA=baseline and
 * TAPEHEAD_GEMM=native. */
#include "kernels/machine/isa.h"

#include <stddef.h>

#include "kernels/product_kernels.h"

extern const th_kernels th_kernels_f32_baseline, th_kernels_f64_baseline;
extern const th_product_kernels th_product_fma_f32_baseline[2];

const th_isa th_isas[] = {{"baseline", 16, 16, false, {&th_kernels_f32_baseline, &th_kernels_f64_baseline}}};
const int th_isa_count = 1;

const th_isa_choice th_isa_choices[] = {{"baseline", &th_isas[0], th_product_fma_f32_baseline, NULL}};
const int th_isa_choice_count = 1;

const char th_isa_choice_names[] = "TAPEHEAD_ISA must be baseline";

const th_isa_choice *th_isa_automatic(void)
{
    return &th_isa_choices[0];
}

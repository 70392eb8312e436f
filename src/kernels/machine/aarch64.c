/* The instruction set of AArch64 (isa.h). Every processor that runs Linux has NEON, with fused multiply-add. */
#include "kernels/machine/isa.h"

#include <stddef.h>

#include "kernels/product_kernels.h"

extern const th_kernels th_kernels_f32_neon, th_kernels_f64_neon;
extern const th_product_kernels th_product_fma_f32_neon[2];

const th_isa th_isas[] = {{"neon", 16, 32, true, {&th_kernels_f32_neon, &th_kernels_f64_neon}}};
const int th_isa_count = 1;

const th_isa_choice th_isa_choices[] = {{"neon", &th_isas[0], th_product_fma_f32_neon, NULL}};
const int th_isa_choice_count = 1;

const char th_isa_choice_names[] = "TAPEHEAD_ISA must be neon";

const th_isa_choice *th_isa_automatic(void)
{
    return &th_isa_choices[0];
}

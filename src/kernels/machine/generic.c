/* The instruction set of riscv64 and ppc64le (isa.h): plain C. Every processor with double precision (D of RISC-V, VSX of POWER8)
 * has fused multiply-add. */
#include "kernels/machine/isa.h"

#include <stddef.h>

#include "kernels/product_kernels.h"

extern const th_kernels th_kernels_f32_generic, th_kernels_f64_generic;
extern const th_product_kernels th_product_fma_f32_generic[2];

const th_isa th_isas[] = {{"generic", 16, 16, true, {&th_kernels_f32_generic, &th_kernels_f64_generic}}};
const int th_isa_count = 1;

const th_isa_choice th_isa_choices[] = {{"generic", &th_isas[0], th_product_fma_f32_generic, NULL}};
const int th_isa_choice_count = 1;

const char th_isa_choice_names[] = "TAPEHEAD_ISA must be generic";

const th_isa_choice *th_isa_automatic(void)
{
    return &th_isa_choices[0];
}

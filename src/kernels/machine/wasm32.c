/* WebAssembly with 32-bit addresses, in a browser or in node: the instruction set (isa.h), one thread, one processor,
 * and no libraries to load.
 *
 * WebAssembly has no FMA instruction, and its vectors have 16 bytes. So all results equal, bit for bit, the results on
 * x86-64 with TAPEHEAD_ISA=baseline and TAPEHEAD_GEMM=native. */
#include "kernels/machine/isa.h"

#include <stddef.h>

#include "kernels/machine/openblas.h"
#include "kernels/machine/processors.h"
#include "kernels/machine/team.h"
#include "kernels/product_kernels.h"

extern const th_kernels th_kernels_f32_simd128, th_kernels_f64_simd128;
extern const th_product_kernels th_product_fma_f32_simd128[2];

const th_isa th_isas[] = {{"simd128", 16, 16, false, {&th_kernels_f32_simd128, &th_kernels_f64_simd128}}};
const int th_isa_count = 1;

const th_isa_choice th_isa_choices[] = {{"simd128", &th_isas[0], th_product_fma_f32_simd128, NULL}};
const int th_isa_choice_count = 1;

const char th_isa_choice_names[] = "TAPEHEAD_ISA must be simd128";

const th_isa_choice *th_isa_automatic(void)
{
    return &th_isa_choices[0];
}

/* -- one thread (team.h, processors.h) -- */

void th_team_run(int threads, th_job *job, void *shared)
{
    (void)threads;
    job(shared, 0);
}

int th_team_threads(int threads)
{
    (void)threads;
    return 1;
}

int th_processors(void)
{
    return 1;
}

int th_processors_default_team(void)
{
    return 1;
}

int th_processors_of_process(void)
{
    return 1;
}

/* -- no OpenBLAS (openblas.h) -- */

const th_openblas_functions *th_openblas(void)
{
    return NULL;
}

th_openblas_threads th_openblas_begin(void)
{
    return (th_openblas_threads){{0}};
}

void th_openblas_end(const th_openblas_threads *before)
{
    (void)before;
}

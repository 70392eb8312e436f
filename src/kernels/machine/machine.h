/* The machine: instruction set, product backend and number of threads. It is read once from the processor and the
 * environment (TAPEHEAD_ISA, TAPEHEAD_GEMM). Later only a change of precision changes it. */
#ifndef TH_KERNELS_MACHINE_MACHINE_H
#define TH_KERNELS_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/machine/isa.h"
#include "tapehead/base.h" /* th_dtype */

typedef enum th_gemm { TH_GEMM_NATIVE, TH_GEMM_OPENBLAS } th_gemm;

typedef struct th_machine {
    const th_isa *isa;
    th_gemm gemm;
    int threads;                               /* of the team, unless the context sets another number (processors.h) */
    const struct th_product_kernels *products; /* of bfloat16 parts: [0] one, [1] two parts of each operand */
    bool automatic;                            /* TAPEHEAD_ISA is not set */
    th_precision precision;                    /* of products of float32 numbers */
} th_machine;

/* Fills *machine, with precision float32. Returns NULL, or a static sentence about a wrong request or a missing
 * feature: th_isa_choice_names, "this processor has no AVX-512", "OpenBLAS not found". In that case *machine is filled
 * as without the request. th_machine_possible must be true. */
const char *th_machine_detect(th_machine *machine);

/* Returns whether the library was built for an instruction set that this processor has. Otherwise nothing can be
 * computed, and th_context_new returns NULL. */
bool th_machine_possible(void);

/* The values that th_machine_set_precision accepts. TAPEHEAD_NO_PRECISIONS is a macro of the two files
 * (docs/two-files.md). */
#ifdef TAPEHEAD_NO_PRECISIONS
#define TH_PRECISIONS "float32, because TAPEHEAD_NO_PRECISIONS left out the others"
#else
#define TH_PRECISIONS "float32, bfloat16x3, bfloat16 or int8"
#endif

/* Sets the precision; returns false for an invalid value. If TAPEHEAD_ISA is not set, a precision of bfloat16
 * parts selects the fastest products (paths.h). */
bool th_machine_set_precision(th_machine *machine, th_precision precision);

/* Writes "isa=avx512 gemm=native threads=2" into text. If OpenBLAS is used, " openblas=0.3.21 (Zen)" follows. In a
 * reduced precision, " precision=bfloat16x3 products=fma" (or avx512_bf16, or amx) follows. isa is the instruction set
 * of the vector kernels. Returns the result of snprintf. */
int th_machine_describe(const th_machine *machine, char *text, size_t size);

static inline const struct th_kernels *th_kernels_for(const th_machine *machine, th_dtype dtype)
{
    return machine->isa->kernels[dtype == TH_FLOAT64];
}

#endif

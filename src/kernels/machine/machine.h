/* The machine: instruction set, product backend and number of threads. It is read once from the processor and the
 * environment (TAPEHEAD_ISA, TAPEHEAD_GEMM). Later only a change of precision changes it. */
#ifndef TH_KERNELS_MACHINE_MACHINE_H
#define TH_KERNELS_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include "tapehead/base.h" /* th_dtype */

typedef enum th_isa { TH_ISA_BASELINE, TH_ISA_AVX2, TH_ISA_AVX512 } th_isa;
typedef enum th_gemm { TH_GEMM_NATIVE, TH_GEMM_OPENBLAS } th_gemm;

struct th_kernels;
struct th_product_kernels; /* product_kernels.h */

typedef struct th_machine {
    th_isa isa;
    th_gemm gemm;
    int threads;                               /* of the team, unless the context sets another number (processors.h) */
    const struct th_kernels *kernels[2];       /* [0] float32, [1] float64, of this instruction set */
    const struct th_product_kernels *products; /* of bfloat16 parts: [0] one, [1] two parts of each operand */
    bool may_use_amx;       /* TAPEHEAD_ISA is not set: the first reduced precision selects AMX, if it is available */
    th_precision precision; /* of products of float32 numbers */
} th_machine;

/* Fills *machine, with precision float32. Returns NULL, or a static sentence about a wrong request or a missing
 * feature: "TAPEHEAD_ISA must be baseline, avx2, avx512, avx512_bf16 or amx", "this processor has no AVX-512",
 * "OpenBLAS not found". In that case *machine is filled as without the request. */
const char *th_machine_detect(th_machine *machine);

/* Sets the precision; returns false for an invalid value. The first reduced precision selects AMX if TAPEHEAD_ISA is
 * not set and the process may use it. */
bool th_machine_set_precision(th_machine *machine, th_precision precision);

/* Writes "isa=avx512 gemm=native threads=2" into text. If OpenBLAS is used, " openblas=0.3.21 (Zen)" follows. In a
 * reduced precision, " precision=bfloat16x3 products=fma" (or avx512_bf16, or amx) follows. isa is the instruction set
 * of the vector kernels: baseline, avx2 or avx512. Returns the result of snprintf. */
int th_machine_describe(const th_machine *machine, char *text, size_t size);

static inline const struct th_kernels *th_kernels_for(const th_machine *machine, th_dtype dtype)
{
    return machine->kernels[dtype == TH_FLOAT64];
}

/* Bytes of a vector register of the instruction set. */
static inline int th_vector_bytes(const th_machine *machine)
{
    return 16 << machine->isa;
}

#endif

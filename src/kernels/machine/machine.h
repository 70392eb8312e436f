/* What computes: the instruction set, the product backend and the number of threads.
 * Read once from the processor and the environment (TAPEHEAD_ISA, TAPEHEAD_GEMM); plain data afterwards, which only a
 * change of the precision changes. */
#ifndef TH_KERNELS_MACHINE_MACHINE_H
#define TH_KERNELS_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include "tapehead/base.h" /* th_dtype */

typedef enum th_isa { TH_ISA_BASELINE, TH_ISA_AVX2, TH_ISA_AVX512 } th_isa;
typedef enum th_gemm { TH_GEMM_NATIVE, TH_GEMM_OPENBLAS } th_gemm;

struct th_kernels;
struct th_product_kernels; /* product_block.h */

typedef struct th_machine {
    th_isa isa;
    th_gemm gemm;
    int threads;                               /* the team a context uses unless it asks for another (processors.h) */
    const struct th_kernels *kernels[2];       /* [0] float32, [1] float64, of this instruction set */
    const struct th_product_kernels *products; /* of bfloat16 terms: [0] one, [1] two of each operand */
    bool may_use_tiles;     /* TAPEHEAD_ISA left the choice: with the first reduced precision products are those of
                               tiles, where there are any */
    th_precision precision; /* of products of float32 numbers */
} th_machine;

/* Fills *machine, with precision float32. Returns NULL, or a static sentence saying what the environment or the machine
 * lacks ("TAPEHEAD_ISA must be baseline, avx2, avx512, avx512_bf16 or amx", "this processor has no AVX-512",
 * "OpenBLAS not found"); the machine is then what it would be without that wish. */
const char *th_machine_detect(th_machine *machine);

/* Returns false for a value that is no precision. The first one that is not float32 makes products those of tiles,
 * where TAPEHEAD_ISA did not choose and the process may use them. */
bool th_machine_set_precision(th_machine *machine, th_precision precision);

/* "isa=avx512 gemm=native threads=2" into text; then, where they are used, " openblas=0.3.21 (Zen)" and
 * " precision=bfloat16x3 products=fma" (or avx512_bf16, or amx). isa is that of the vectors: baseline, avx2 or avx512.
 * Returns what snprintf returns. */
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

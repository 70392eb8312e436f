/* The instruction sets of the architecture, and the values of TAPEHEAD_ISA. x86_64.c, i386.c, aarch64.c,
 * generic.c and wasm32.c define the following tables and functions. The build compiles one of these files. */
#ifndef TH_KERNELS_MACHINE_ISA_H
#define TH_KERNELS_MACHINE_ISA_H

#include <stdbool.h>

struct th_kernels;         /* kernels.h */
struct th_product_kernels; /* product_kernels.h */

/* An instruction set for which all vector kernels are compiled. */
typedef struct th_isa {
    const char *name;
    int vector_bytes;                    /* of a vector register */
    int registers;                       /* vector registers of the processor */
    bool fused;                          /* has fused multiply-add */
    const struct th_kernels *kernels[2]; /* [0] float32, [1] float64; NULL if the library was built without it */
} th_isa;

/* A value of TAPEHEAD_ISA: an instruction set, and a way to multiply bfloat16 parts. */
typedef struct th_isa_choice {
    const char *name;
    const th_isa *isa;
    const struct th_product_kernels *products; /* [0] one, [1] two parts of each operand */
    /* Returns NULL if this process can use the choice, otherwise a static sentence: "TAPEHEAD_ISA is avx2, but this
     * processor ...", or "..., but this library was built without ...". It may ask the operating system for permission.
     * NULL: every process can. */
    const char *(*why_not)(void);
} th_isa_choice;

/* In ascending order. Every processor of the architecture has the first instruction set. The library may have been
 * built without some of them. */
extern const th_isa th_isas[];
extern const int th_isa_count;

extern const th_isa_choice th_isa_choices[];
extern const int th_isa_choice_count;

/* Lists the names of all choices: "TAPEHEAD_ISA must be baseline, avx2 or ...". */
extern const char th_isa_choice_names[];

/* Returns the choice without TAPEHEAD_ISA, the best one for which the library was built. Returns NULL if this processor
 * supports no instruction set of the build. When a context first sets a precision of bfloat16 parts, th_path_automatic
 * (paths.h) replaces its products. */
const th_isa_choice *th_isa_automatic(void);

#endif

/* The table of vector kernels: one per element type and instruction set, all with the same entries: the functions that
 * are defined as `void TH_KERNEL(name)(...)`, `ELEMENTWISE_KERNEL(name, ...)` or `ELEMENTWISE_LOOP(name, ...)` in src/kernels/vector,
 * from which the build makes kernels.def. Operations never branch on an element type or an instruction set: they call
 * th_kernels_for(machine, dtype)->name(...). */
#ifndef TH_KERNELS_KERNELS_H
#define TH_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What kernels work on, besides arrays; each is described in the header named. */
typedef struct th_philox th_philox; /* philox.h */
typedef struct th_dropout_mask th_dropout_mask;
typedef struct th_adam_update th_adam_update; /* optimizer_kernels.h */
typedef struct th_sgd_update th_sgd_update;
typedef struct th_product_block th_product_block;   /* product_block.h */
typedef struct th_attention_rows th_attention_rows; /* attention_rows.h */
typedef struct th_rows_block th_rows_block;         /* rows.h */
typedef struct th_key_range th_key_range;           /* visible.h */
typedef struct th_visible_row th_visible_row;

/* A map works on n elements of contiguous operands; operands[0] is the destination, which may be the same memory as
 * another operand but not overlap it otherwise. parameters are its numbers, doubles, or what the
 * comment above it says. A map always overwrites. */
typedef void th_elementwise_kernel(int64_t n, void *const *operands, const void *parameters);

typedef struct th_kernels {
#define KERNEL(name, ...) void (*name)(__VA_ARGS__);
#include "kernels.def"
#undef KERNEL
} th_kernels;

/* 0, and does not compile when the condition does not hold: for constant expressions. */
#define TH_HOLDS(condition, sentence)                                                                                  \
    (0 * sizeof(struct {                                                                                               \
         _Static_assert(condition, sentence);                                                                          \
         char c;                                                                                                       \
     }))

/* Where in a th_kernels, whichever one, the kernel of that name and type stands. */
#define TH_KERNEL_OFFSET(name, type, otherwise)                                                                        \
    (offsetof(th_kernels, name) + TH_HOLDS(_Generic(((th_kernels *)0)->name, type * : 1, default : 0), otherwise))

/* A zero of the floating type with elements of so many bytes, for kernels that spread one number. */
static inline const void *th_zero(int64_t element)
{
    static const float single = 0;
    static const double full = 0;
    return element == (int64_t)sizeof full ? (const void *)&full : &single;
}

#endif

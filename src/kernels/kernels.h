/* The table of vector kernels: one for each element type and instruction set. Operations never branch on an element
 * type or an instruction set: they call th_kernels_for(machine, dtype)->name(...).
 *
 * The build makes the list of entries, kernels.def, from the functions in vector/ folders that are defined as `void
 * TH_KERNEL(name)(...)`, `ELEMENTWISE_KERNEL(name, ...)` or `ELEMENTWISE_LOOP(name, ...)`. */
#ifndef TH_KERNELS_KERNELS_H
#define TH_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Types of kernel arguments, with the headers that define them. */
typedef struct th_philox th_philox; /* philox.h */
typedef struct th_dropout_mask th_dropout_mask;
typedef struct th_adam_update th_adam_update; /* optimizer_kernels.h */
typedef struct th_sgd_update th_sgd_update;
typedef struct th_muon_update th_muon_update;
typedef struct th_product_block th_product_block; /* product_block.h */
typedef struct th_int8_block th_int8_block;       /* product_int8.h */
typedef struct th_int8_wide th_int8_wide;
typedef struct th_int8_product th_int8_product;
typedef struct th_attention_rows th_attention_rows; /* attention_rows.h */
typedef struct th_rows_block th_rows_block;         /* rows.h */
typedef struct th_key_range th_key_range;           /* visible.h */
typedef struct th_visible_row th_visible_row;

/* An elementwise kernel: n elements of contiguous operands. operands[0] is the destination, which the kernel always
 * overwrites. It may be the same memory as another operand, but must not overlap it otherwise. `parameters` points to
 * doubles, or to what the comment above the kernel says. */
typedef void th_elementwise_kernel(int64_t n, void *const *operands, const void *parameters);

typedef struct th_kernels {
#define KERNEL(name, ...) void (*name)(__VA_ARGS__);
#include "kernels.def"
#undef KERNEL
} th_kernels;

/* Points to a zero of the floating type with `element` bytes, for kernels that broadcast one number. */
static inline const void *th_zero(int64_t element)
{
    static const float single = 0;
    static const double full = 0;
    return element == (int64_t)sizeof full ? (const void *)&full : &single;
}

#endif

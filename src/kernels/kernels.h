/* The table of vector kernels: one per element type and instruction set, all with the same entries (kernels.def).
 * Operations never branch on an element type or an instruction set: they call th_kernels_for(machine,
 * dtype)->name(...). */
#ifndef TH_KERNELS_KERNELS_H
#define TH_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

struct th_philox; /* philox.h */
struct th_dropout_mask;
struct th_adam_update; /* optimizer_kernels.h */
struct th_sgd_update;
struct th_product_block;  /* product_block.h */
struct th_attention_rows; /* attention_rows.h */

/* A map works on n elements of contiguous operands; operands[0] is the destination, which may be the same memory as
 * another operand but not overlap it otherwise. parameters is a kernel's own struct, or NULL. A map always overwrites.
 */
typedef void th_map_kernel(int64_t n, void *const *operands, const void *parameters);

typedef struct th_kernels {
#define MAP(name) th_map_kernel *name;
#define KERNEL(name, ...) void (*name)(__VA_ARGS__);
#include "kernels/kernels.def"
#undef MAP
#undef KERNEL
} th_kernels;

/* A zero of the floating type with elements of so many bytes, for kernels that spread one number. */
static inline const void *th_zero(int64_t element)
{
    static const float single = 0;
    static const double full = 0;
    return element == (int64_t)sizeof full ? (const void *)&full : &single;
}

#endif

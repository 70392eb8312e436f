/* How a product of our own is run: how C is cut into tasks, which operands are packed, by whom, and where they lie
 * then. None of these choices can change a bit of the result: every element is the same sequence of operations in all
 * of them.
 *
 * A task computes one block of C over all of k, or over one slab of it. It packs its own rows of A, or finds them
 * packed by the team where several tasks share them. B is taken
 *  - in place, where its rows are contiguous and it is small enough to stay in a cache;
 *  - in place, transposed in registers, where C has very few rows;
 *  - by the task, a few panels at a time, where only one block of rows needs them;
 *  - otherwise from a slab that the team has packed together before. */
#ifndef TH_KERNELS_PRODUCT_PLAN_H
#define TH_KERNELS_PRODUCT_PLAN_H

#include "kernels/product_block.h"
#include "kernels/product_item.h"

typedef struct product_plan {
    const th_kernels *kernels;
    th_product_kernels multiply;
    th_product item;
    int64_t size; /* bytes of an element */
    int vector_bytes;
    int64_t tile_columns;
    bool rounded; /* to bfloat16, in packing: nothing is taken in place */
    bool pack_a, a_slab, b_in_place, b_few_rows, b_slab, c_buffer;
    int64_t row_block, column_block;  /* of a task */
    int64_t own_columns;              /* of B, packed by a task at a time */
    int64_t slab_columns, slab_depth; /* what of C's columns and of k is worked on between two packings */
    size_t panel_bytes;               /* from one packed panel of B to the next, for TH_PRODUCT_BLOCK steps of k */
    size_t slab_bytes, a_slab_bytes;
    size_t a_bytes, b_bytes, c_bytes; /* of a task: one block of A (in the slab or its own), panels of B, buffered C */
    size_t worker_bytes;
} product_plan;

product_plan th_product_plan(const th_machine *machine, th_dtype dtype, const th_product *item, int threads);

/* Elements that `steps` steps of k take in a packed panel, for each row of A or column of B. */
static inline int64_t product_plan_steps(const product_plan *p, int64_t steps)
{
    return th_item_parts(steps, p->multiply.steps);
}

static inline int64_t product_plan_row_blocks(const product_plan *p)
{
    return th_item_parts(p->item.m, p->row_block);
}

#endif

/* The plan of one product by our own micro-kernel: blocks of C, packing, and memory. product_plan.c makes it,
 * product_native.c runs it. */
#ifndef TH_KERNELS_PRODUCTS_PRODUCT_PLAN_H
#define TH_KERNELS_PRODUCTS_PRODUCT_PLAN_H

#include "kernels/dtype.h"
#include "kernels/product_block.h"
#include "kernels/products/product.h"
#include "kernels/sizes.h"

/* How a task reads B. */
typedef enum th_b_source {
    TH_B_IN_PLACE,    /* its rows are contiguous */
    TH_B_STREAM,      /* in place, over all steps: its columns are contiguous, and C has one to three rows */
    TH_B_FEW_ROWS,    /* in place, or from loaded columns, for few rows of C */
    TH_B_TASK_PANELS, /* from panels that the task packs, a few at a time */
    TH_B_TEAM_PANELS  /* from panels that the team packs for all tasks */
} th_b_source;

/* Behind the rows of A that a worker has packed: which rows these are. Consecutive tasks with the same rows pack them
 * once. */
enum { TH_PACKED_ROWS_BYTES = 64 };

typedef struct th_product_plan {
    const th_kernels *kernels;
    th_product_kernels multiply;
    th_product product;
    int64_t size;   /* bytes of an element */
    bool has_parts; /* operands are split into bfloat16 parts when packed, or with TH_B_FEW_ROWS when B is read */
    th_b_source b_source;
    bool packs_a;
    bool a_shared;                    /* the team packs A for all tasks */
    bool buffers_c;                   /* a task writes C through a buffer */
    int64_t row_block, column_block;  /* of a task */
    int64_t task_pack_columns;        /* of B that a task packs at a time */
    int64_t team_pack_columns;        /* of B that a task packs for the team */
    int64_t pass_columns, pass_steps; /* of C, and of k, in one pass */
    int64_t block_steps;  /* of k that one call of a kernel multiplies: TH_PRODUCT_BLOCK, TH_FEW_STEPS, or all */
    int64_t load_columns; /* columns of a stored B that are loaded at a time, whole panels; 0 if none is loaded */
    size_t panel_bytes;   /* from one packed panel of B to the next, for TH_PRODUCT_BLOCK steps of k */
    size_t b_shared_bytes, a_shared_bytes; /* of the operands that the team packs for a pass */
    size_t a_bytes, b_bytes, c_bytes;      /* of a task: one block of A (shared or its own), panels of B, buffered C */
    size_t load_bytes;                     /* of a task: loaded columns of a stored B */
    size_t worker_bytes;
} th_product_plan;

/* Returns the number of blocks of rows of C. */
static inline int64_t th_product_row_blocks(const th_product_plan *p)
{
    return th_ceil_div(p->product.m, p->row_block);
}

/* Returns whether kernels read the stored B directly: if the product is in float32. Other blocks than q8_0 and q4_0 must
 * be along the columns. Otherwise columns are loaded (product_storage.h). */
static inline bool th_product_packs_stored(const th_product_plan *p)
{
    const th_dtype storage = p->product.b_storage;
    return (th_can_round_to(storage) || (th_block_format_of(storage) && p->product.b_col != 1)) && !p->has_parts &&
           p->size == (int64_t)sizeof(float);
}

/* Returns the kernels that multiply in this precision. */
th_product_kernels th_product_kernels_of(const th_machine *machine, th_dtype dtype, th_precision precision);

th_product_plan th_product_plan_of(const th_machine *machine, th_dtype dtype, const th_product *product, int threads);

#endif

/* Row-wise operations along axes (softmax, reductions, norms): one forward, backward and plan for all of them. An
 * operation declares its row kernels.
 *
 * A row is a set of elements whose indices differ only in the axes `along`; its elements are in row-major order. A row
 * kernel (kernels/rows/rows.h) receives blocks of contiguous rows. Operands with contiguous rows are passed directly.
 * Strided rows are copied to scratch memory and back, several at a time.
 *
 * A th_iterator cannot do this: it visits single elements of existing memory. Kernels need contiguous rows, and the
 * scratch memory for them is planned even for calls without data (shapes_only). */
#ifndef TH_OPS_SHARED_ROWS_H
#define TH_OPS_SHARED_ROWS_H

#include <stddef.h>

#include "kernels/kernels.h"
#include "kernels/rows/rows.h"
#include "tapehead/op.h"
#include "tensor/context.h"

typedef enum th_rows_access {
    TH_ROWS_READ,
    TH_ROWS_WRITE,
    TH_ROWS_ADD /* read and written: the kernel adds to what is there */
} th_rows_access;

typedef struct th_rows {
    int ndim; /* of the shape that has these rows */
    uint32_t along;
    int64_t rows, length;       /* length: elements of one row */
    int outer_dims, inner_dims; /* axes between rows and within a row, merged where the strides allow it */
    int64_t outer[TH_MAX_DIMS], inner[TH_MAX_DIMS];
    int64_t block; /* rows in a block if some operand is copied to scratch memory */
    /* Each group of this many rows runs on one thread, in order; no block has rows of two groups. 0: no groups. */
    int64_t group;
    bool add; /* some operand is TH_ROWS_ADD */
    struct th_rows_operand {
        char *data;
        size_t element_size; /* bytes; 0: this operand is not used */
        th_rows_access access;
        bool per_row;                                   /* one or a few numbers for each row */
        bool direct;                                    /* passed without a copy */
        int64_t outer[TH_MAX_DIMS], inner[TH_MAX_DIMS]; /* strides in elements */
        size_t buffer;           /* offset of its rows in a worker's scratch memory, if not direct */
    } operand[TH_ROWS_OPERANDS]; /* by TH_ROW_X, ... (kernels/rows/rows.h) */
    size_t scratch;              /* bytes per worker */
    size_t scratch_offset;       /* from th_plan_scratch */
} th_rows;

/* -- row-wise operations -- */

/* The row kernels, from the list that the build makes of them: th_rows_id_softmax is kernel `softmax`. */
typedef enum th_rows_id {
#define ROWS(name) th_rows_id_##name,
#include "rows.def"
#undef ROWS
    TH_ROWS_KERNELS /* their number */
} th_rows_id;

/* th_op.kernel of a row-wise operation on its input x. Forward reads x and writes y. Backward reads dy, and x and y
 * if the operation saves them, and writes dx. Output 1, if there is one, has a few numbers of each row, saved for
 * backward. The axes are in the attributes (axes.h). */
typedef struct th_rows_operation {
    th_rows_id forward, backward; /* the kernels */
    /* Of one element, in units of reading and writing it once (an exp: about 8). Decides how many rows are a task for
     * the team. */
    int64_t forward_cost, backward_cost;
    bool reduces;             /* y is one number for each row; otherwise it has x's shape */
    size_t parameters_offset; /* of the kernels' parameters in the attributes; 0: they are NULL */
} th_rows_operation;

/* The fields .forward, .backward, .plan and .kernel of a descriptor: TH_ROWS(.forward = th_rows_id_softmax, ...). */
#define TH_ROWS(...) .backward = th_rows_backward, TH_ROWS_FORWARD(__VA_ARGS__)
/* The same without a gradient. */
#define TH_ROWS_FORWARD(...)                                                                                           \
    .forward = th_rows_forward, .plan = th_rows_plan, .plan_size = sizeof(th_rows),                                    \
    .kernel = &(const th_rows_operation)                                                                               \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

void th_rows_plan(const th_call *call, bool backward, void *plan);
void th_rows_forward(const th_call *call);
void th_rows_backward(const th_call *call);

/* Describes the rows of a call without reserving scratch memory. For operations that plan more than rows. */
void th_rows_of_call(th_rows *rows, const th_call *call, bool backward, uint32_t along);
/* Runs the operation's kernel on planned rows. For operations that pass other parameters to their kernels. */
void th_rows_compute(const th_rows *rows, const th_call *call, bool backward, const void *parameters);

/* -- any rows -- */

/* Starts describing rows of this shape along the axes of the bit set `along`. */
void th_rows_init(th_rows *rows, const th_array *shape, uint32_t along);
/* Sets operand TH_ROW_X, ..., an array of this shape with any strides. Does nothing if the array is NULL or not
 * given. */
void th_rows_set(th_rows *rows, int operand, const th_array *array, th_rows_access access);
/* Ends the description, after the last operand: merges axes and lays out the scratch memory. */
void th_rows_finish(th_rows *rows);

/* Returns the bytes of scratch memory for th_rows_run. */
size_t th_rows_scratch(const th_context *ctx, const th_rows *rows);

/* Runs the kernel on all rows, on several threads, in chunks of fixed size. cost: as forward_cost above. */
void th_rows_run(const th_context *ctx, const th_rows *rows, int64_t cost, void *scratch, th_rows_kernel *kernel,
                 const void *parameters);

#endif

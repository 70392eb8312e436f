/* Rows: what the operations along axes (softmax, reductions, norms) loop over. An operation declares its row kernels;
 * its forward, backward and plan are those below.
 *
 * A row is the set of elements that differ in the axes `along` only, in row-major order. A row kernel
 * (kernels/rows/rows.h) sees contiguous rows, a block of them at a time. Operands whose rows lie contiguous are handed over
 * where they are; rows that lie strided pass through scratch memory, several at once. Nothing here computes.
 *
 * Rows are not a th_iterator, which goes through single elements of memory that is there. Here the axes say what belongs
 * together, a kernel wants it contiguous, and the scratch memory for that is planned where there is no data at all
 * (shapes only). */
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
    int ndim; /* of the shape that the rows are taken from */
    uint32_t along;
    int64_t rows, length;       /* length: elements of one row */
    int outer_dims, inner_dims; /* axes between rows, axes within one; neighbors that lie alike are merged */
    int64_t outer[TH_MAX_DIMS], inner[TH_MAX_DIMS];
    int64_t block; /* rows at a time when some operand passes through scratch memory */
    int64_t group; /* so many rows go through one thread in order, and no block has rows of two groups; 0: any number */
    bool add;      /* to the operand that is TH_ROWS_ADD */
    struct th_rows_operand {
        char *data;
        size_t element; /* bytes; 0: there is no such operand */
        th_rows_access access;
        bool value;                                     /* a number or a few per row */
        bool direct;                                    /* handed over where it is */
        int64_t outer[TH_MAX_DIMS], inner[TH_MAX_DIMS]; /* strides in elements */
        size_t buffer;           /* where its rows are in a worker's scratch memory, when not direct */
    } operand[TH_ROWS_OPERANDS]; /* by TH_ROW_X, ... (kernels/rows/rows.h) */
    size_t scratch;              /* bytes per worker */
    size_t place;                /* where th_plan_scratch put them */
} th_rows;

/* -- operations on rows -- */

/* What an operation on the rows of its input x declares, as its th_op.kernel. Forward reads x and writes y;
 * backward reads x and y, where the operation saves them, and dy, and writes dx. Output 1, if there is one, is a few
 * numbers of each row that are kept for backward. The axes are those of the attributes (axes.h). */
typedef struct th_rows_operation {
    size_t forward, backward;            /* TH_ROWS_KERNEL(name) */
    int64_t forward_cost, backward_cost; /* of one element, in plain passes over it */
    bool reduces;                        /* y is one number a row; else it has x's shape */
    size_t parameters_offset;            /* of the kernels' parameters in the attributes; 0: none, they are NULL */
} th_rows_operation;

/* A kernel's entry in the table, which is another one for each element type and instruction set. */
#define TH_ROWS_KERNEL(name) TH_KERNEL_OFFSET(name, th_rows_kernel, #name " is not a row-wise kernel")

/* In the descriptor of an operation: all that makes it one on rows, TH_ROWS(.forward = TH_ROWS_KERNEL(softmax), ...). */
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

/* For an operation that has more to plan or to hand over: the rows of a call, without a place for their scratch memory;
 * and running its kernel on rows that it has planned. */
void th_rows_of_call(th_rows *rows, const th_call *call, bool backward, uint32_t along);
void th_rows_compute(const th_rows *rows, const th_call *call, bool backward, const void *parameters);

/* -- any rows -- */

/* Rows of arrays of this shape along the axes of the bit set `along`. */
void th_rows_init(th_rows *rows, const th_array *shape, uint32_t along);
/* Operand TH_ROW_X, ..., of that same shape, any strides. There is none where this is not called, or the array is NULL
 * or not given. */
void th_rows_set(th_rows *rows, int operand, const th_array *array, th_rows_access access);
/* After the last operand: merges axes and lays out the scratch memory. */
void th_rows_finish(th_rows *rows);

/* Bytes of scratch memory for th_rows_run. */
size_t th_rows_scratch(const th_context *ctx, const th_rows *rows);

/* The kernel for all rows, threaded in chunks of fixed size. cost: of one element, in plain passes over it. */
void th_rows_run(const th_context *ctx, const th_rows *rows, int64_t cost, void *scratch, th_rows_kernel *kernel,
                 const void *parameters);

#endif

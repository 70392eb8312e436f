/* Rows: what the operations along axes (softmax, norms, reductions) loop over.
 *
 * A row is the set of elements that differ in the axes `along` only, in row-major order. A row kernel sees contiguous
 * rows, a block of them at a time. Operands whose rows lie contiguous are handed over where they are; rows that lie
 * strided pass through scratch memory, several at once. Nothing here computes. */
#ifndef TH_OPS_SHARED_ROWS_H
#define TH_OPS_SHARED_ROWS_H

#include "tapehead/op.h"
#include "tensor/context.h"

enum { TH_ROWS_OPERANDS = 4 };

typedef enum th_rows_access {
    TH_ROWS_READ,
    TH_ROWS_WRITE,
    TH_ROWS_ADD /* read and written: the kernel adds to what is there */
} th_rows_access;

typedef struct th_rows {
    int ndim; /* of the shape that the rows are taken from */
    uint32_t along;
    int64_t rows, length;       /* length: elements of one row */
    int outer_dims, inner_dims; /* axes between rows, axes within one; neighbours that lie alike are merged */
    int64_t outer[TH_MAX_DIMS], inner[TH_MAX_DIMS];
    int64_t block; /* rows at a time when some operand passes through scratch memory */
    int operands;
    struct th_rows_operand {
        char *data;
        size_t element; /* bytes */
        th_rows_access access;
        bool value;                                     /* one element per row */
        bool direct;                                    /* handed over where it is */
        int64_t outer[TH_MAX_DIMS], inner[TH_MAX_DIMS]; /* strides in elements */
        size_t buffer; /* where its rows are in a worker's scratch memory, when not direct */
    } operand[TH_ROWS_OPERANDS];
    size_t scratch; /* bytes per worker */
} th_rows;

/* Rows of arrays of this shape along the axes of the bit set `along`. */
void th_rows_init(th_rows *rows, const th_array *shape, uint32_t along);
/* The next operand, of that same shape, any strides. */
void th_rows_add(th_rows *rows, const th_array *array, th_rows_access access);
/* The next operand, with one element per row: of that shape with the axes `along` left out or of size 1. Always handed
 * over where it is. */
void th_rows_add_values(th_rows *rows, const th_array *array);
/* After the last operand: merges axes and lays out the scratch memory. */
void th_rows_finish(th_rows *rows);

/* Bytes of scratch memory for th_rows_run. */
size_t th_rows_scratch(const th_context *ctx, const th_rows *rows);

/* A block of rows: operand[i] of row `first` + r starts at operand[i] + r * stride[i] elements, r < count. */
typedef struct th_rows_block {
    int64_t first, count, length;
    void *operand[TH_ROWS_OPERANDS];
    int64_t stride[TH_ROWS_OPERANDS];
} th_rows_block;
typedef void th_rows_body(void *shared, const th_rows_block *block);

/* body for all rows, threaded in chunks of fixed size. cost: of one element, in element visits. */
void th_rows_run(const th_context *ctx, const th_rows *rows, int64_t cost, void *scratch, th_rows_body *body,
                 void *shared);
/* body for the rows first .. end-1 in order, on this thread; scratch: rows->scratch bytes. */
void th_rows_range(const th_rows *rows, int64_t first, int64_t end, void *scratch, th_rows_body *body, void *shared);

#endif

/* The operands of attention's products in the workspace.
 *
 * A product reads lines, each with a number of steps: rows of its left operand, columns of its right operand
 * (product_block.h). In float32 and float64 most operands are read in place. Bfloat16 parts are packed into panels,
 * when rows are loaded or for one product. The code that multiplies does not have to distinguish these cases. */
#ifndef TH_KERNELS_ATTENTION_ATTENTION_OPERANDS_H
#define TH_KERNELS_ATTENTION_ATTENTION_OPERANDS_H

#include "kernels/attention/attention_problem.h"

/* -- workspace -- */

/* Memory that is reserved in a fixed sequence of calls. With base NULL the sequence computes the size. Repeated with
 * the workspace as base, it returns the memory. */
typedef struct attention_space {
    char *base;
    size_t used; /* SIZE_MAX: too large */
} attention_space;

void *th_attention_reserve(attention_space *space, int64_t rows, int64_t row_elements, int64_t size);
/* Returns the elements from one row to the next of a buffer with this many columns. */
int64_t th_attention_stride(int64_t columns);

/* -- operands -- */

typedef struct attention_operand {
    char *data;
    bool packed;
    int64_t panel_lines, panel_stride; /* lines of a panel, elements from one panel to the next */
    int64_t line_stride, step_stride;  /* elements, if it is not packed */
} attention_operand;

/* The address of a line and a step. If the operand is packed, they must begin a panel and a group of steps. */
static inline char *th_attention_operand_at(const attention_problem *p, const attention_operand *x, int64_t line,
                                            int64_t step)
{
    if (!x->packed)
        return x->data + (line * x->line_stride + step * x->step_stride) * p->size;
    const int64_t panels = line == 0 ? 0 : line / x->panel_lines * x->panel_stride;
    const int64_t groups = step == 0 ? 0 : th_panel_elements(&p->multiply, step) * x->panel_lines;
    return x->data + (panels + groups) * p->size;
}

/* Uses of a copy. AS_LEFT: its rows are lines of a left operand. AS_RIGHT: its rows are steps of a right operand.
 * AS_ROWS: other code reads the rows. */
enum { AS_LEFT = 1, AS_RIGHT = 2, AS_ROWS = 4 };

/* Rows loaded into the workspace: (rows, width), each filled with 0 to whole lanes. If only bfloat16 parts are needed,
 * they are split directly from the original rows. Then rows are copied only for a right operand that is not finite. */
typedef struct attention_copy {
    char *data;
    int64_t width, stride; /* elements */
    bool finite, has_rows;
    attention_operand left, right; /* the operands that it was reserved for */
} attention_copy;

attention_copy th_attention_reserve_copy(const attention_problem *p, attention_space *space, int64_t rows,
                                         int64_t width, int uses);
/* Copies rows row .. row + rows - 1 of an array to the rows of the copy from `to` on, a multiple of key_step. Writes
 * zeros if the array is not given. */
void th_attention_load(const attention_problem *p, attention_copy *copy, int64_t to, const th_attention_array *array,
                       const attention_head *head, int64_t row, int64_t rows);

/* Returns rows of an array as a right operand in place, from `row` on. Its columns are contiguous and fill whole lanes,
 * and the rows are used for visible pairs only. So they need not be finite. Not for parts. */
attention_copy th_attention_in_place(const attention_problem *p, const th_attention_array *array,
                                     const attention_head *head, int64_t row, int64_t width);

/* Reserves the right operand of scores, whose lines are rows of an array (keys, width). Always packed. */
attention_operand th_attention_reserve_keys(const attention_problem *p, attention_space *space, int64_t keys,
                                            int64_t width);
/* Packs rows row + from .. row + to - 1 as lines from .. to - 1. */
void th_attention_pack(const attention_problem *p, const attention_operand *keys, int64_t width,
                       const th_attention_array *array, const attention_head *head, int64_t row, int64_t from,
                       int64_t to);

/* Numbers of pairs, such as S, P or dP: (rows, keys), with space to pack them as a left operand. */
typedef struct attention_buffer {
    char *data, *panels;
    int64_t stride; /* elements from row to row */
} attention_buffer;

/* transposed: the keys may also be the lines of a left operand. */
attention_buffer th_attention_reserve_buffer(const attention_problem *p, attention_space *space, int64_t rows,
                                             int64_t keys, bool transposed);
/* Sets the left operand of a product (of m lines and k steps) to the buffer from element `from` on. `line` and `step`
 * are strides in elements. Overwrites an earlier packing of the buffer. */
void th_attention_set_left(const attention_problem *p, const attention_buffer *buffer, int64_t from, int64_t line,
                           int64_t step, th_product_block *product);

#endif

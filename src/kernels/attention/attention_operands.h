/* The operands of attention's products, brought to a workspace.
 *
 * A product takes lines, which are rows of its left operand or columns of its right one, of so many steps each
 * (product_block.h). In float32 and float64 it finds most of them where they are; of bfloat16 terms both operands lie
 * in panels, made when rows are brought in, or for one product. Who multiplies need not know which it is. */
#ifndef TH_KERNELS_ATTENTION_ATTENTION_OPERANDS_H
#define TH_KERNELS_ATTENTION_ATTENTION_OPERANDS_H

#include "kernels/attention/attention_problem.h"

/* -- workspace: the same sequence of calls finds out its size (with base NULL) and hands it out -- */

typedef struct attention_space {
    char *base;
    size_t used; /* SIZE_MAX: more than that */
} attention_space;

void *th_attention_take(attention_space *space, int64_t rows, int64_t row_elements, int64_t size);
/* Elements from row to row of a buffer of so many columns. */
int64_t th_attention_stride(int64_t columns);

/* -- operands -- */

typedef struct attention_operand {
    char *data;
    bool packed;
    int64_t lines, panel; /* lines of a panel, elements from one panel to the next */
    int64_t line, step;   /* elements from one to the next where it is not packed */
} attention_operand;

/* Where an operand has a line and a step: those that a panel and a group of steps begin with, if it is packed. */
static inline char *th_attention_operand_at(const attention_problem *p, const attention_operand *x, int64_t line,
                                            int64_t step)
{
    if (!x->packed)
        return x->data + (line * x->line + step * x->step) * p->size;
    const int64_t panels = line == 0 ? 0 : line / x->lines * x->panel;
    const int64_t groups = step == 0 ? 0 : th_panel_elements(&p->multiply, step) * x->lines;
    return x->data + (panels + groups) * p->size;
}

/* What a copy is wanted for: AS_LEFT its rows are lines of a left operand of products, AS_RIGHT steps of a right one,
 * AS_ROWS something else reads them. */
enum { AS_LEFT = 1, AS_RIGHT = 2, AS_ROWS = 4 };

/* Rows brought into the workspace: (rows, width), filled up to whole lanes with 0. Where terms are what is wanted, they
 * are made of the rows where these are, which are copied only if one of a right operand is not finite. */
typedef struct attention_copy {
    char *data;
    int64_t width, stride; /* elements */
    bool finite, has_rows;
    attention_operand left, right; /* what it was taken as */
} attention_copy;

attention_copy th_attention_take_copy(const attention_problem *p, attention_space *space, int64_t rows, int64_t width,
                                      int uses);
/* copy = rows row .. row + rows - 1 of an array, from its row `to`, a multiple of key_step, on. Zeros when the array is
 * not given. */
void th_attention_load(const attention_problem *p, attention_copy *copy, int64_t to, const th_attention_array *array,
                       const attention_head *head, int64_t row, int64_t rows);

/* The right operand of scores, whose lines are rows of an array (keys, width): always packed. */
attention_operand th_attention_take_keys(const attention_problem *p, attention_space *space, int64_t keys,
                                         int64_t width);
/* Packs rows row + from .. row + to - 1, where lines from .. to-1 are looked for. */
void th_attention_pack(const attention_problem *p, const attention_operand *keys, int64_t width,
                       const th_attention_array *array, const attention_head *head, int64_t row, int64_t from,
                       int64_t to);

/* Scores, or what becomes of them: (rows, keys), and room to pack them in as a left operand. */
typedef struct attention_buffer {
    char *data, *panels;
    int64_t stride; /* elements from row to row */
} attention_buffer;

/* transposed: keys may be the lines, too. */
attention_buffer th_attention_take_buffer(const attention_problem *p, attention_space *space, int64_t rows,
                                          int64_t keys, bool transposed);
/* Lets a product (of m lines and k steps) read it as its left operand: from element `from` on, lines and steps that lie
 * `line` and `step` elements apart. What was packed of it before is gone. */
void th_attention_left(const attention_problem *p, const attention_buffer *buffer, int64_t from, int64_t line,
                       int64_t step, th_product_block *product);

#endif

/* One tile of attention's backward: its memory, its operands, and the gradient of its scores. attention_backward.c has
 * the formulas. */
#include "kernels/attention/attention_backward.h"

/* Returns whether attention_delta can read rows of values in place. */
static bool can_read_in_place(const attention_problem *p, const th_attention_array *array)
{
    return array->data && array->column == 1 && p->a->value_width % LANES == 0;
}

size_t th_attention_reserve_backward(const attention_problem *p, void *workspace, backward_memory *m)
{
    attention_space space = {.base = workspace};
    const int64_t keys = th_smaller(p->a->keys, KEY_BLOCK), rows = th_smaller(p->a->queries, p->query_block);
    m->q = th_attention_reserve_copy(p, &space, rows, p->a->width, AS_LEFT | AS_RIGHT);
    m->o = th_attention_reserve_copy(p, &space, rows, p->a->value_width, AS_ROWS);
    m->o_gradient =
        th_attention_reserve_copy(p, &space, rows, p->a->value_width,
                                  AS_LEFT | AS_RIGHT | (can_read_in_place(p, &p->a->o_gradient) ? 0 : AS_ROWS));
    m->k = th_attention_reserve_copy(p, &space, keys, p->a->width, AS_RIGHT);
    m->k_lines = th_attention_reserve_keys(p, &space, keys, p->a->width);
    m->v_lines = th_attention_reserve_keys(p, &space, keys, p->a->value_width);
    m->k_gradient = th_attention_reserve_copy(p, &space, keys, p->a->width, 0);
    m->v_gradient = th_attention_reserve_copy(p, &space, keys, p->a->value_width, 0);
    m->q_gradient = th_attention_reserve_copy(p, &space, rows, p->a->width, 0);
    m->weights = th_attention_reserve_buffer(p, &space, rows, keys, true);
    m->pair_gradient = m->weights; /* with the same space to pack it in */
    m->pair_gradient.data = th_attention_reserve(&space, rows, m->pair_gradient.stride, p->size);
    m->log_sum_exp = th_attention_reserve(&space, rows, 1, p->size);
    m->delta = th_attention_reserve(&space, rows, 1, p->size);
    return space.used;
}

void th_attention_load_keys(const attention_problem *p, backward_memory *m, const attention_head *head, int64_t start,
                            int64_t count)
{
    th_attention_load(p, &m->k, 0, &p->a->k, head, start, count);
    th_attention_pack(p, &m->k_lines, p->a->width, &p->a->k, head, start, 0, count);
    th_attention_pack(p, &m->v_lines, p->a->value_width, &p->a->v, head, start, 0, count);
}

static void compute_delta(const attention_problem *p, backward_memory *m, const attention_head *head,
                          const attention_tile *tile)
{
    const th_attention *a = p->a;
    const th_attention_array *lse_gradient = &a->log_sum_exp_gradient;
    const bool o_in_place = can_read_in_place(p, &a->o), do_in_place = !m->o_gradient.has_rows;
    if (!o_in_place)
        th_attention_load(p, &m->o, 0, &a->o, head, tile->query, tile->rows);
    p->kernels->attention_delta(
        tile->rows, a->value_width, o_in_place ? th_attention_at(&a->o, head, tile->query, 0, p->size) : m->o.data,
        o_in_place ? a->o.row : m->o.stride,
        do_in_place ? th_attention_at(&a->o_gradient, head, tile->query, 0, p->size) : m->o_gradient.data,
        do_in_place ? a->o_gradient.row : m->o_gradient.stride,
        th_attention_at(lse_gradient, head, tile->query, 0, p->size), lse_gradient->row, m->delta);
}

void th_attention_tile_gradient(const attention_problem *p, backward_memory *m, const attention_head *head,
                                const attention_tile *tile, bool of_products, bool wants_gradient)
{
    const th_attention *a = p->a;
    const th_attention_array *lse = &a->log_sum_exp;
    const int64_t query = tile->query, count = tile->rows;
    th_attention_load(p, &m->q, 0, &a->q, head, query, count);
    th_attention_load(p, &m->o_gradient, 0, &a->o_gradient, head, query, count);
    th_attention_pairs_product(p, tile, &m->q, &m->k_lines, &m->weights);
    p->kernels->product_copy(count, 1, th_attention_at(lse, head, query, 0, p->size), lse->row, 0, m->log_sum_exp, 1,
                             0);
    if (wants_gradient) {
        compute_delta(p, m, head, tile);
        th_attention_pairs_product(p, tile, &m->o_gradient, &m->v_lines, &m->pair_gradient);
    }
    const th_attention_rows rows = th_attention_tile_rows(p, head, tile, &m->weights);
    p->kernels->attention_gradient(&rows, m->log_sum_exp, m->delta, of_products,
                                   wants_gradient ? m->pair_gradient.data : NULL);
}

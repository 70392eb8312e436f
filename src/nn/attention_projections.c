/* Projects query, key and value into all heads, in as few products as possible: see attention_projections.h.
 *
 * E width; N: any leading dimensions. */
#include "nn/attention_projections.h"

#include "tapehead/tensor.h"

/* Columns begin .. begin + p->rows - 1 of a product, a view: (N, rows). */
static th_tensor *slice_columns(th_tensor *product, const th_input_projection *p, int64_t begin)
{
    return th_slice(product, -1, begin, begin + p->rows, 1);
}

/* x (N, input) -> x W^T + b (N, rows), plus the adapter's output. reduced: the result of th_lora_reduce, or NULL to
 * compute it. */
static th_tensor *project_with(const th_attention_layer *l, const th_input_projection *p, th_tensor *x,
                               th_tensor *reduced)
{
    const int64_t end = p->begin + p->rows;
    th_tensor *weight = p->weight ? p->weight : th_slice(l->in_proj_weight, 0, p->begin, end, 1);
    th_tensor *bias = l->in_proj_bias ? th_slice(l->in_proj_bias, 0, p->begin, end, 1) : NULL;
    th_tensor *delta = reduced ? th_lora_expand(p->lora, reduced, NULL) : th_lora_residual(p->lora, x, NULL);
    return th_dense(x, weight, &(th_dense_options){.bias = bias, .residual = delta});
}

th_tensor *th_attention_project(const th_attention_layer *l, const th_input_projection *p, th_tensor *x)
{
    return project_with(l, p, x, NULL);
}

/* Self-attention: query, key and value are the same tensor. Computes one product with in_proj_weight, (N, E) -> (N,
 * 3 E). */
static th_attention_operands project_self(const th_attention_layer *l, th_tensor *x)
{
    th_tensor *product = th_dense(x, l->in_proj_weight, &(th_dense_options){.bias = l->in_proj_bias});
    th_attention_operands y;
    y.query = slice_columns(product, &l->query, 0);
    y.key = slice_columns(product, &l->key, l->query.rows);
    y.value = slice_columns(product, &l->value, l->query.rows + l->key.rows);
    return y;
}

/* Cross attention: key and value are the same tensor, the memory. Computes one product for the query, and one product
 * for key and value with the last 2 E rows of in_proj_weight. */
static th_attention_operands project_cross(const th_attention_layer *l, th_tensor *query, th_tensor *memory)
{
    th_attention_operands y;
    y.query = th_attention_project(l, &l->query, query);
    const th_input_projection key_value = {
        .input = l->key.input, .rows = l->key.rows + l->value.rows, .begin = l->key.begin};
    th_tensor *product = th_attention_project(l, &key_value, memory);
    y.key = slice_columns(product, &l->key, 0);
    y.value = slice_columns(product, &l->value, l->key.rows);
    return y;
}

/* Returns whether query, key and value have adapters with the same A. */
static bool shares_a(const th_attention_layer *l)
{
    return th_lora_is_active(l->query.lora) && th_lora_is_active(l->key.lora) && th_lora_is_active(l->value.lora) &&
           l->query.lora->a == l->key.lora->a && l->query.lora->a == l->value.lora->a;
}

/* The inputs are three tensors, or the projections have three weights or adapters. Computes three products. */
static th_attention_operands project_each(const th_attention_layer *l, th_tensor *query, th_tensor *key,
                                          th_tensor *value)
{
    const bool shared = query == key && key == value && shares_a(l);
    th_tensor *reduced = shared ? th_lora_reduce(l->query.lora, query) : NULL;
    th_attention_operands y;
    y.query = project_with(l, &l->query, query, reduced);
    y.key = project_with(l, &l->key, key, reduced);
    y.value = project_with(l, &l->value, value, reduced);
    return y;
}

th_attention_operands th_attention_project_all(const th_attention_layer *l, th_tensor *query, th_tensor *key,
                                               th_tensor *value)
{
    const bool adapted =
        th_lora_is_active(l->query.lora) || th_lora_is_active(l->key.lora) || th_lora_is_active(l->value.lora);
    const bool packed = l->in_proj_weight != NULL && !adapted;
    if (packed && query == key && key == value)
        return project_self(l, query);
    if (packed && key == value)
        return project_cross(l, query, key);
    return project_each(l, query, key, value);
}

/* The precision and the block sizes of an attention problem, its heads, and how many heads make a task. */
#include "kernels/attention/attention_problem.h"

#include "kernels/products/product_plan.h"

enum {
    QUERY_BLOCK = 48, /* of float32 and float64 */
    SUM_KEYS = 128,
    PART_SUM_KEYS = 256, /* these panels are smaller */
    TASKS_PER_THREAD = 4
};
/* In multiply-adds. smallest_task: a task gets heads until it has this much work (about 5 µs). head_overhead: the time
 * of a head besides its products. */
static const double smallest_task = 200000, head_overhead = 5000;

/* Sums are divided at blocks of queries and at sum_keys, so these two sizes determine the order of a sum. Every
 * precision has its own sizes, which are the same in all instruction sets. Sums of bfloat16 parts have whole groups of
 * steps. */
attention_problem th_attention_problem(const th_machine *machine, th_dtype dtype, const th_attention *a)
{
    const th_precision precision = th_long_sum_precision(machine, dtype);
    const bool parts = precision != TH_PRECISION_FLOAT32;
    attention_problem p = {.a = a,
                           .kernels = th_kernels_for(machine, dtype),
                           .multiply = th_product_kernels_of(machine, dtype, precision),
                           .has_parts = parts,
                           .size = th_element_size(dtype),
                           .query_block = parts ? MAX_QUERIES : QUERY_BLOCK,
                           .sum_keys = parts ? PART_SUM_KEYS : SUM_KEYS,
                           .key_step = parts ? TH_PART_GROUP : LANES,
                           .heads = 1};
    for (int d = 0; d < a->dims; d++)
        p.heads *= a->size[d];
    return p;
}

attention_head th_attention_head_at(const th_attention *a, int64_t number)
{
    attention_head head = {.number = number, .dims = a->dims};
    th_index_at(a->dims, a->size, number, head.index);
    return head;
}

void th_attention_next_head(const th_attention *a, attention_head *head)
{
    head->number++;
    for (int d = a->dims - 1; d >= 0 && ++head->index[d] == a->size[d]; d--)
        head->index[d] = 0;
}

int64_t th_attention_heads_of_task(int64_t count, double multiply_adds, int threads)
{
    const int64_t enough =
        multiply_adds < smallest_task ? (int64_t)(smallest_task / (multiply_adds + head_overhead)) : 1;
    const int64_t fair = count / ((int64_t)threads * TASKS_PER_THREAD);
    return th_larger(threads > 1 ? th_smaller(enough, fair) : enough, 1);
}

char *th_attention_at(const th_attention_array *array, const attention_head *head, int64_t row, int64_t column,
                      int64_t size)
{
    if (!array->data)
        return NULL;
    const int64_t within = row * array->row + column * array->column;
    return (char *)array->data + (within + th_offset_of(head->dims, head->index, array->leading)) * size;
}

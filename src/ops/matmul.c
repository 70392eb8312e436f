/* matmul: c = a b over broadcast leading dimensions. Operands are read through their strides: transposed views are not
 * copied. As in NumPy, a one-dimensional operand is a row on the left and a column on the right. */
#include "ops/shared/letters.h"
#include "ops/shared/product_call.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"

static th_status matmul_shape(th_call *call)
{
    int64_t size[TH_MAX_DIMS];
    th_axis_letters letters;
    int ndim;
    const th_status status = th_product_shape(call, 1, &ndim, size, letters);
    if (!status)
        th_call_output(call, 0, call->input[0].dtype, ndim, size, letters);
    return status;
}

/* Inserts an axis of size 1 before axis `at`. */
static void insert_axis(th_array *array, int at, int64_t stride)
{
    for (int i = array->ndim++; i > at; i--) {
        array->size[i] = array->size[i - 1];
        array->stride[i] = array->stride[i - 1];
    }
    array->size[at] = 1;
    array->stride[at] = stride;
}

/* a, b and c, or their gradients, as matrices: a one-dimensional operand gets the axis that the result lacks. */
typedef struct matmul_matrices {
    th_array a, b, c; /* (.., m, k), (.., k, n), (.., m, n) */
} matmul_matrices;

static matmul_matrices matrices_of(const th_array *a, const th_array *b, const th_array *c)
{
    matmul_matrices all = {*a, *b, *c};
    const bool has_columns = b->ndim > 1;
    if (a->ndim == 1) {
        all.a = th_array_as_row(a);
        insert_axis(&all.c, has_columns ? c->ndim - 1 : c->ndim, !has_columns);
    }
    if (!has_columns) {
        insert_axis(&all.b, 1, 1);
        insert_axis(&all.c, all.c.ndim, 1);
    }
    return all;
}

typedef struct plan {
    th_product_call c, da, db;
} plan;

static void matmul_plan(const th_call *call, bool backward, void *memory)
{
    plan *p = memory;
    if (!backward) {
        const matmul_matrices all = matrices_of(&call->input[0], &call->input[1], &call->output[0]);
        p->c = th_product_call_of(&all.a, &all.b, &all.c);
        th_product_call_reserve(call, &p->c);
        return;
    }
    if (call->input_gradient[0].given) {
        const matmul_matrices all = matrices_of(&call->input_gradient[0], &call->input[1], &call->output_gradient[0]);
        const th_array bt = th_array_transposed(&all.b);
        p->da = th_product_call_of(&all.c, &bt, &all.a);
        th_product_call_reserve(call, &p->da);
    }
    th_plan_reuse(call, 0);
    if (call->input_gradient[1].given) {
        const matmul_matrices all = matrices_of(&call->input[0], &call->input_gradient[1], &call->output_gradient[0]);
        const th_array at = th_array_transposed(&all.a);
        p->db = th_product_call_of(&at, &all.c, &all.b);
        th_product_call_reserve(call, &p->db);
    }
}

static void matmul_forward(const th_call *call)
{
    th_product_call_run(call, &((const plan *)call->plan)->c, false);
}

/* c_ij = sum_p a_ip b_pj:  dL/da_ip = sum_j dL/dc_ij b_pj      da = dc bᵀ
 *                          dL/db_pj = sum_i a_ip dL/dc_ij      db = aᵀ dc
 * Both are summed over the leading dimensions in which a or b was broadcast, directly into the gradients. */
static void matmul_backward(const th_call *call)
{
    const plan *p = call->plan;
    if (call->input_gradient[0].given)
        th_product_call_run(call, &p->da, call->add[0]);
    if (call->input_gradient[1].given)
        th_product_call_run(call, &p->db, call->add[1]);
}

static int64_t matmul_multiply_adds(const th_call *call)
{
    return th_multiply_adds(&call->output[0], call->input[0].size[call->input[0].ndim - 1]);
}

static const th_sample matmul_samples[] = {
    {"matrices", NULL, 2, {{.shape = {2, {2, 3}}}, {.shape = {2, {3, 4}}}}, 0},
    {"square", NULL, 2, {{.shape = {2, {3, 3}}}, {.shape = {2, {3, 3}}}}, 0},
    {"batch", NULL, 2, {{.shape = {3, {2, 2, 3}}}, {.shape = {3, {2, 3, 2}}}}, 0},
    {"weight shared by a batch", NULL, 2, {{.shape = {3, {2, 2, 3}}}, {.shape = {2, {3, 2}}}}, 0},
    {"left operand shared", NULL, 2, {{.shape = {2, {2, 3}}}, {.shape = {3, {3, 3, 2}}}}, 0},
    {"both broadcast", NULL, 2, {{.shape = {4, {2, 1, 2, 3}}}, {.shape = {3, {3, 3, 2}}}}, 0},
    {"row by matrix", NULL, 2, {{.shape = {1, {3}}}, {.shape = {2, {3, 2}}}}, 0},
    {"row by batch", NULL, 2, {{.shape = {1, {3}}}, {.shape = {3, {2, 3, 2}}}}, 0},
    {"batch by column", NULL, 2, {{.shape = {3, {2, 2, 3}}}, {.shape = {1, {3}}}}, 0},
    {"row by column", NULL, 2, {{.shape = {1, {4}}}, {.shape = {1, {4}}}}, 0},
    {"nothing to sum", NULL, 2, {{.shape = {2, {2, 0}}}, {.shape = {2, {0, 3}}}}, 0},
    {.name = NULL},
};

const th_op th_op_matmul = {
    .name = "matmul",
    .value = "c = a b",
    .gradient = "da = dc bᵀ, db = aᵀ dc",
    .n_inputs = 2,
    .saves_for = {TH_INPUT(1), TH_INPUT(0)},
    .shape = matmul_shape,
    .forward = matmul_forward,
    .backward = matmul_backward,
    .plan = matmul_plan,
    .plan_size = sizeof(plan),
    .multiply_adds = matmul_multiply_adds,
    .samples = matmul_samples,
};

th_tensor *th_matmul(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_matmul, NULL, a, b);
}

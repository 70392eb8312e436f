/* operations OUT [NAME]: checks the operations of ggml that have a backward, and writes a CSV with a row for each.
 *
 * ggml has no list of these operations: the table follows the cases of ggml_compute_backward in ggml.c. Operations that
 * broadcast, and operations with several modes, have a row for each. Those where ggml aborts are "no backward". */
#include <stdio.h>

#include "ggml-cpu.h"
#include "ggml.h"
#include "tapehead_check.h"

#include "check_ggml.h"

typedef struct ggml_tensor tensor;
typedef struct ggml_context context;

/* An operation, its inputs' sizes in ggml's order, and the range of their values. */
typedef struct operation {
    const char *name;
    tensor *(*build)(context *c, tensor **x);
    int64_t sizes[3][4]; /* a size of 0 ends the inputs */
    float low, high;
    int indices; /* number of input that contains integers, or 0; input 0 never does */
} operation;

#define UNARY(op)                                                                                                      \
    static tensor *node_##op(context *c, tensor **x)                                                                   \
    {                                                                                                                  \
        return ggml_##op(c, x[0]);                                                                                     \
    }
#define BINARY(op)                                                                                                     \
    static tensor *node_##op(context *c, tensor **x)                                                                   \
    {                                                                                                                  \
        return ggml_##op(c, x[0], x[1]);                                                                               \
    }
#define CASE(name, expression)                                                                                         \
    static tensor *node_##name(context *c, tensor **x)                                                                 \
    {                                                                                                                  \
        return expression;                                                                                             \
    }

/* clang-format off: one operation on a line */
UNARY(dup)
UNARY(sqr)
UNARY(sum)
UNARY(sum_rows)
UNARY(mean)
UNARY(abs)
UNARY(neg)
UNARY(relu)
UNARY(silu)
UNARY(expm1)
UNARY(softplus)
UNARY(soft_max)
UNARY(transpose)
UNARY(gelu)
UNARY(gelu_quick)
UNARY(gelu_erf)
UNARY(tanh)
UNARY(sigmoid)
UNARY(elu)
UNARY(hardswish)
UNARY(hardsigmoid)
UNARY(swiglu)
UNARY(geglu)
UNARY(reglu)
UNARY(cumsum)
UNARY(sgn)
UNARY(step)
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(mul_mat)
BINARY(repeat)
BINARY(repeat_back)
BINARY(swiglu_split)
BINARY(get_rows)
BINARY(out_prod)
BINARY(geglu_split)
BINARY(add1)
CASE(square_root, ggml_sqrt(c, x[0]))
CASE(logarithm, ggml_log(c, x[0]))
CASE(sine, ggml_sin(c, x[0]))
CASE(cosine, ggml_cos(c, x[0]))
CASE(exponential, ggml_exp(c, x[0]))
CASE(rms_norm, ggml_rms_norm(c, x[0], 1e-5f))
CASE(norm, ggml_norm(c, x[0], 1e-5f))
CASE(l2_norm, ggml_l2_norm(c, x[0], 1e-5f))
CASE(group_norm, ggml_group_norm(c, x[0], 1, 1e-5f))
CASE(leaky_relu, ggml_leaky_relu(c, x[0], 0.1f, false))
CASE(clamp, ggml_clamp(c, x[0], -0.5f, 0.7f))
CASE(concat, ggml_concat(c, x[0], x[1], 0))
CASE(scale, ggml_scale(c, x[0], -1.7f))
CASE(scale_bias, ggml_scale_bias(c, x[0], -1.7f, 0.3f))
CASE(acc, ggml_acc(c, x[0], x[1], x[0]->nb[1], x[0]->nb[2], x[0]->nb[3], x[0]->nb[1] + 4))
CASE(set_2d, ggml_set_2d(c, x[0], x[1], x[0]->nb[1], x[0]->nb[1] + 4))
CASE(set_1d, ggml_set_1d(c, x[0], x[1], 8))
CASE(cpy, ggml_cpy(c, x[0], ggml_new_tensor(c, GGML_TYPE_F32, 4, x[0]->ne)))
CASE(cont, ggml_cont(c, ggml_transpose(c, x[0])))
CASE(reshape, ggml_reshape_2d(c, x[0], x[0]->ne[1], x[0]->ne[0]))
CASE(view_1d, ggml_cont(c, ggml_view_1d(c, x[0], 5, 12)))
CASE(view_2d, ggml_cont(c, ggml_view_2d(c, x[0], 3, 3, x[0]->nb[1], 4)))
CASE(view_3d, ggml_cont(c, ggml_view_3d(c, x[0], 2, 2, 2, x[0]->nb[1], x[0]->nb[2], 4)))
CASE(permute, ggml_cont(c, ggml_permute(c, x[0], 2, 0, 1, 3)))
CASE(permute_4d, ggml_cont(c, ggml_permute(c, x[0], 1, 3, 0, 2)))
CASE(diag_mask_inf, ggml_soft_max(c, ggml_diag_mask_inf(c, x[0], 1)))
CASE(diag_mask_zero, ggml_diag_mask_zero(c, x[0], 1))
CASE(soft_max_scale, ggml_soft_max_ext(c, x[0], NULL, 0.37f, 0))
CASE(pool_max, ggml_pool_2d(c, x[0], GGML_OP_POOL_MAX, 2, 2, 2, 2, 0, 0))
CASE(pool_average, ggml_pool_2d(c, x[0], GGML_OP_POOL_AVG, 2, 2, 2, 2, 0, 0))
CASE(pool_max_overlap, ggml_pool_2d(c, x[0], GGML_OP_POOL_MAX, 3, 3, 1, 1, 0, 0))
CASE(pool_average_padded, ggml_pool_2d(c, x[0], GGML_OP_POOL_AVG, 3, 3, 2, 2, 1, 1))
CASE(pool_average_rectangle, ggml_pool_2d(c, x[0], GGML_OP_POOL_AVG, 3, 2, 1, 2, 0, 0))
CASE(conv_1d, ggml_conv_1d(c, x[1], x[0], 1, 1, 1))
CASE(conv_2d, ggml_conv_2d(c, x[1], x[0], 1, 1, 1, 1, 1, 1))
CASE(im2col,
     ggml_im2col(c, ggml_new_tensor_4d(c, GGML_TYPE_F32, 3, 2, 2, 2), x[0], 1, 2, 1, 0, 1, 1, true, GGML_TYPE_F32))
CASE(im2col_dilated,
     ggml_im2col(c, ggml_new_tensor_4d(c, GGML_TYPE_F32, 2, 3, 2, 2), x[0], 2, 1, 0, 1, 2, 1, true, GGML_TYPE_F32))
CASE(im2col_1d,
     ggml_im2col(c, ggml_new_tensor_3d(c, GGML_TYPE_F32, 3, 4, 2), x[0], 1, 0, 1, 0, 1, 0, false, GGML_TYPE_F32))
CASE(add_itself, ggml_add(c, x[0], x[0]))
CASE(mul_itself, ggml_mul(c, x[0], x[0]))
CASE(sub_itself, ggml_sub(c, x[0], ggml_scale(c, x[0], 0.3f)))
CASE(div_itself, ggml_div(c, ggml_sqr(c, x[0]), x[0]))
CASE(sum_and_use, ggml_add(c, ggml_repeat(c, ggml_sum(c, x[0]), x[0]), ggml_sqr(c, x[0])))
CASE(sum_rows_and_use, ggml_add(c, ggml_repeat(c, ggml_sum_rows(c, x[0]), x[0]), ggml_sqr(c, x[0])))
CASE(mean_and_use, ggml_add(c, ggml_repeat(c, ggml_mean(c, x[0]), x[0]), ggml_sqr(c, x[0])))
CASE(view_and_use, ggml_mul(c, ggml_sqr(c, ggml_cont(c, ggml_view_2d(c, x[0], 3, 3, x[0]->nb[1], 4))),
                            ggml_cont(c, ggml_view_2d(c, x[0], 3, 3, x[0]->nb[1], 0))))
CASE(attention, ggml_mul_mat(c, ggml_cont(c, ggml_transpose(c, x[2])),
                             ggml_soft_max(c, ggml_diag_mask_inf(c, ggml_mul_mat(c, x[1], x[0]), 0))))
CASE(feed_forward, ggml_mul_mat(c, x[2], ggml_silu(c, ggml_mul_mat(c, x[1], x[0]))))
/* clang-format on */

/* A leaf with constant values. */
static tensor *constant(context *c, enum ggml_type type, int64_t n0, int64_t n1)
{
    tensor *t = ggml_new_tensor_2d(c, type, n0, n1);
    for (int64_t i = 0; i < n0 * n1; i++) {
        if (type == GGML_TYPE_I32)
            ((int32_t *)t->data)[i] = (int32_t)(3 * i + 1) % 7;
        else
            ((float *)t->data)[i] = (float)((7 * i) % 5) / 4 + 0.25f;
    }
    return t;
}

/* Each row of the labels sums to 1, as ggml's backward requires. */
static tensor *cross_entropy(context *c, tensor **x)
{
    return ggml_cross_entropy_loss(c, x[0], ggml_soft_max(c, constant(c, GGML_TYPE_F32, x[0]->ne[0], x[0]->ne[1])));
}

static tensor *masked_soft_max(context *c, tensor **x)
{
    return ggml_soft_max_ext(c, x[0], constant(c, GGML_TYPE_F32, x[0]->ne[0], x[0]->ne[1]), 0.37f, 0);
}

static tensor *alibi_soft_max(context *c, tensor **x)
{
    return ggml_soft_max_ext(c, x[0], constant(c, GGML_TYPE_F32, x[0]->ne[0], x[0]->ne[1]), 0.37f, 8);
}

static tensor *rotate(context *c, tensor **x, int mode, int n_dims, float scale, float ext, float attn, tensor *factors)
{
    return ggml_rope_ext(c, x[0], constant(c, GGML_TYPE_I32, x[0]->ne[2], 1), factors, n_dims, mode, 64, 10000, scale,
                         ext, attn, 32, 1);
}

CASE(rope, rotate(c, x, 0, 8, 1, 0, 1, NULL))
CASE(rope_part, rotate(c, x, 0, 4, 1, 0, 1, NULL))
CASE(rope_neox, rotate(c, x, GGML_ROPE_TYPE_NEOX, 8, 1, 0, 1, NULL))
CASE(rope_neox_part, rotate(c, x, GGML_ROPE_TYPE_NEOX, 4, 1, 0, 1, NULL))
CASE(rope_yarn, rotate(c, x, 0, 8, 0.25f, 1, 1, NULL))
CASE(rope_attention_factor, rotate(c, x, 0, 8, 1, 0, 1.3f, NULL))
CASE(rope_factors, rotate(c, x, 0, 8, 1, 0, 1, constant(c, GGML_TYPE_F32, 4, 1)))

static tensor *multi(context *c, tensor **x, int mode)
{
    int sections[4] = {2, 1, 1, 0};
    return ggml_rope_multi(c, x[0], constant(c, GGML_TYPE_I32, 4 * x[0]->ne[2], 1), NULL, 8, sections, mode, 64, 10000,
                           1, 0, 1, 32, 1);
}

CASE(rope_mrope, multi(c, x, GGML_ROPE_TYPE_MROPE))
CASE(rope_vision, multi(c, x, GGML_ROPE_TYPE_VISION))

#define SAME                                                                                                           \
    {                                                                                                                  \
        5, 4, 1, 1                                                                                                     \
    }
#define CUBE                                                                                                           \
    {                                                                                                                  \
        5, 4, 3, 1                                                                                                     \
    }
#define FOUR                                                                                                           \
    {                                                                                                                  \
        5, 4, 3, 2                                                                                                     \
    }
#define HEADS                                                                                                          \
    {                                                                                                                  \
        8, 2, 3, 1                                                                                                     \
    }
#define IMAGE                                                                                                          \
    {                                                                                                                  \
        6, 6, 2, 2                                                                                                     \
    }
static const operation operations[] = {
    {"dup", node_dup, {SAME}, -2, 2, 0},
    {"add", node_add, {FOUR, FOUR}, -2, 2, 0},
    {"add, broadcast of a row", node_add, {FOUR, {5, 1, 1, 1}}, -2, 2, 0},
    {"add, broadcast of a matrix", node_add, {FOUR, {5, 4, 1, 1}}, -2, 2, 0},
    {"add, broadcast of a column", node_add, {FOUR, {1, 4, 1, 1}}, -2, 2, 0},
    {"add, x + x", node_add_itself, {SAME}, -2, 2, 0},
    {"add1", node_add1, {SAME, {1, 1, 1, 1}}, -2, 2, 0},
    {"add1 of a vector", node_add1, {{5, 1, 1, 1}, {1, 1, 1, 1}}, -2, 2, 0},
    {"acc", node_acc, {SAME, {3, 2, 1, 1}}, -2, 2, 0},
    {"sub", node_sub, {FOUR, FOUR}, -2, 2, 0},
    {"sub, broadcast of a row", node_sub, {FOUR, {5, 1, 1, 1}}, -2, 2, 0},
    {"sub, x - 0.3 x", node_sub_itself, {SAME}, -2, 2, 0},
    {"mul", node_mul, {FOUR, FOUR}, -2, 2, 0},
    {"mul, broadcast of a row", node_mul, {FOUR, {5, 1, 1, 1}}, -2, 2, 0},
    {"mul, broadcast of a column", node_mul, {FOUR, {1, 4, 1, 1}}, -2, 2, 0},
    {"mul, x * x", node_mul_itself, {SAME}, -2, 2, 0},
    {"div", node_div, {FOUR, FOUR}, 0.5, 2, 0},
    {"div, broadcast of a row", node_div, {FOUR, {5, 1, 1, 1}}, 0.5, 2, 0},
    {"div, x^2 / x", node_div_itself, {SAME}, 0.5, 2, 0},
    {"sqr", node_sqr, {SAME}, -2, 2, 0},
    {"sqrt", node_square_root, {SAME}, 0.5, 2, 0},
    {"log", node_logarithm, {SAME}, 0.5, 2, 0},
    {"sin", node_sine, {SAME}, -2, 2, 0},
    {"cos", node_cosine, {SAME}, -2, 2, 0},
    {"exp", node_exponential, {SAME}, -2, 2, 0},
    {"expm1", node_expm1, {SAME}, -2, 2, 0},
    {"softplus", node_softplus, {SAME}, -2, 2, 0},
    {"abs", node_abs, {SAME}, 0.5, 2, 0},
    {"neg", node_neg, {SAME}, -2, 2, 0},
    {"relu", node_relu, {SAME}, -2, 2, 0},
    {"silu", node_silu, {SAME}, -2, 2, 0},
    {"sgn", node_sgn, {SAME}, 0.5, 2, 0},
    {"step", node_step, {SAME}, 0.5, 2, 0},
    {"sum", node_sum, {FOUR}, -2, 2, 0},
    {"sum, with a second use", node_sum_and_use, {SAME}, -2, 2, 0},
    {"sum_rows", node_sum_rows, {FOUR}, -2, 2, 0},
    {"sum_rows, with a second use", node_sum_rows_and_use, {SAME}, -2, 2, 0},
    {"mean, of one row", node_mean, {{5, 1, 1, 1}}, -2, 2, 0},
    {"mean, of rows", node_mean, {FOUR}, -2, 2, 0},
    {"mean, with a second use", node_mean_and_use, {SAME}, -2, 2, 0},
    {"repeat", node_repeat, {{5, 2, 1, 1}, {5, 4, 3, 1}}, -2, 2, 0},
    {"repeat_back", node_repeat_back, {{5, 4, 3, 1}, {5, 2, 1, 1}}, -2, 2, 0},
    {"rms_norm", node_rms_norm, {FOUR}, -2, 2, 0},
    {"mul_mat", node_mul_mat, {{5, 4, 1, 1}, {5, 3, 1, 1}}, -2, 2, 0},
    {"mul_mat, batches", node_mul_mat, {{5, 4, 2, 3}, {5, 3, 2, 3}}, -2, 2, 0},
    {"mul_mat, broadcast", node_mul_mat, {{5, 4, 2, 1}, {5, 3, 4, 1}}, -2, 2, 0},
    {"mul_mat, broadcast in dimension 3", node_mul_mat, {{5, 4, 2, 1}, {5, 3, 2, 3}}, -2, 2, 0},
    {"scale", node_scale, {SAME}, -2, 2, 0},
    {"scale_bias", node_scale_bias, {SAME}, -2, 2, 0},
    {"set_1d", node_set_1d, {SAME, {3, 1, 1, 1}}, -2, 2, 0},
    {"set_2d", node_set_2d, {SAME, {3, 2, 1, 1}}, -2, 2, 0},
    {"cpy", node_cpy, {SAME}, -2, 2, 0},
    {"cont of transpose", node_cont, {SAME}, -2, 2, 0},
    {"reshape", node_reshape, {SAME}, -2, 2, 0},
    {"view_1d", node_view_1d, {SAME}, -2, 2, 0},
    {"view_2d", node_view_2d, {SAME}, -2, 2, 0},
    {"view_3d", node_view_3d, {CUBE}, -2, 2, 0},
    {"views that overlap", node_view_and_use, {SAME}, -2, 2, 0},
    {"permute", node_permute, {CUBE}, -2, 2, 0},
    {"permute, four dimensions", node_permute_4d, {FOUR}, -2, 2, 0},
    {"transpose", node_transpose, {SAME}, -2, 2, 0},
    {"get_rows", node_get_rows, {SAME, {6, 1, 1, 1}}, -2, 2, 1},
    {"diag_mask_inf", node_diag_mask_inf, {{5, 4, 2, 1}}, -2, 2, 0},
    {"diag_mask_zero", node_diag_mask_zero, {{5, 4, 2, 1}}, -2, 2, 0},
    {"soft_max", node_soft_max, {FOUR}, -2, 2, 0},
    {"soft_max_ext, scale", node_soft_max_scale, {FOUR}, -2, 2, 0},
    {"soft_max_ext, mask", masked_soft_max, {FOUR}, -2, 2, 0},
    {"soft_max_ext, ALiBi", alibi_soft_max, {FOUR}, -2, 2, 0},
    {"rope", node_rope, {HEADS}, -2, 2, 0},
    {"rope, part of the dimensions", node_rope_part, {HEADS}, -2, 2, 0},
    {"rope, NeoX", node_rope_neox, {HEADS}, -2, 2, 0},
    {"rope, NeoX, part of the dimensions", node_rope_neox_part, {HEADS}, -2, 2, 0},
    {"rope, YaRN", node_rope_yarn, {HEADS}, -2, 2, 0},
    {"rope, attention factor", node_rope_attention_factor, {HEADS}, -2, 2, 0},
    {"rope, frequency factors", node_rope_factors, {HEADS}, -2, 2, 0},
    {"rope, M-RoPE", node_rope_mrope, {HEADS}, -2, 2, 0},
    {"rope, vision", node_rope_vision, {{16, 2, 3, 1}}, -2, 2, 0},
    {"im2col", node_im2col, {IMAGE}, -2, 2, 0},
    {"im2col, dilated", node_im2col_dilated, {IMAGE}, -2, 2, 0},
    {"im2col, one dimension", node_im2col_1d, {{6, 4, 2, 1}}, -2, 2, 0},
    {"conv_1d", node_conv_1d, {{6, 2, 1, 1}, {3, 2, 3, 1}}, -2, 2, 0},
    {"conv_2d", node_conv_2d, {IMAGE, {3, 3, 2, 3}}, -2, 2, 0},
    {"pool_2d, maximum", node_pool_max, {IMAGE}, -2, 2, 0},
    {"pool_2d, average", node_pool_average, {IMAGE}, -2, 2, 0},
    {"pool_2d, maximum, overlapping", node_pool_max_overlap, {IMAGE}, -2, 2, 0},
    {"pool_2d, average, padded", node_pool_average_padded, {IMAGE}, -2, 2, 0},
    {"pool_2d, average, rectangle", node_pool_average_rectangle, {IMAGE}, -2, 2, 0},
    {"cross_entropy_loss", cross_entropy, {SAME}, -2, 2, 0},
    {"swiglu_split", node_swiglu_split, {SAME, SAME}, -2, 2, 0},
    {"attention", node_attention, {SAME, SAME, SAME}, -2, 2, 0},
    {"feed forward", node_feed_forward, {SAME, {5, 7, 1, 1}, {7, 5, 1, 1}}, -2, 2, 0},
    {"swiglu", node_swiglu, {{8, 3, 1, 1}}, -2, 2, 0},
    {"geglu", node_geglu, {{8, 3, 1, 1}}, -2, 2, 0},
    {"geglu_split", node_geglu_split, {SAME, SAME}, -2, 2, 0},
    {"reglu", node_reglu, {{8, 3, 1, 1}}, -2, 2, 0},
    {"gelu", node_gelu, {SAME}, -2, 2, 0},
    {"gelu_quick", node_gelu_quick, {SAME}, -2, 2, 0},
    {"gelu_erf", node_gelu_erf, {SAME}, -2, 2, 0},
    {"tanh", node_tanh, {SAME}, -2, 2, 0},
    {"sigmoid", node_sigmoid, {SAME}, -2, 2, 0},
    {"elu", node_elu, {SAME}, -2, 2, 0},
    {"leaky_relu", node_leaky_relu, {SAME}, -2, 2, 0},
    {"hardswish", node_hardswish, {SAME}, -2, 2, 0},
    {"hardsigmoid", node_hardsigmoid, {SAME}, -2, 2, 0},
    {"norm", node_norm, {SAME}, -2, 2, 0},
    {"l2_norm", node_l2_norm, {SAME}, -2, 2, 0},
    {"group_norm", node_group_norm, {IMAGE}, -2, 2, 0},
    {"clamp", node_clamp, {SAME}, -2, 2, 0},
    {"concat", node_concat, {SAME, SAME}, -2, 2, 0},
    {"out_prod", node_out_prod, {{5, 4, 1, 1}, {3, 4, 1, 1}}, -2, 2, 0},
    {"cumsum", node_cumsum, {SAME}, -2, 2, 0},
};

/* Fills an input with values that differ by more than a step of the check, in an irregular order. */
static tensor *input(context *c, const operation *op, int k)
{
    tensor *t = ggml_new_tensor(c, k > 0 && op->indices == k ? GGML_TYPE_I32 : GGML_TYPE_F32, 4, op->sizes[k]);
    int64_t n = ggml_nelements(t);
    for (int64_t i = 0; i < n; i++) {
        double fraction = (double)((i * 37 + 11 * k + 5) % 1009) / 1009;
        if (t->type == GGML_TYPE_I32)
            ((int32_t *)t->data)[i] = (int32_t)(i % op->sizes[0][1]);
        else
            ((float *)t->data)[i] = (float)(op->low + (op->high - op->low) * (fraction * 7 - (int)(fraction * 7)));
    }
    return t;
}

static void write_row(FILE *out, const operation *op, const th_function_report *report)
{
    static const char *const verdicts[] = {"could not run", "right", "wrong", "cannot tell", "nothing compared"};
    const char *verdict = strstr(report->text, "SIGSEGV")   ? "crash"
                          : strstr(report->text, "SIGABRT") ? "no backward"
                                                            : verdicts[report->verdict];
    fprintf(out, "ggml,%s,\"%s\",float32,%s,%lld,\"", GGML_VERSION_TEXT, op->name, verdict, (long long)report->checked);
    for (const char *p = report->text; *p; p++)
        fputs(*p == '\n' ? " / " : *p == '"' ? "'" : (char[]){*p, 0}, out);
    fputs("\"\n", out);
    printf("%s: %s\n", op->name, verdict);
}

int main(int argc, char **argv)
{
    FILE *out = argc > 1 ? fopen(argv[1], "w") : NULL;
    if (!out)
        return fputs("usage: operations OUT [NAME]\n", stderr), 2;
    fputs("library,version,operation,type,verdict,comparisons,text\n", out);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        const operation *op = &operations[i];
        if (argc > 2 && !strstr(op->name, argv[2]))
            continue;
        context *c = ggml_init((struct ggml_init_params){16 << 20, NULL, false});
        tensor *x[3];
        int n = 0, differentiated = 0;
        for (; n < 3 && op->sizes[n][0]; n++)
            x[n] = input(c, op, n);
        /* The pattern of repeat is a constant, as in ggml's own programs. */
        differentiated = op->build == node_repeat || op->build == node_repeat_back ? 1 : n;
        th_function_options options = {.isolate = true, .only_this_point = true, .time_limit = 10};
        th_function_report report = {0};
        th_status status = check_ggml(op->name, x, differentiated, op->build(c, x), &options, &report);
        if (status && !report.text[0])
            snprintf(report.text, sizeof report.text, "status %d", status);
        write_row(out, op, &report);
        ggml_free(c);
        fflush(stdout);
    }
    return fclose(out) != 0;
}

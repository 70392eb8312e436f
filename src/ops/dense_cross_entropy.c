/* dense_cross_entropy: cross_entropy(dense(x, weight), targets) for classifiers over many classes. A chunk of the
 * logits exists at a time: some rows are multiplied, turned into its loss, and while it is there into its gradient
 * and into what it adds to those of x and weight, so that the logits are computed once. The formulas of the loss are in
 * ops/class_loss.h, the rows that take no part in dW in ops/weight_gradient.h. */
#include "ops/shared/class_loss.h"
#include "ops/shared/product_call.h"
#include "ops/shared/scratch.h"
#include "ops/shared/weight_gradient.h"
#include "tensor/checked.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"

enum {
    X,
    WEIGHT,
    TARGETS,
    CHUNK_LOGITS = 2 << 20 /* of a chunk about, but at least TH_PRODUCT_BLOCK rows: dW is read and written once each */
};

static th_status dense_cross_entropy_shape(th_call *c)
{
    const th_array *x = &c->input[X], *weight = &c->input[WEIGHT], *targets = &c->input[TARGETS];
    if (th_call_floating(c, X) || th_call_floating(c, WEIGHT) || th_call_same_type(c) || th_call_index_type(c, TARGETS))
        return TH_ERROR_TYPE;
    if (weight->ndim != 2 || x->ndim == 0 || x->size[x->ndim - 1] != weight->size[1])
        return th_call_fail(c, TH_ERROR_SHAPE, "x is (N, E) and the weight (V, E), but x is %s, the weight %s",
                            TH_TEXT(x), TH_TEXT(weight));
    if (!th_class_loss_fits(x, targets))
        return th_call_fail(c, TH_ERROR_SHAPE, "x is (N, E) and targets (N), but x is %s, targets %s", TH_TEXT(x),
                            TH_TEXT(targets));
    if (weight->size[0] == 0)
        return th_call_fail(c, TH_ERROR_SHAPE, "the weight %s has no classes", TH_TEXT(weight));
    return th_class_loss_outputs(c, x, c->attributes);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whole blocks of dW's sum, so that chunks add up to the bits of one product. */
static int64_t chunk_rows(const th_call *c)
{
    const int64_t blocks = CHUNK_LOGITS / c->input[WEIGHT].size[0] / TH_PRODUCT_BLOCK;
    return least(th_array_numel(&c->input[TARGETS]), (blocks > 1 ? blocks : 1) * TH_PRODUCT_BLOCK);
}

/* Rows first .. first + count - 1 of a contiguous (N, columns). */
static th_array rows_of(const th_array *array, int64_t first, int64_t count)
{
    const int64_t columns = array->size[array->ndim - 1];
    th_array rows = {
        .given = array->given, .dtype = array->dtype, .ndim = 2, .size = {count, columns}, .stride = {columns, 1}};
    rows.data = array->data ? (char *)array->data + (size_t)(first * columns) * th_dtype_size(array->dtype) : NULL;
    return rows;
}

/* A chunk of rows and its three products. */
typedef struct chunk {
    th_array x, logits, kept; /* (n, E), (n, V), (n, 2) */
    th_product_call product;  /* logits = x weightᵀ */
    th_product_call dx, dw;   /* dx (+)= dlogits weight, dW (+)= dlogitsᵀ x: where they are given */
} chunk;

static chunk chunk_at(const th_call *c, int64_t first, int64_t count, void *logits)
{
    const th_array *weight = &c->input[WEIGHT], wt = th_array_transposed(weight);
    const int64_t classes = weight->size[0];
    chunk k = {.x = rows_of(&c->input[X], first, count),
               .kept = rows_of(&c->output[1], first, count),
               .logits = {.given = true,
                          .data = logits,
                          .dtype = weight->dtype,
                          .ndim = 2,
                          .size = {count, classes},
                          .stride = {classes, 1}}};
    k.product = th_product_call_of(&k.x, &wt, &k.logits, NULL, false);
    if (c->input_gradient[X].given) {
        const th_array dx = rows_of(&c->input_gradient[X], first, count);
        k.dx = th_product_call_of(&k.logits, weight, &dx, NULL, c->add[X]);
    }
    if (c->input_gradient[WEIGHT].given) {
        const th_array dlogits_t = th_array_transposed(&k.logits);
        k.dw = th_product_call_of(&dlogits_t, &k.x, &c->input_gradient[WEIGHT], NULL, c->add[WEIGHT] || first > 0);
    }
    return k;
}

/* Where a call's scratch memory goes. */
typedef struct layout {
    int64_t *target; /* (N) */
    double *loss;    /* (N) */
    void *logits;    /* (chunk, V) */
    void *copy;      /* of some rows of x, for dW */
    void *workspace; /* of one product, or of the rows of the loss */
} layout;

static int64_t copied(const th_call *c, const chunk *k)
{
    return c->input_gradient[WEIGHT].given ? th_weight_gradient_copy(&k->dw) : 0;
}

static layout lay_out(const th_call *c)
{
    const int64_t count = th_array_numel(&c->input[TARGETS]), rows = chunk_rows(c);
    const size_t element = th_dtype_size(c->input[X].dtype);
    const chunk k = chunk_at(c, 0, rows, NULL);
    char *left = c->scratch;
    layout l;
    l.target = th_scratch_take(&left, count, sizeof *l.target);
    l.loss = th_scratch_take(&left, count, sizeof *l.loss);
    l.logits = th_scratch_take(&left, rows * c->input[WEIGHT].size[0], element);
    l.copy = th_scratch_take(&left, copied(c, &k), element);
    l.workspace = left;
    return l;
}

/* What chunks of this many rows need of the workspace. */
static size_t workspace_of(const th_call *c, int64_t rows)
{
    const chunk k = chunk_at(c, 0, rows, NULL);
    size_t most = th_scratch_larger(th_product_call_workspace(c->ctx, &k.product),
                                    th_class_loss_scratch(c->ctx, &k.logits, &k.logits));
    if (c->input_gradient[X].given)
        most = th_scratch_larger(most, th_product_call_workspace(c->ctx, &k.dx));
    if (c->input_gradient[WEIGHT].given)
        most = th_scratch_larger(most, th_weight_gradient_workspace(c->ctx, &k.dw));
    return most;
}

static size_t dense_cross_entropy_scratch(const th_call *c, bool backward)
{
    if (backward && c->early)
        return 0;
    const int64_t count = th_array_numel(&c->input[TARGETS]), rows = chunk_rows(c);
    const size_t element = th_dtype_size(c->input[X].dtype);
    int64_t logits;
    if (!th_checked_multiply(rows, c->input[WEIGHT].size[0], &logits))
        return SIZE_MAX;
    const chunk k = chunk_at(c, 0, rows, NULL);
    size_t bytes = workspace_of(c, rows);
    if (rows > 0 && count % rows)
        bytes = th_scratch_larger(bytes, workspace_of(c, count % rows));
    bytes = th_scratch_add(bytes, count, sizeof(int64_t));
    bytes = th_scratch_add(bytes, count, sizeof(double));
    bytes = th_scratch_add(bytes, logits, element);
    return th_scratch_add(bytes, copied(c, &k), element);
}

/* dlogits in place of the logits, and what they add to dx and dW. */
static void add_gradients(const th_call *c, const chunk *k, const th_class_loss *loss, double factor, const layout *l)
{
    th_class_loss_backward(c->ctx, loss, factor, &k->logits, false, l->workspace);
    if (c->input_gradient[X].given)
        th_product_call_run(c->ctx, &k->dx, l->workspace);
    if (c->input_gradient[WEIGHT].given)
        th_weight_gradient_run(c->ctx, &k->dw, l->copy, l->workspace);
}

/* All chunks in order, an empty one where there are no rows: it clears dW. forward: their losses. */
static void run_chunks(const th_call *c, const layout *l, bool forward, bool gradients, double factor)
{
    const int64_t count = th_array_numel(&c->input[TARGETS]), rows = chunk_rows(c);
    int64_t first = 0;
    do {
        const chunk k = chunk_at(c, first, least(rows, count - first), l->logits);
        const th_class_loss loss = {.options = c->attributes,
                                    .logits = &k.logits,
                                    .target = l->target + first,
                                    .kept = c->output[1].given ? k.kept.data : NULL};
        th_product_call_run(c->ctx, &k.product, l->workspace);
        if (forward)
            th_class_loss_forward(c->ctx, &loss, l->loss + first, l->workspace);
        if (gradients)
            add_gradients(c, &k, &loss, factor, l);
        first += rows;
    } while (first < count);
}

static void dense_cross_entropy_forward(const th_call *c)
{
    const int64_t count = th_array_numel(&c->input[TARGETS]);
    const layout l = lay_out(c);
    const int64_t counted = th_class_loss_targets(c, TARGETS, c->input[WEIGHT].size[0], c->attributes, l.target);
    if (counted < 0)
        return;
    const double n = th_class_loss_normalizer(c->attributes, counted);
    run_chunks(c, &l, true, c->early, counted > 0 ? 1 / n : 0);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += l.loss[i];
    th_fill_array(c->ctx, &c->output[0], counted > 0 ? sum / n : 0);
}

/* With z = x Wᵀ and the gradient dz of the loss (ops/class_loss.h):
 *   dL/dx_ne = sum_v dL/dz_nv w_ve      dx = dz W
 *   dL/dw_ve = sum_n dL/dz_nv x_ne      dW = dzᵀ x, over the n that count
 * Forward has them for dL/dloss = 1 if it could; otherwise the logits of each chunk are computed again. */
static void dense_cross_entropy_backward(const th_call *c)
{
    const double dloss = th_number_load(c->output_gradient[0].dtype, c->output_gradient[0].data);
    if (c->early) {
        for (int i = X; i <= WEIGHT; i++)
            if (c->input_gradient[i].given && dloss != 1)
                TH_MAP(c, scale, &dloss, &c->input_gradient[i], false, &c->input_gradient[i]);
        return;
    }
    const layout l = lay_out(c);
    const int64_t counted = th_class_loss_targets(c, TARGETS, c->input[WEIGHT].size[0], c->attributes, l.target);
    if (counted < 0)
        return;
    run_chunks(c, &l, false, true, counted > 0 ? dloss / th_class_loss_normalizer(c->attributes, counted) : 0);
}

/* Of the logits, and of early gradients. */
static int64_t dense_cross_entropy_multiply_adds(const th_call *c)
{
    const th_array logits = {.ndim = 2, .size = {th_array_numel(&c->input[TARGETS]), c->input[WEIGHT].size[0]}};
    return th_multiply_adds(&logits, c->input[WEIGHT].size[1]);
}

static th_tensor *dense_cross_entropy_composed(const void *attributes, th_tensor *const *inputs, int n_inputs)
{
    (void)n_inputs;
    return (th_cross_entropy)((th_dense)(inputs[X], inputs[WEIGHT], NULL), inputs[TARGETS], attributes);
}

static const th_cross_entropy_options mean = {0}, all = {.normalizer = 7.5, TH_IGNORE(0), .label_smoothing = 0.1},
                                      ignoring = {TH_IGNORE(1)};

#define CLASSES(count) .kind = TH_SAMPLE_INDEX, .low = 0, .high = (count)
static const th_sample dense_cross_entropy_samples[] = {
    {"mean", &mean, 3, {{.shape = {2, {4, 3}}}, {.shape = {2, {5, 3}}}, {.shape = {1, {4}}, CLASSES(5)}}, 0},
    {"sequence", &mean, 3, {{.shape = {3, {2, 3, 3}}}, {.shape = {2, {3, 3}}}, {.shape = {2, {2, 3}}, CLASSES(3)}}, 0},
    {"all options", &all, 3, {{.shape = {2, {5, 2}}}, {.shape = {2, {3, 2}}}, {.shape = {1, {5}}, CLASSES(3)}}, 0},
    {"one row", &mean, 3, {{.shape = {1, {3}}}, {.shape = {2, {4, 3}}}, {.shape = {0, {0}}, CLASSES(4)}}, 0},
    {"no counted target",
     &ignoring,
     3,
     {{.shape = {2, {2, 3}}},
      {.shape = {2, {3, 3}}},
      {.shape = {1, {2}}, .kind = TH_SAMPLE_INDEX, .low = 1, .high = 2}},
     0},
    {"no rows", &mean, 3, {{.shape = {2, {0, 3}}}, {.shape = {2, {3, 3}}}, {.shape = {1, {0}}, CLASSES(3)}}, 0},
    {.name = NULL},
};

const th_op th_op_dense_cross_entropy = {
    .name = "dense_cross_entropy",
    .value = "loss = sum over counted rows of -log softmax(x Wᵀ)[target] / n",
    .gradient = "dz = dloss / n * (softmax(x Wᵀ) - one_hot(target)), 0 where not counted; dx = dz W, dW = dzᵀ x",
    .n_inputs = 3,
    .early = TH_SAVE_INPUT(X) | TH_SAVE_INPUT(WEIGHT),
    .n_outputs = 2,
    .attributes_size = sizeof(th_cross_entropy_options),
    .flags = TH_OP_CONTIGUOUS,
    .saves = TH_SAVE_INPUT(X) | TH_SAVE_INPUT(WEIGHT) | TH_SAVE_INPUT(TARGETS) | TH_SAVE_OUTPUT(1),
    .shape = dense_cross_entropy_shape,
    .forward = dense_cross_entropy_forward,
    .backward = dense_cross_entropy_backward,
    .scratch = dense_cross_entropy_scratch,
    .multiply_adds = dense_cross_entropy_multiply_adds,
    .composed = dense_cross_entropy_composed,
    .samples = dense_cross_entropy_samples,
};

th_tensor *(th_dense_cross_entropy)(th_tensor *x, th_tensor *weight, th_tensor *targets,
                                    const th_cross_entropy_options *options)
{
    const th_cross_entropy_options attributes = options ? *options : (th_cross_entropy_options){0};
    return th_apply(&th_op_dense_cross_entropy, &attributes, x, weight, targets);
}

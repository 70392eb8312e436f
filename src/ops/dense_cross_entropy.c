/* dense_cross_entropy: cross_entropy(dense(x, weight), targets) for classifiers over many classes. A chunk of the
 * logits exists at a time: some rows are multiplied, turned into its loss, and while it is there into its gradient
 * and into what it adds to those of x and weight, so that the logits are computed once. The formulas of the loss are in
 * class_loss.h, the rows that take no part in dW in weight_gradient.h. */
#include "ops/shared/class_loss.h"
#include "ops/shared/weight_gradient.h"
#include "tensor/checked.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"

enum { X, WEIGHT, TARGETS };
enum { LOSS, KEPT };
enum {
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

/* Whole blocks of dW's sum, so that chunks add up to the bits of one product. */
static int64_t chunk_rows(const th_call *c)
{
    const int64_t blocks = CHUNK_LOGITS / c->input[WEIGHT].size[0] / TH_PRODUCT_BLOCK;
    const int64_t rows = (blocks > 1 ? blocks : 1) * TH_PRODUCT_BLOCK, all = th_array_numel(&c->input[TARGETS]);
    return rows < all ? rows : all;
}

/* The products of a chunk of rows, whose logits (rows, V) come and go. Their pointers are those of the chunk that is
 * run. */
typedef struct chunk {
    int64_t rows;
    th_product_call logits; /* = x weightᵀ */
    th_product_call dx;     /* (+)= dlogits weight, */
    th_weight_gradient dw;  /* (+)= dlogitsᵀ x: where they are wanted */
} chunk;

typedef struct plan {
    size_t target, loss; /* the places of targets (N) and of the losses of rows (N), */
    size_t logits;       /* of those of one chunk */
    chunk whole, last;   /* last: with fewer rows than the others, if there is one */
} plan;

static th_array matrix(th_dtype dtype, int64_t rows, int64_t columns)
{
    return (th_array){.given = true, .dtype = dtype, .ndim = 2, .size = {rows, columns}, .stride = {columns, 1}};
}

/* Its steps use the same memory one after the other, and so does the next chunk. */
static chunk plan_chunk(const th_call *c, int64_t rows)
{
    const th_array *weight = &c->input[WEIGHT], wt = th_array_transposed(weight);
    const th_array x = matrix(weight->dtype, rows, weight->size[1]), logits = matrix(weight->dtype, rows, wt.size[1]);
    chunk k = {.rows = rows, .logits = th_product_call_of(&x, &wt, &logits)};
    th_product_call_reserve(c, &k.logits);
    th_plan_reuse(c, k.logits.workspace);
    if (c->input_gradient[X].given) {
        k.dx = th_product_call_of(&logits, weight, &x);
        th_product_call_reserve(c, &k.dx);
        th_plan_reuse(c, k.logits.workspace);
    }
    if (c->input_gradient[WEIGHT].given) {
        k.dw = th_weight_gradient_of(&logits, &x, &c->input_gradient[WEIGHT]);
        th_weight_gradient_reserve(c, &k.dw);
        th_plan_reuse(c, k.logits.workspace);
    }
    return k;
}

static void dense_cross_entropy_plan(const th_call *c, bool backward, void *memory)
{
    plan *p = memory;
    if (backward && c->early)
        return;
    const int64_t count = th_array_numel(&c->input[TARGETS]), rows = chunk_rows(c);
    int64_t logits = -1; /* when that many overflow */
    const bool fits = th_checked_multiply(rows, c->input[WEIGHT].size[0], &logits);
    p->target = th_plan_scratch(c, count, sizeof(int64_t));
    p->loss = th_plan_scratch(c, backward ? 0 : count, sizeof(double));
    p->logits = th_plan_scratch(c, logits, th_dtype_size(c->input[X].dtype));
    if (!fits)
        return;
    p->whole = plan_chunk(c, rows);
    if (rows > 0 && count % rows)
        p->last = plan_chunk(c, count % rows);
}

/* Row `first` of a contiguous (N, columns); NULL of what is not given. */
static void *row_at(const th_array *array, int64_t first)
{
    if (array->data == NULL)
        return NULL;
    return (char *)array->data + first * array->size[array->ndim - 1] * (int64_t)th_dtype_size(array->dtype);
}

/* The chunk whose first row this is. */
static chunk chunk_at(const th_call *c, int64_t first)
{
    const plan *p = c->plan;
    const int64_t left = th_array_numel(&c->input[TARGETS]) - first;
    chunk k = left < p->whole.rows ? p->last : p->whole;
    k.logits.product.a = k.dw.product.product.b = row_at(&c->input[X], first);
    k.logits.product.c = th_call_scratch(c, p->logits);
    k.dx.product.a = k.dw.product.product.a = k.logits.product.c;
    k.dx.product.c = row_at(&c->input_gradient[X], first);
    return k;
}

/* All chunks in order, an empty one where there are no rows: it clears dW. Their losses, unless `loss` is NULL;
 * gradients: dlogits in place of the logits, and what they add to dx and dW. */
static void run_chunks(const th_call *c, const int64_t *target, double *loss, bool gradients, double factor)
{
    const int64_t count = th_array_numel(&c->input[TARGETS]);
    int64_t first = 0;
    do {
        const chunk k = chunk_at(c, first);
        th_array logits = matrix(c->input[X].dtype, k.rows, k.logits.product.n);
        logits.data = k.logits.product.c;
        void *kept = row_at(&c->output[KEPT], first);
        th_product_call_run(c, &k.logits, false);
        if (loss) {
            const th_class_loss value = th_class_loss_of(c, &logits, NULL, false);
            th_class_loss_forward(c, &value, target + first, kept, loss + first);
        }
        if (gradients) {
            const th_class_loss gradient = th_class_loss_of(c, &logits, &logits, false);
            th_class_loss_backward(c, &gradient, target + first, kept, factor, false);
            if (c->input_gradient[X].given)
                th_product_call_run(c, &k.dx, c->add[X]);
            if (c->input_gradient[WEIGHT].given)
                th_weight_gradient_run(c, &k.dw, c->add[WEIGHT] || first > 0);
        }
        first += k.rows;
    } while (first < count);
}

static void dense_cross_entropy_forward(const th_call *c)
{
    const plan *p = c->plan;
    int64_t *target = th_call_scratch(c, p->target);
    double *loss = th_call_scratch(c, p->loss);
    const int64_t counted = th_class_loss_targets(c, TARGETS, c->input[WEIGHT].size[0], c->attributes, target);
    if (counted < 0)
        return;
    run_chunks(c, target, loss, c->early, th_class_loss_mean(c->attributes, counted, 1));
    th_class_loss_put(c, th_array_numel(&c->input[TARGETS]), loss, counted);
}

/* With z = x Wᵀ and the gradient dz of the loss (class_loss.h):
 *   dL/dx_ne = sum_v dL/dz_nv w_ve      dx = dz W
 *   dL/dw_ve = sum_n dL/dz_nv x_ne      dW = dzᵀ x, over the n that count
 * Forward has them for dL/dloss = 1 if it could; otherwise the logits of each chunk are recomputed. */
static void dense_cross_entropy_backward(const th_call *c)
{
    const plan *p = c->plan;
    const double dloss = th_number_load(c->output_gradient[LOSS].dtype, c->output_gradient[LOSS].data);
    if (c->early) {
        for (int i = X; i <= WEIGHT; i++)
            if (c->input_gradient[i].given && dloss != 1)
                TH_MAP(c, scale, &dloss, &c->input_gradient[i], false, &c->input_gradient[i]);
        return;
    }
    int64_t *target = th_call_scratch(c, p->target);
    const int64_t counted = th_class_loss_targets(c, TARGETS, c->input[WEIGHT].size[0], c->attributes, target);
    if (counted >= 0)
        run_chunks(c, target, NULL, true, th_class_loss_mean(c->attributes, counted, dloss));
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

#define CLASSES(count) .kind = TH_SAMPLE_INDEX, .high = (count)
static const th_sample dense_cross_entropy_samples[] = {
    {"mean", &mean, 3, {{.shape = {2, {4, 3}}}, {.shape = {2, {5, 3}}}, {.shape = {1, {4}}, CLASSES(5)}}, 0},
    {"sequence", &mean, 3, {{.shape = {3, {2, 3, 3}}}, {.shape = {2, {3, 3}}}, {.shape = {2, {2, 3}}, CLASSES(3)}}, 0},
    {"all options", &all, 3, {{.shape = {2, {5, 2}}}, {.shape = {2, {3, 2}}}, {.shape = {1, {5}}, CLASSES(3)}}, 0},
    {"one row", &mean, 3, {{.shape = {1, {3}}}, {.shape = {2, {4, 3}}}, {.shape = {0, {0}}, CLASSES(4)}}, 0},
    {"no counted target", &ignoring, 3,
     .input = {{.shape = {2, {2, 3}}},
               {.shape = {2, {3, 3}}},
               {.shape = {1, {2}}, .kind = TH_SAMPLE_INDEX, .low = 1, .high = 2}}},
    {"no rows", &mean, 3, {{.shape = {2, {0, 3}}}, {.shape = {2, {3, 3}}}, {.shape = {1, {0}}, CLASSES(3)}}, 0},
    {.name = NULL},
};

const th_op th_op_dense_cross_entropy = {
    .name = "dense_cross_entropy",
    .value = "loss = sum over counted rows of -log softmax(x Wᵀ)[target] / n",
    .gradient = "dz = dloss / n * (softmax(x Wᵀ) - one_hot(target)), 0 where not counted; dx = dz W, dW = dzᵀ x",
    .n_inputs = 3,
    .early = TH_INPUT(X) | TH_INPUT(WEIGHT),
    .n_outputs = 2,
    .attributes_size = sizeof(th_cross_entropy_options),
    .flags = TH_OP_CONTIGUOUS,
    .saves = TH_INPUT(X) | TH_INPUT(WEIGHT) | TH_INPUT(TARGETS) | TH_OUTPUT(KEPT),
    .shape = dense_cross_entropy_shape,
    .forward = dense_cross_entropy_forward,
    .backward = dense_cross_entropy_backward,
    .plan = dense_cross_entropy_plan,
    .plan_size = sizeof(plan),
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

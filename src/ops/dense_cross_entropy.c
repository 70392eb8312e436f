/* dense_cross_entropy: loss = cross_entropy(x Wᵀ, targets), for classifiers over many classes.
 *
 * Only a chunk of the logits exists at a time. The logits of a chunk of rows are computed and reduced to the losses of
 * these rows. Forward can then also compute the gradient of the chunk and add it to the gradients of x and weight, so
 * that the logits are computed only once. The formulas of the loss are in shared/class_loss.h; shared/weight_gradient.h
 * says which rows take part in dW. */
#include "kernels/dtype.h"
#include "ops/shared/class_loss.h"
#include "ops/shared/stored_weight.h"
#include "ops/shared/weight_gradient.h"
#include "tensor/checked.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"

enum { X, WEIGHT, TARGETS };
enum { LOSS, SAVED };
enum {
    CHUNK_LOGITS = 2 << 20,   /* for a chunk, but at least TH_PRODUCT_BLOCK rows: each chunk reads and writes dW once */
    LEAST_STORED_ROWS = 48,   /* of a chunk with a stored weight: with fewer, packing the weight takes too much time */
    ENOUGH_STORED_ROWS = 192, /* with more, products are not faster */
    MOST_STORED_LOGITS = 12 << 20, /* for a chunk with at least LEAST_STORED_ROWS rows: 48 MiB in float32 */
    STORED_ROW_UNIT = 12           /* whole tiles of a product */
};

static th_status dense_cross_entropy_shape(th_call *call)
{
    const th_array *x = &call->input[X], *targets = &call->input[TARGETS];
    th_array numbers;
    const th_array *weight = &numbers;
    if (th_call_floating(call, X) || th_call_weight(call, WEIGHT, &numbers) || th_call_same_type(call) ||
        th_call_index_type(call, TARGETS))
        return TH_ERROR_TYPE;
    if (weight->ndim != 2 || x->ndim == 0 || x->size[x->ndim - 1] != weight->size[1])
        return th_call_fail(call, TH_ERROR_SHAPE, "x is (N, E) and the weight (V, E), but x is %s, the weight %s",
                            TH_TEXT(x), TH_TEXT(weight));
    if (!th_class_loss_fits(x, targets))
        return th_call_fail(call, TH_ERROR_SHAPE, "x is (N, E) and targets (N), but x is %s, targets %s", TH_TEXT(x),
                            TH_TEXT(targets));
    if (weight->size[0] == 0)
        return th_call_fail(call, TH_ERROR_SHAPE, "the weight %s has no classes", TH_TEXT(weight));
    return th_class_loss_outputs(call, x, call->attributes);
}

/* Returns the number of rows of a chunk with a stored weight, whose gradient is not computed. The logits are the
 * largest tensor of a short step. So a chunk has a third of the rows, within limits, and fewer if there are very many
 * classes. */
static int64_t stored_chunk_rows(int64_t all_rows, int64_t classes)
{
    const int64_t third = (all_rows + 2) / 3, rows_of_logits = CHUNK_LOGITS / classes;
    const int64_t most_rows = MOST_STORED_LOGITS / classes / STORED_ROW_UNIT * STORED_ROW_UNIT;
    const int64_t enough = most_rows < ENOUGH_STORED_ROWS ? most_rows : ENOUGH_STORED_ROWS;
    const int64_t wanted = third < enough ? third : enough;
    const int64_t rows = wanted > LEAST_STORED_ROWS ? wanted : LEAST_STORED_ROWS;
    return rows_of_logits > rows ? rows_of_logits : rows;
}

/* Returns the number of rows of a chunk. Chunks are whole blocks of the sum dW, except a short last one, so that they
 * add up to the bits of one product. Every chunk reads and packs all weights twice, and reads and writes all of dW.
 * Products of bfloat16 parts wait for this memory traffic, so then a chunk has at least two blocks. */
static int64_t chunk_rows(const th_call *call)
{
    const int64_t blocks = CHUNK_LOGITS / call->input[WEIGHT].size[0] / TH_PRODUCT_BLOCK;
    const bool parts = th_long_sum_precision(&call->ctx->machine, call->input[X].dtype) != TH_PRECISION_FLOAT32;
    const int64_t least = parts ? 2 : 1;
    const int64_t all = th_array_numel(&call->input[TARGETS]);
    const int64_t rows = th_is_storage_type(call->input[WEIGHT].dtype) && !parts
                             ? stored_chunk_rows(all, call->input[WEIGHT].size[0])
                             : (blocks > least ? blocks : least) * TH_PRODUCT_BLOCK;
    return rows < all ? rows : all;
}

/* The products of a chunk of rows with its logits (rows, V). chunk_at sets their pointers. */
typedef struct chunk {
    int64_t rows;
    th_product_call logits; /* = x weightᵀ */
    th_product_call dx;     /* (+)= dlogits weight, if requested */
    th_weight_gradient dw;  /* (+)= dlogitsᵀ x, if requested */
} chunk;

typedef struct plan {
    size_t target, loss, logits; /* offsets of targets (N), losses of rows (N) and the logits of a chunk */
    chunk whole, last;           /* last: for a last chunk with fewer rows */
} plan;

static th_array contiguous_matrix(th_dtype dtype, int64_t rows, int64_t columns)
{
    return (th_array){.given = true, .dtype = dtype, .ndim = 2, .size = {rows, columns}, .stride = {columns, 1}};
}

/* The products of a chunk use the same scratch memory one after the other. The next chunk uses it again. */
static chunk plan_chunk(const th_call *call, int64_t rows)
{
    const th_dtype dtype = call->input[X].dtype;
    const th_array weight = th_weight_numbers(&call->input[WEIGHT]), wt = th_array_transposed(&weight);
    const th_array x = contiguous_matrix(dtype, rows, weight.size[1]),
                   logits = contiguous_matrix(dtype, rows, wt.size[1]);
    chunk k = {.rows = rows, .logits = th_product_call_of(&x, &wt, &logits)};
    th_product_call_reserve(call, &k.logits);
    th_plan_reuse(call, k.logits.workspace);
    if (call->input_gradient[X].given) {
        k.dx = th_product_call_of(&logits, &weight, &x);
        th_product_call_reserve(call, &k.dx);
        th_plan_reuse(call, k.logits.workspace);
    }
    if (call->input_gradient[WEIGHT].given) {
        k.dw = th_weight_gradient_of(&logits, &x, &call->input_gradient[WEIGHT]);
        k.dw.product.product.long_sum = th_array_numel(&call->input[TARGETS]) >= TH_SHORT_SUM;
        th_weight_gradient_reserve(call, &k.dw);
        th_plan_reuse(call, k.logits.workspace);
    }
    return k;
}

static void dense_cross_entropy_plan(const th_call *call, bool backward, void *memory)
{
    plan *p = memory;
    if (backward && call->precomputed)
        return;
    const int64_t count = th_array_numel(&call->input[TARGETS]), rows = chunk_rows(call);
    int64_t logits = -1; /* if the number overflows */
    const bool fits = th_checked_multiply(rows, call->input[WEIGHT].size[0], &logits);
    p->target = th_plan_scratch(call, count, sizeof(int64_t));
    p->loss = th_plan_scratch(call, backward ? 0 : count, sizeof(double));
    p->logits = th_plan_scratch(call, logits, th_dtype_size(call->input[X].dtype));
    if (!fits)
        return;
    p->whole = plan_chunk(call, rows);
    if (rows > 0 && count % rows)
        p->last = plan_chunk(call, count % rows);
}

/* Returns row `first` of a contiguous array (N, columns), or NULL if the array has no data. */
static void *row_at(const th_array *array, int64_t first)
{
    if (array->data == NULL)
        return NULL;
    return (char *)array->data + first * array->size[array->ndim - 1] * (int64_t)th_dtype_size(array->dtype);
}

/* Returns the chunk that starts at row `first`, with its pointers. */
static chunk chunk_at(const th_call *call, int64_t first)
{
    const plan *p = call->plan;
    const int64_t left = th_array_numel(&call->input[TARGETS]) - first;
    chunk k = left < p->whole.rows ? p->last : p->whole;
    k.logits.product.a = k.dw.product.product.b = row_at(&call->input[X], first);
    k.logits.product.c = th_call_scratch(call, p->logits);
    k.dx.product.a = k.dw.product.product.a = k.logits.product.c;
    k.dx.product.c = row_at(&call->input_gradient[X], first);
    return k;
}

/* Runs all chunks in order. Without rows it runs an empty chunk, which clears dW. Writes the losses of rows unless
 * `loss` is NULL. With gradients, overwrites the logits with dlogits and adds to dx and dW. */
static void run_chunks(const th_call *call, const int64_t *target, double *loss, bool gradients, double factor)
{
    const int64_t count = th_array_numel(&call->input[TARGETS]);
    int64_t first = 0;
    do {
        const chunk k = chunk_at(call, first);
        th_array logits = contiguous_matrix(call->input[X].dtype, k.rows, k.logits.product.n);
        logits.data = k.logits.product.c;
        void *saved = row_at(&call->output[SAVED], first);
        th_product_call_run(call, &k.logits, false);
        if (loss) {
            const th_class_loss value = th_class_loss_of(call, &logits, NULL, false);
            th_class_loss_forward(call, &value, target + first, saved, loss + first);
        }
        if (gradients) {
            const th_class_loss gradient = th_class_loss_of(call, &logits, &logits, false);
            th_class_loss_backward(call, &gradient, target + first, saved, factor);
            if (call->input_gradient[X].given)
                th_product_call_run(call, &k.dx, call->add[X]);
            if (call->input_gradient[WEIGHT].given)
                th_weight_gradient_run(call, &k.dw, call->add[WEIGHT] || first > 0);
        }
        first += k.rows;
    } while (first < count);
}

static void dense_cross_entropy_forward(const th_call *call)
{
    const plan *p = call->plan;
    int64_t *target = th_call_scratch(call, p->target);
    double *loss = th_call_scratch(call, p->loss);
    const int64_t counted = th_class_loss_targets(call, TARGETS, call->input[WEIGHT].size[0], call->attributes, target);
    if (counted < 0)
        return;
    run_chunks(call, target, loss, call->precomputed, th_class_loss_mean(call->attributes, counted, 1));
    th_class_loss_store(call, th_array_numel(&call->input[TARGETS]), loss, counted);
}

/* With z = x Wᵀ and the gradient dz of the loss (class_loss.h):
 *   dL/dx_ne = sum_v dL/dz_nv w_ve      dx = dz W
 *   dL/dw_ve = sum_n dL/dz_nv x_ne      dW = dzᵀ x, over the n that count
 * If forward has computed them for dL/dloss = 1, they are scaled. Otherwise the logits of each chunk are recomputed. */
static void dense_cross_entropy_backward(const th_call *call)
{
    const plan *p = call->plan;
    const double dloss = th_number_read(call->output_gradient[LOSS].dtype, call->output_gradient[LOSS].data);
    if (call->precomputed) {
        for (int i = X; i <= WEIGHT; i++)
            if (call->input_gradient[i].given && dloss != 1)
                TH_ELEMENTWISE(call, scale, &dloss, &call->input_gradient[i], false, &call->input_gradient[i]);
        return;
    }
    int64_t *target = th_call_scratch(call, p->target);
    const int64_t counted = th_class_loss_targets(call, TARGETS, call->input[WEIGHT].size[0], call->attributes, target);
    if (counted >= 0)
        run_chunks(call, target, NULL, true, th_class_loss_mean(call->attributes, counted, dloss));
}

/* Counts only the multiply-adds of the logits. The products of the precomputed gradients do not count. */
static int64_t dense_cross_entropy_multiply_adds(const th_call *call)
{
    const th_array logits = {.ndim = 2, .size = {th_array_numel(&call->input[TARGETS]), call->input[WEIGHT].size[0]}};
    return th_multiply_adds(&logits, th_weight_numbers(&call->input[WEIGHT]).size[1]);
}

static th_tensor *dense_cross_entropy_composed(const void *attributes, th_tensor *const *inputs, int n_inputs)
{
    (void)n_inputs;
    th_tensor *weight = th_weight_like(inputs[WEIGHT], inputs[X]);
    return th_cross_entropy(th_dense(inputs[X], weight, NULL), inputs[TARGETS], attributes);
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
    {"bfloat16 weight", &mean, 3,
     .input = {{.shape = {2, {4, 3}}},
               {.shape = {2, {5, 3}}, .storage = TH_BFLOAT16},
               {.shape = {1, {4}}, CLASSES(5)}}},
    {"q8_0 weight, all options", &all, 3,
     .input = {{.shape = {2, {3, 32}}}, {.shape = {2, {3, 32}}, .storage = TH_Q8_0}, {.shape = {1, {3}}, CLASSES(3)}}},
    {.name = NULL},
};

const th_op th_op_dense_cross_entropy = {
    .name = "dense_cross_entropy",
    .value = "loss = sum over counted rows of -log softmax(x Wᵀ)[target] / n",
    .gradient = "dz = dloss / n * (softmax(x Wᵀ) - one_hot(target)), 0 where not counted; dx = dz W, dW = dzᵀ x",
    .n_inputs = 3,
    .precomputed = TH_INPUT(X) | TH_INPUT(WEIGHT),
    .n_outputs = 2,
    .attributes_size = sizeof(th_cross_entropy_options),
    .flags = TH_OP_CONTIGUOUS,
    .saves = TH_INPUT(X) | TH_INPUT(WEIGHT) | TH_INPUT(TARGETS) | TH_OUTPUT(SAVED),
    .shape = dense_cross_entropy_shape,
    .forward = dense_cross_entropy_forward,
    .backward = dense_cross_entropy_backward,
    .plan = dense_cross_entropy_plan,
    .plan_size = sizeof(plan),
    .multiply_adds = dense_cross_entropy_multiply_adds,
    .composed = dense_cross_entropy_composed,
    .samples = dense_cross_entropy_samples,
    .storage = TH_INPUT(WEIGHT),
};

th_tensor *th_dense_cross_entropy(th_tensor *x, th_tensor *weight, th_tensor *targets,
                                  const th_cross_entropy_options *options)
{
    const th_cross_entropy_options attributes = options ? *options : (th_cross_entropy_options){0};
    return th_apply(&th_op_dense_cross_entropy, &attributes, x, weight, targets);
}

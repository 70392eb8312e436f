/* Heads for classification, regression and spans: pooling, a transform, an output; and the loss of their logits. */
#include "nn/head.h"

#include <stdlib.h>
#include <string.h>

#include "tapehead/layers.h"
#include "tapehead/losses.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/memory.h"
#include "tensor/tensor.h"
#include "tensor/utf8.h"

typedef struct head {
    th_module base;
    th_head_options options;     /* without names */
    th_module *transform, *norm; /* or NULL */
    th_module *output;
} head;

/* -- names of labels -- */

static size_t bytes_of_names(const char *const *names, int64_t count)
{
    size_t bytes = (size_t)count * sizeof *names;
    for (int64_t i = 0; i < count; i++)
        bytes += strlen(names[i]) + 1;
    return bytes;
}

const char *const *th_label_names_copy(th_context *ctx, const char *operation, const char *const *names, int64_t count)
{
    if (names == NULL)
        return NULL;
    const size_t bytes = bytes_of_names(names, count);
    const char **copy = th_allocate(ctx, bytes);
    if (copy == NULL) {
        (void)th_fail_memory(ctx, operation, bytes);
        return NULL;
    }
    char *text = (char *)(copy + count);
    for (int64_t i = 0; i < count; i++) {
        const size_t length = strlen(names[i]) + 1;
        copy[i] = memcpy(text, names[i], length);
        text += length;
    }
    return copy;
}

void th_label_names_release(th_context *ctx, const char *const *names, int64_t count)
{
    if (names)
        th_release(ctx, (void *)(uintptr_t)names, bytes_of_names(names, count));
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static th_status check_different(th_context *ctx, const char *operation, const char *const *names, int64_t count)
{
    const size_t bytes = (size_t)count * sizeof *names;
    const char **sorted = th_allocate(ctx, bytes);
    if (sorted == NULL)
        return th_fail_memory(ctx, operation, bytes);
    memcpy(sorted, names, bytes);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_names);
    for (int64_t i = 1; i < count && !th_failed(ctx); i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            th_fail(ctx, TH_ERROR_ARGUMENT, operation, "two labels have the name \"%.60s\"", sorted[i]);
    th_release(ctx, sorted, bytes);
    return ctx->error;
}

static th_status check_names(th_context *ctx, const char *operation, const th_head_options *o)
{
    for (int64_t i = 0; i < o->labels; i++)
        if (o->label_names[i] == NULL || !th_is_utf8(o->label_names[i]))
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "head.label_names[%lld] is %s", (long long)i,
                           o->label_names[i] ? "not UTF-8" : "NULL");
    return check_different(ctx, operation, o->label_names, o->labels);
}

/* -- options -- */

th_status th_head_check(th_context *ctx, const char *operation, const th_head_options *o)
{
    if ((unsigned)o->kind > TH_HEAD_SPANS)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "unknown kind of head: %d", (int)o->kind);
    if (o->kind == TH_HEAD_NONE)
        return TH_OK;
    if (o->kind == TH_HEAD_SPANS && o->labels != 0 && o->labels != 2)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                       "head.labels = %lld must be 2 or 0: spans have a first and a last token", (long long)o->labels);
    if (o->kind != TH_HEAD_SPANS && (o->labels < 1 || o->labels > INT32_MAX))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "head.labels = %lld must be positive and below 2^31",
                       (long long)o->labels);
    if ((unsigned)o->problem > TH_PROBLEM_REGRESSION)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "unknown head.problem: %d", (int)o->problem);
    if ((unsigned)o->pooling > TH_POOL_LAST)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "unknown head.pooling: %d", (int)o->pooling);
    if ((unsigned)o->activation > TH_TANH)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "unknown head.activation: %d", (int)o->activation);
    if (th_check_rate(ctx, operation, "head.dropout", o->dropout) != TH_OK)
        return ctx->error;
    return o->label_names && o->labels > 0 ? check_names(ctx, operation, o) : TH_OK;
}

void th_head_fill_defaults(th_head_options *o, double dropout)
{
    if (o->kind == TH_HEAD_NONE)
        return;
    if (o->labels == 0) {
        o->labels = 2;
        o->label_names = NULL;
    }
    if (o->dropout == 0 && o->kind != TH_HEAD_SPANS)
        o->dropout = dropout;
}

/* -- the module -- */

static th_tensor *head_forward(th_module *m, th_tensor *x)
{
    const head *h = (const head *)m;
    const th_head_options *o = &h->options;
    if (h->transform) {
        x = o->input_dropout ? th_dropout(x, o->dropout) : x;
        x = th_activate(th_module_forward(h->transform, x), o->activation);
    }
    if (h->norm)
        x = th_module_forward(h->norm, x);
    return th_module_forward(h->output, th_dropout(x, o->dropout));
}

static const th_module_option head_options[] = {TH_MODULE_CHOICE(head, options.kind),
                                                TH_MODULE_CHOICE(head, options.problem),
                                                TH_MODULE_CHOICE(head, options.pooling),
                                                TH_MODULE_CHOICE(head, options.activation),
                                                TH_MODULE_FLAG(head, options.input_dropout),
                                                TH_MODULE_REAL(head, options.dropout),
                                                {.name = NULL}};
static const th_module_type head_type = {
    .name = "head", .bytes = sizeof(head), .forward = head_forward, .options = head_options};

th_module *th_head_new(th_context *ctx, int64_t width, const th_head_options *options,
                       const th_transformer_block_options *block)
{
    head *h = th_module_new_of_type(ctx, &head_type);
    if (h == NULL)
        return NULL;
    h->options = *options;
    h->options.label_names = NULL;
    if (options->transform)
        h->transform =
            th_module_add(&h->base, "transform",
                          th_dense_new(ctx, width, width, &(th_dense_layer_options){.no_bias = block->no_bias}));
    if (options->norm)
        h->norm = th_module_add(&h->base, "norm", th_block_norm_new(ctx, width, block));
    h->output = th_module_add(&h->base, "output", th_dense_new(ctx, width, options->labels, NULL));
    return th_module_finish(&h->base);
}

static th_status initialize_dense(th_module *dense, th_weight_draw draw)
{
    if (th_draw_weight(th_module_find_parameter(dense, "weight"), draw) != TH_OK)
        return dense->ctx->error;
    th_tensor *bias = th_module_find_parameter(dense, "bias");
    return bias ? th_fill(bias, 0) : TH_OK;
}

th_status th_head_initialize(th_module *m, th_weight_draw draw)
{
    const head *h = (const head *)m;
    if (h->transform && initialize_dense(h->transform, draw) != TH_OK)
        return m->ctx->error;
    return initialize_dense(h->output, draw);
}

/* Returns logits (B, T, 2) with PADDING_LOGIT for padding, so that no answer begins or ends there. */
static th_tensor *without_padding(th_tensor *logits, th_tensor *lengths)
{
    static const double PADDING_LOGIT = -1e9; /* its exponential is 0 */
    if (logits == NULL || lengths == NULL)
        return logits;
    th_context *ctx = th_context_of(logits);
    th_tensor *number = th_arange(ctx, th_dtype_of(lengths), 0, (double)th_size(logits, 1), 1);
    th_tensor *valid = th_less(number, th_unsqueeze(lengths, 1)); /* (B, T) */
    return th_where(th_unsqueeze(valid, 2), logits, th_full(ctx, th_dtype_of(logits), TH_SHAPE(1), PADDING_LOGIT));
}

th_tensor *th_head_logits(th_module *m, th_tensor *x, th_tensor *lengths)
{
    const head *h = (const head *)m;
    if (h->options.kind == TH_HEAD_SEQUENCE)
        return th_module_forward(m, th_pooling(x, lengths, h->options.pooling));
    th_tensor *logits = th_module_forward(m, x);
    return h->options.kind == TH_HEAD_SPANS ? without_padding(logits, lengths) : logits;
}

/* -- the loss -- */

static th_problem problem_of(const th_head_options *o, const th_tensor *targets)
{
    if (o->problem != TH_PROBLEM_BY_TARGETS)
        return o->problem;
    if (o->labels == 1)
        return TH_PROBLEM_REGRESSION;
    return th_is_floating(th_dtype_of(targets)) ? TH_PROBLEM_SEVERAL_LABELS : TH_PROBLEM_ONE_LABEL;
}

/* Returns the mean squared error of logits (B, L). Targets (B) are those of one label. */
static th_tensor *regression_loss(th_tensor *logits, th_tensor *targets)
{
    if (th_ndim(targets) == 1 && th_size(logits, -1) == 1)
        targets = th_unsqueeze(targets, 1);
    const th_shape a = th_shape_of(logits), b = th_shape_of(targets);
    if (targets && (a.ndim != b.ndim || memcmp(a.size, b.size, (size_t)a.ndim * sizeof a.size[0]) != 0)) {
        th_fail(th_context_of(logits), TH_ERROR_SHAPE, "head_loss", "targets are %s; the logits are %s",
                TH_SIZES_TEXT(b.ndim, b.size), TH_SIZES_TEXT(a.ndim, a.size));
        return NULL;
    }
    return th_mse(logits, targets);
}

static th_tensor *sequence_loss(const th_head_options *o, th_tensor *logits, th_tensor *targets,
                                const th_cross_entropy_options *options)
{
    switch (problem_of(o, targets)) {
    case TH_PROBLEM_REGRESSION:
        return regression_loss(logits, targets);
    case TH_PROBLEM_SEVERAL_LABELS:
        return th_binary_cross_entropy(logits, targets, NULL);
    case TH_PROBLEM_ONE_LABEL:
    case TH_PROBLEM_BY_TARGETS:
        break;
    }
    return th_cross_entropy(logits, targets, options);
}

/* Returns the mean of the losses of the first and of the last token: each is a class among the T tokens. */
static th_tensor *span_loss(th_tensor *logits, th_tensor *targets, const th_cross_entropy_options *options)
{
    th_tensor *loss[2] = {NULL, NULL};
    for (int end = 0; end < 2; end++)
        loss[end] = th_cross_entropy(th_select(logits, 2, end), th_select(targets, 1, end), options);
    return th_scale(th_add(loss[0], loss[1]), 0.5);
}

th_tensor *th_head_loss(const th_module *model, th_tensor *logits, th_tensor *targets,
                        const th_cross_entropy_options *options)
{
    static const char operation[] = "head_loss";
    if (!th_module_usable(model, operation))
        return NULL;
    const th_language_model_options *o = th_language_model_options_of(model);
    if (o == NULL || o->head.kind == TH_HEAD_NONE) {
        th_fail(model->ctx, TH_ERROR_ARGUMENT, operation, "the module is not a language model with a head");
        return NULL;
    }
    if (!th_usable_tensor(logits, model->ctx, operation, "logits") ||
        !th_usable_tensor(targets, model->ctx, operation, "targets"))
        return NULL;
    switch (o->head.kind) {
    case TH_HEAD_SEQUENCE:
        return sequence_loss(&o->head, logits, targets, options);
    case TH_HEAD_SPANS:
        return span_loss(logits, targets, options);
    case TH_HEAD_TOKENS:
    case TH_HEAD_NONE:
        break;
    }
    return th_cross_entropy(logits, targets, options);
}

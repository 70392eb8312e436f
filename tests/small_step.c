/* small_step STEPS: trains a transformer of two small layers for so many steps on one thread and prints the last loss.
 * What tests/instructions.sh counts the instructions of. */
#include <stdio.h>
#include <stdlib.h>

#include "tapehead/tapehead.h"

enum { VOCABULARY = 64, WIDTH = 32, HEADS = 2, LAYERS = 2, BATCH = 4, LENGTH = 16 };

/* x + attention(norm(x)), then + mlp(norm(..)). */
typedef struct layer {
    th_module base;
    th_module *norm1, *attention, *norm2, *widen, *narrow;
} layer;

static th_tensor *layer_forward(th_module *m, th_tensor *x)
{
    const layer *l = (layer *)m;
    th_tensor *h = th_module_forward(l->norm1, x);
    x = th_add(x, th_attend(l->attention, h, h, h, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}));
    h = th_gelu_tanh(th_module_forward(l->widen, th_module_forward(l->norm2, x)));
    return th_add(x, th_dropout(th_module_forward(l->narrow, h), 0.1));
}

static th_module *layer_new(th_context *ctx)
{
    layer *l = th_module_new(ctx, sizeof *l, "layer", layer_forward);
    if (l == NULL)
        return NULL;
    l->norm1 = th_module_add(&l->base, "norm1", th_layer_norm_new(ctx, WIDTH, NULL));
    l->attention = th_module_add(&l->base, "attention", th_multi_head_attention_new(ctx, WIDTH, HEADS, NULL));
    l->norm2 = th_module_add(&l->base, "norm2", th_layer_norm_new(ctx, WIDTH, NULL));
    l->widen = th_module_add(&l->base, "widen", th_dense_new(ctx, WIDTH, 4 * WIDTH, NULL));
    l->narrow = th_module_add(&l->base, "narrow", th_dense_new(ctx, 4 * WIDTH, WIDTH, NULL));
    return &l->base;
}

typedef struct model {
    th_module base;
    th_module *embedding, *layers, *norm, *head;
} model;

static th_tensor *model_forward(th_module *m, th_tensor *tokens)
{
    const model *n = (model *)m;
    th_tensor *x = th_module_forward(n->layers, th_module_forward(n->embedding, tokens));
    return th_module_forward(n->head, th_module_forward(n->norm, x));
}

static th_module *model_new(th_context *ctx)
{
    model *n = th_module_new(ctx, sizeof *n, "model", model_forward);
    if (n == NULL)
        return NULL;
    n->embedding = th_module_add(&n->base, "embedding", th_embedding_new(ctx, VOCABULARY, WIDTH));
    n->layers = th_module_add(&n->base, "layers", th_module_list_new(ctx));
    for (int i = 0; i < LAYERS; i++)
        th_module_list_add(n->layers, layer_new(ctx));
    n->norm = th_module_add(&n->base, "norm", th_layer_norm_new(ctx, WIDTH, NULL));
    n->head = th_module_add(&n->base, "head", th_dense_new(ctx, WIDTH, VOCABULARY, NULL));
    return &n->base;
}

int main(int argc, char **argv)
{
    const int steps = argc == 2 ? atoi(argv[1]) : 0;
    if (steps < 1) {
        fprintf(stderr, "usage: small_step STEPS\n");
        return 2;
    }
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1, .threads = 1});
    th_module *net = model_new(ctx);
    th_optimizer *adam =
        th_adam_w_new(net, &(th_adam_options){.learning_rate = 1e-3, .weight_decay = 0.1, .max_norm = 1});
    th_tensor *tokens = th_random_integers(ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH), 0, VOCABULARY);
    th_tensor *targets = th_random_integers(ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH), 0, VOCABULARY);
    double last = 0;
    for (int i = 0; i < steps && th_error_code(ctx) == TH_OK; i++) {
        th_tensor *loss = th_cross_entropy(th_module_forward(net, tokens), targets, NULL);
        last = th_item(loss);
        if (th_backward(loss) || th_optimizer_step(adam))
            break;
        th_tape_clear(ctx);
    }
    const bool failed = th_error_code(ctx) != TH_OK;
    if (failed)
        fprintf(stderr, "%s\n", th_error_message(ctx));
    else
        printf("loss %.4f\n", last);
    th_context_free(ctx);
    return failed;
}

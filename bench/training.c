/* Training steps of a GPT-2 (forward, backward, AdamW) on random tokens, through the public API. */
#include "training.h"

#include <string.h>

#include "options.h"

bool training_find(const char *name, training_sizes *sizes)
{
    static const struct {
        const char *name;
        int64_t layers, width, heads, vocabulary, batch, length;
        bool mlp;
    } configurations[] = {
#define CONFIGURATION(name, ...) {#name, __VA_ARGS__},
#include "configurations.def"
#undef CONFIGURATION
    };
    for (size_t i = 0; i < sizeof configurations / sizeof *configurations; i++)
        if (strcmp(name, configurations[i].name) == 0) {
            *sizes = (training_sizes){.layers = configurations[i].layers,
                                      .width = configurations[i].width,
                                      .heads = configurations[i].heads,
                                      .vocabulary = configurations[i].vocabulary,
                                      .batch = configurations[i].batch,
                                      .length = configurations[i].length,
                                      .mlp = configurations[i].mlp};
            return true;
        }
    return false;
}

training training_new(const char *program, const training_sizes *sizes, const th_context_options *options)
{
    training t = {.ctx = th_context_new(options)};
    if (t.ctx == NULL)
        give_up(program, "out of memory");
    const th_language_model_options gpt = {
        sizes->vocabulary,
        sizes->length,
        sizes->width,
        sizes->heads,
        sizes->layers,
        .dropout = sizes->dropout,
        .block = {.attention_dropout = sizes->dropout, .no_mlp = !sizes->mlp},
    };
    t.model = th_language_model_new(t.ctx, &gpt);
    t.adam = th_adam_w_new(t.model, &(th_adam_options){.learning_rate = 3e-4, .weight_decay = 0.1});
    const th_shape shape = TH_SHAPE(sizes->batch, sizes->length);
    for (int i = 0; i < BATCHES; i++) {
        t.tokens[i] = th_random_integers(t.ctx, TH_INT32, shape, 0, sizes->vocabulary);
        t.targets[i] = th_random_integers(t.ctx, TH_INT32, shape, 0, sizes->vocabulary);
    }
    if (th_error_code(t.ctx))
        give_up(program, th_error_message(t.ctx));
    return t;
}

th_tensor *training_step(const char *program, const training *t, int64_t step)
{
    th_tape_clear(t->ctx);
    th_tensor *loss = th_language_model_loss(t->model, t->tokens[step % BATCHES], t->targets[step % BATCHES], NULL);
    if (th_backward(loss, NULL) || th_optimizer_step(t->adam))
        give_up(program, th_error_message(t->ctx));
    return loss;
}

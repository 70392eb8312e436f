/* Trains a small module with Muon, as scripts/interop/muon.py does with PyTorch. Shared by the comparison and the test of its
 * fixtures. Each parameter p has a target and a curvature: the loss is the sum of curvature (p - target)^2 / 2. */
#ifndef INTEROP_MUON_TRAINING_H
#define INTEROP_MUON_TRAINING_H

#include "torch_modules.h"

enum { MUON_STEPS = 50 };

/* Returns a module with each kind of parameter: wide, tall and fused matrices, an embedding, a norm, biases. */
static inline th_module *muon_model_new(th_context *ctx)
{
    th_module *m = th_module_new(ctx, sizeof *m, "model", NULL);
    th_module_add(m, "embedding", th_embedding_new(ctx, 5, 3));
    th_module_add(m, "attention", th_multi_head_attention_new(ctx, 4, 2, NULL));
    th_module_add(m, "wide", th_dense_new(ctx, 6, 3, NULL));
    th_module_add(m, "tall", th_dense_new(ctx, 3, 7, NULL));
    th_module_add(m, "norm", th_rms_norm_new(ctx, 3, NULL));
    return m;
}

static inline th_optimizer *muon_new_from(th_module *m, const char *settings)
{
    const th_muon_options options = {
        .learning_rate = setting(settings, "lr"),
        .weight_decay = setting(settings, "weight_decay"),
        .momentum = setting(settings, "momentum"),
        .no_nesterov = setting(settings, "nesterov") == 0,
        .coefficients = {setting(settings, "a"), setting(settings, "b"), setting(settings, "c")},
        .steps = (int)setting(settings, "steps"),
        .adjustment = setting(settings, "match_rms_adamw") != 0 ? TH_MUON_MATCH_RMS_ADAMW : TH_MUON_ORIGINAL,
        .adam_learning_rate = setting(settings, "adam_lr"),
        .adam_weight_decay = setting(settings, "adam_weight_decay")};
    return th_muon_new(m, &options);
}

/* Returns the loss. read(user, prefix, name) returns the tensor of a parameter with the type of the parameter. */
static inline th_tensor *muon_loss(const th_module *m,
                                   th_tensor *(*read)(void *user, const char *prefix, const char *name), void *user)
{
    th_tensor *loss = NULL;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        th_tensor *d = th_sub(p.tensor, read(user, "target.", p.name));
        th_tensor *sum = th_sum(th_mul(read(user, "curvature.", p.name), th_mul(d, d)), TH_ALL_AXES, NULL);
        loss = loss ? th_add(loss, sum) : sum;
    }
    return th_scale(loss, 0.5);
}

/* Takes all steps, with a learning rate that decreases. */
static inline th_status muon_train(th_module *m, th_optimizer *muon,
                                   th_tensor *(*read)(void *user, const char *prefix, const char *name), void *user)
{
    const double rate = th_optimizer_learning_rate(muon);
    for (int step = 0; step < MUON_STEPS; step++) {
        th_tensor *loss = muon_loss(m, read, user);
        if (th_optimizer_set_learning_rate(muon, rate * (1 - step / 64.0)) || th_backward(loss, NULL) ||
            th_optimizer_step(muon))
            return th_error_code(m->ctx);
        th_tape_clear(m->ctx);
    }
    return TH_OK;
}

#endif

/* The model of the settings, the tensors of its batches, and its optimizer. */
#include <string.h>

#include "schedules.h"
#include "shared/system.h"
#include "trainer.h"

enum { MAX_TOKENS = 1 << 26 }; /* in a batch */

/* Freezes the parameters that --freeze names: they get no gradient, so no step changes them. */
static void freeze_parameters(th_module *model)
{
    char *patterns = strdup(chosen.freeze), *rest = patterns;
    for (const char *pattern; (pattern = strsep(&rest, ",")) != NULL;) {
        bool found = false;
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
            if (fnmatch(pattern, p.name, 0) == 0)
                found = th_set_requires_gradient(p.tensor, false) != NULL;
        if (!found)
            refuse(PROGRAM, "--freeze: no parameter has a name like ", pattern);
    }
    free(patterns);
    if (th_module_count_trainable(model) == 0)
        refuse(PROGRAM, "--freeze leaves nothing to train: all parameters have names like ", chosen.freeze);
}

static bool is_vector(const char *name, th_tensor *parameter, void *user)
{
    (void)name;
    (void)user;
    return th_ndim(parameter) < 2;
}

void make_model(trainer *t)
{
    if (chosen.lora > 0)
        make_adapted_model(t);
    else
        t->model = th_language_model_new(t->ctx, &chosen.model);
    require_no_error(t);
}

void make_batch(trainer *t)
{
    check_batch_from();
    if (chosen.batch > MAX_TOKENS / chosen.length)
        refuse(PROGRAM, "--batch times --length must be at most 67108864 tokens", "");
    const th_shape shape = TH_SHAPE(chosen.batch / chosen.shards, chosen.length);
    t->tokens = th_zeros(t->ctx, TH_INT32, shape);
    t->targets = th_zeros(t->ctx, TH_INT32, shape);
    if (chosen.marked)
        t->starts = th_zeros(t->ctx, TH_INT32, shape);
    require_no_error(t);
}

/* Vectors have no weight decay. */
static const th_parameter_group vectors = {.takes = is_vector, .no_weight_decay = true};

static th_optimizer *adam_w_new(const trainer *t)
{
    return th_adam_w_new(t->model, &(th_adam_options){.learning_rate = chosen.lr,
                                                      TH_BETAS(chosen.beta1, chosen.beta2),
                                                      .weight_decay = chosen.weight_decay,
                                                      .max_norm = chosen.clip,
                                                      .groups = &vectors,
                                                      .n_groups = 1,
                                                      .shards = (int)chosen.shards,
                                                      .group = t->group,
                                                      .diloco = {.local_steps = (int)chosen.local_steps}});
}

static th_optimizer *muon_new(const trainer *t)
{
    th_muon_options options = {.learning_rate = chosen.lr,
                               .weight_decay = chosen.weight_decay,
                               .momentum = chosen.momentum,
                               .no_momentum = chosen.momentum == 0,
                               .iteration = chosen.polar_express ? TH_MUON_POLAR_EXPRESS : TH_MUON_JORDAN,
                               .steps = (int)chosen.newton_schulz,
                               .adam_learning_rate = chosen.adam_lr,
                               .adam_beta1 = chosen.beta1,
                               .adam_beta2 = chosen.beta2,
                               .has_adam_betas = true,
                               .adam_weight_decay = chosen.weight_decay,
                               .max_norm = chosen.clip,
                               .groups = &vectors,
                               .n_groups = 1,
                               .shards = (int)chosen.shards,
                               .group = t->group,
                               .diloco = {.local_steps = (int)chosen.local_steps}};
    (void)find_adjustment(chosen.adjust_lr, &options.adjustment); /* (the settings have been checked) */
    return th_muon_new(t->model, &options);
}

void make_optimizer(trainer *t)
{
    if (chosen.freeze)
        freeze_parameters(t->model);
    t->optimizer = uses_muon() ? muon_new(t) : adam_w_new(t);
    if (chosen.average > 0)
        t->average =
            th_weight_average_new(t->model, &(th_weight_average_options){.decay = chosen.average, .warm_up = true});
    require_no_error(t);
}

/* Creates and frees optimizers, and checks their options. optimizer_step.c runs steps. */
#include <math.h>

#include "nn/module.h"
#include "tensor/tensor.h"
#include "training/optimizer.h"
#include "training/saved_state.h"
#include "training/shared/agreement.h"

static void release(th_context *ctx, void *object)
{
    th_optimizer *o = object;
    th_moments_destroy(o);
    th_shards_end(o);
    th_shared_step_end(o);
    th_release(ctx, o->groups, (size_t)o->n_groups * sizeof *o->groups);
    th_release(ctx, o->parameters, (size_t)o->capacity * sizeof *o->parameters);
    th_release(ctx, o->layout, (size_t)o->capacity * sizeof *o->layout);
    o->freed = true;
    th_quarantine(ctx, o, sizeof *o);
}

th_optimizer *th_optimizer_next(th_attachment **at)
{
    for (; *at; *at = (*at)->next)
        if ((*at)->release == release) {
            th_optimizer *o = (*at)->object;
            *at = (*at)->next;
            return o;
        }
    return NULL;
}

/* -- options -- */

/* Returns the option's value: 0 means the default, unless `zero`. Checkpoints store that explicit zero as -0.0 and
 * compare options bit by bit. */
static double value_or(double value, double default_value, bool zero)
{
    return zero ? -0.0 : value == 0 ? default_value : value;
}

static bool in_range(th_context *ctx, const char *operation, const char *what, double value, bool legal)
{
    if (!legal)
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s = %g is outside its range", what, value);
    return legal;
}

/* Checks the options that SGD and Adam share. */
static bool check_common(th_context *ctx, const char *operation, double learning_rate, double weight_decay,
                         double max_norm, const th_parameter_group *groups, int n_groups)
{
    if (learning_rate == 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "a learning rate must be given");
        return false;
    }
    bool legal =
        in_range(ctx, operation, "learning_rate", learning_rate, learning_rate > 0 && isfinite(learning_rate)) &&
        in_range(ctx, operation, "weight_decay", weight_decay, weight_decay >= 0 && isfinite(weight_decay)) &&
        in_range(ctx, operation, "max_norm", max_norm, max_norm >= 0) &&
        in_range(ctx, operation, "n_groups", n_groups,
                 n_groups >= 0 && n_groups < 1 << 20 && (groups || n_groups == 0));
    for (int g = 0; legal && g < n_groups; g++)
        legal = in_range(ctx, operation, "a group's learning_rate_factor", groups[g].learning_rate_factor,
                         groups[g].learning_rate_factor >= 0 && isfinite(groups[g].learning_rate_factor)) &&
                in_range(ctx, operation, "a group's weight_decay", groups[g].weight_decay,
                         groups[g].weight_decay >= 0 && isfinite(groups[g].weight_decay));
    return legal;
}

/* Completes the options of local steps. Returns false, with an error pending, if one is out of range. */
static bool complete_diloco(th_context *ctx, const char *operation, th_diloco_options *diloco)
{
    diloco->learning_rate = value_or(diloco->learning_rate, 0.7, false);
    diloco->momentum = value_or(diloco->momentum, 0.9, diloco->no_momentum);
    return in_range(ctx, operation, "diloco.local_steps", diloco->local_steps, diloco->local_steps >= 0) &&
           in_range(ctx, operation, "diloco.learning_rate", diloco->learning_rate,
                    diloco->learning_rate > 0 && isfinite(diloco->learning_rate)) &&
           in_range(ctx, operation, "diloco.momentum", diloco->momentum, diloco->momentum >= 0 && diloco->momentum < 1);
}

/* -- creating -- */

bool th_optimizer_takes(const th_module *m)
{
    if (m == NULL)
        th_fail_last(TH_ERROR_ARGUMENT, "optimizer", "the module is NULL");
    if (m && m->state->freed)
        th_fail(m->ctx, TH_ERROR_STATE, "optimizer", "the module (%s) has been freed", m->type);
    return m && !th_failed(m->ctx);
}

/* Creates an optimizer without its rule: assigns the module's parameters to groups. */
static th_optimizer *optimizer_new(th_module *m, const char *operation, const th_parameter_group *groups, int n_groups,
                                   double weight_decay)
{
    th_context *ctx = m->ctx;
    int64_t count = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        count += !th_is_storage(th_dtype_of(p.tensor));
    if (count == 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s has no parameters that could be trained", m->type);
        return NULL;
    }
    if (th_optimizer_check_groups(m, operation, groups, n_groups) != TH_OK)
        return NULL;
    th_optimizer *o = th_allocate(ctx, sizeof *o);
    if (o == NULL) {
        th_fail_memory(ctx, operation, sizeof *o);
        return NULL;
    }
    *o = (th_optimizer){.ctx = ctx,
                        .module = m,
                        .operation = operation,
                        .n_groups = n_groups + 1,
                        .capacity = count,
                        .backwards = ctx->backwards,
                        .additions = ctx->additions};
    o->groups = th_allocate(ctx, (size_t)o->n_groups * sizeof *o->groups);
    o->parameters = th_allocate(ctx, (size_t)count * sizeof *o->parameters);
    o->layout = th_allocate(ctx, (size_t)count * sizeof *o->layout);
    if (!o->groups || !o->parameters || !o->layout || !th_attach(ctx, o, release)) {
        release(ctx, o);
        th_fail_memory(ctx, operation, (size_t)count * sizeof *o->parameters);
        return NULL;
    }
    th_observe_parameters(ctx, o, &th_optimizer_observer);
    for (int g = 0; g < n_groups; g++)
        o->groups[g] = (th_optimizer_group){value_or(groups[g].learning_rate_factor, 1, groups[g].no_update),
                                            value_or(groups[g].weight_decay, weight_decay, groups[g].no_weight_decay)};
    o->groups[n_groups] = (th_optimizer_group){1, weight_decay};
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        if (th_is_storage(th_dtype_of(p.tensor)))
            continue;
        th_tensor_impl *tensor = th_tensor_impl_of(p.tensor);
        o->parameters[o->count++] = (th_optimizer_parameter){.tensor = tensor,
                                                             .entry = th_parameter_entry_of(tensor),
                                                             .group = th_optimizer_group_of(groups, n_groups, &p)};
    }
    return o;
}

/* Returns the optimizer with its shards, group and local steps; NULL, with an error pending, if they do not fit. */
static th_optimizer *with_shards(th_optimizer *o, int shards, th_group *group, const th_diloco_options *diloco)
{
    o->diloco = *diloco;
    if (th_shards_begin(o, shards, group) == TH_OK) {
        th_optimizer_name_rule(o);
        return o;
    }
    th_optimizer_free(o);
    return NULL;
}

th_optimizer *th_sgd_new(th_module *m, const th_sgd_options *options)
{
    th_sgd_options given = options ? *options : (th_sgd_options){0};
    if (!th_optimizer_takes(m) ||
        !check_common(m->ctx, "sgd", given.learning_rate, given.weight_decay, given.max_norm, given.groups,
                      given.n_groups) ||
        !in_range(m->ctx, "sgd", "momentum", given.momentum, given.momentum >= 0 && given.momentum < 1) ||
        !in_range(m->ctx, "sgd", "dampening", given.dampening, given.dampening >= 0 && given.dampening <= 1) ||
        !complete_diloco(m->ctx, "sgd", &given.diloco))
        return NULL;
    if (given.nesterov && (given.momentum == 0 || given.dampening != 0)) {
        th_fail(m->ctx, TH_ERROR_ARGUMENT, "sgd", "nesterov needs momentum and no dampening");
        return NULL;
    }
    th_optimizer *o = optimizer_new(m, "sgd", given.groups, given.n_groups, given.weight_decay);
    if (o == NULL)
        return NULL;
    o->rule = TH_RULE_SGD;
    o->sgd = given;
    o->learning_rate = given.learning_rate;
    o->max_norm = given.max_norm;
    o->n_moments = given.momentum > 0;
    return with_shards(o, given.shards, given.group, &given.diloco);
}

static th_optimizer *adam_new(th_module *m, const char *operation, const th_adam_options *options, bool decoupled)
{
    th_adam_options given = options ? *options : (th_adam_options){0};
    given.beta1 = value_or(given.beta1, 0.9, given.has_betas && given.beta1 == 0);
    given.beta2 = value_or(given.beta2, 0.999, given.has_betas && given.beta2 == 0);
    given.eps = value_or(given.eps, 1e-8, given.no_eps);
    if (!th_optimizer_takes(m) ||
        !check_common(m->ctx, operation, given.learning_rate, given.weight_decay, given.max_norm, given.groups,
                      given.n_groups) ||
        !in_range(m->ctx, operation, "beta1", given.beta1, given.beta1 >= 0 && given.beta1 < 1) ||
        !in_range(m->ctx, operation, "beta2", given.beta2, given.beta2 >= 0 && given.beta2 < 1) ||
        !in_range(m->ctx, operation, "eps", given.eps, given.eps >= 0 && isfinite(given.eps)) ||
        !complete_diloco(m->ctx, operation, &given.diloco))
        return NULL;
    th_optimizer *o = optimizer_new(m, operation, given.groups, given.n_groups, given.weight_decay);
    if (o == NULL)
        return NULL;
    o->rule = TH_RULE_ADAM;
    o->decoupled = decoupled;
    o->adam = given;
    o->learning_rate = given.learning_rate;
    o->max_norm = given.max_norm;
    o->n_moments = given.amsgrad ? 3 : 2;
    return with_shards(o, given.shards, given.group, &given.diloco);
}

th_optimizer *th_adam_new(th_module *m, const th_adam_options *options)
{
    return adam_new(m, "adam", options, false);
}

th_optimizer *th_adam_w_new(th_module *m, const th_adam_options *options)
{
    return adam_new(m, "adam_w", options, true);
}

/* -- properties -- */

bool th_optimizer_usable(const th_optimizer *o, const char *operation)
{
    if (o == NULL)
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the optimizer is NULL");
    else if (o->freed)
        th_fail(o->ctx, TH_ERROR_STATE, operation, "the optimizer (%s) has been freed", o->operation);
    return o && !o->freed;
}

void th_optimizer_free(th_optimizer *o)
{
    if (o == NULL || !th_optimizer_usable(o, "optimizer_free"))
        return;
    th_detach_object(o->ctx, o);
    release(o->ctx, o);
}

th_status th_optimizer_set_learning_rate(th_optimizer *o, double learning_rate)
{
    if (!th_optimizer_usable(o, "optimizer_set_learning_rate"))
        return o ? o->ctx->error : TH_ERROR_ARGUMENT;
    if (!(learning_rate >= 0 && isfinite(learning_rate)))
        return th_fail(o->ctx, TH_ERROR_ARGUMENT, o->operation,
                       "the learning rate must be finite and not negative; it is %g", learning_rate);
    o->learning_rate = learning_rate;
    return TH_OK;
}

double th_optimizer_learning_rate(const th_optimizer *o)
{
    return o && th_optimizer_usable(o, "optimizer_learning_rate") ? o->learning_rate : 0;
}

double th_optimizer_gradient_norm(const th_optimizer *o)
{
    return o && th_optimizer_usable(o, "optimizer_gradient_norm") ? o->norm : 0;
}

double th_optimizer_loss(const th_optimizer *o)
{
    return o && th_optimizer_usable(o, "optimizer_loss") ? o->loss : 0;
}

/* Creates and frees optimizers, and checks the options that all rules have. */
#include "training/create.h"

#include <math.h>
#include <string.h>

#include "nn/module.h"
#include "tensor/tensor.h"
#include "training/matrices.h"
#include "training/moments.h"
#include "training/saved_state.h"
#include "training/shared/sharing.h"
#include "training/shared/step_buffers.h"

static void release(th_context *ctx, void *object)
{
    th_optimizer *o = object;
    th_moments_destroy(o);
    th_shards_free(o);
    th_step_buffers_free(o);
    th_matrices_free(o);
    th_release(ctx, o->groups, (size_t)o->n_groups * sizeof *o->groups);
    th_release(ctx, o->parameters, (size_t)o->capacity * sizeof *o->parameters);
    th_release(ctx, o->layout, (size_t)o->capacity * sizeof *o->layout);
    o->freed = true;
    th_quarantine(ctx, o, o->bytes);
}

/* -- options -- */

double th_option_or(double value, double default_value, bool zero)
{
    return zero ? -0.0 : value == 0 ? default_value : value;
}

bool th_option_in_range(th_context *ctx, const char *operation, const char *option, double value, bool legal)
{
    if (!legal)
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s = %g is outside its range", option, value);
    return legal;
}

/* The range of most options. */
static bool not_negative(th_context *ctx, const char *operation, const char *option, double value)
{
    return th_option_in_range(ctx, operation, option, value, value >= 0 && isfinite(value));
}

static bool groups_legal(th_context *ctx, const char *operation, const th_parameter_group *groups, int n_groups)
{
    bool legal = th_option_in_range(ctx, operation, "n_groups", n_groups,
                                    n_groups >= 0 && n_groups < 1 << 20 && (groups || n_groups == 0));
    for (int g = 0; legal && g < n_groups; g++)
        legal = not_negative(ctx, operation, "a group's learning_rate_factor", groups[g].learning_rate_factor) &&
                not_negative(ctx, operation, "a group's weight_decay", groups[g].weight_decay);
    return legal;
}

bool th_common_options_legal(const th_module *m, const char *operation, const th_common_options *options)
{
    if (!th_module_usable(m, operation))
        return false;
    th_context *ctx = m->ctx;
    if (options->learning_rate == 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "a learning rate must be given");
        return false;
    }
    return not_negative(ctx, operation, "learning_rate", options->learning_rate) &&
           not_negative(ctx, operation, "weight_decay", options->weight_decay) &&
           th_option_in_range(ctx, operation, "max_norm", options->max_norm, options->max_norm >= 0) &&
           groups_legal(ctx, operation, options->groups, options->n_groups);
}

/* Completes the options of local steps. Returns false, with an error pending, if one is out of range. */
static bool complete_diloco(th_context *ctx, const char *operation, th_diloco_options *diloco)
{
    diloco->learning_rate = th_option_or(diloco->learning_rate, 0.7, false);
    diloco->momentum = th_option_or(diloco->momentum, 0.9, diloco->no_momentum);
    return th_option_in_range(ctx, operation, "diloco.local_steps", diloco->local_steps, diloco->local_steps >= 0) &&
           th_option_in_range(ctx, operation, "diloco.learning_rate", diloco->learning_rate,
                              diloco->learning_rate > 0 && isfinite(diloco->learning_rate)) &&
           th_option_in_range(ctx, operation, "diloco.momentum", diloco->momentum,
                              diloco->momentum >= 0 && diloco->momentum < 1);
}

/* -- creating -- */

/* Counts the parameters that can be trained. Returns 0, with an error pending, if all are stored. */
static int64_t count_parameters(th_module *m, const char *operation)
{
    int64_t count = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        count += !th_is_storage_type(th_dtype_of(p.tensor));
    if (count == 0)
        th_fail(m->ctx, TH_ERROR_ARGUMENT, operation, "%s has no parameters that could be trained", m->type);
    return count;
}

/* Allocates an optimizer with lists for `count` parameters. */
static th_optimizer *allocate(th_module *m, const th_update_rule *rule, int64_t count, int n_groups)
{
    th_context *ctx = m->ctx;
    const size_t bytes = sizeof(th_optimizer) + rule->options_size;
    th_optimizer *o = th_allocate(ctx, bytes);
    if (o == NULL) {
        th_fail_memory(ctx, rule->name, bytes);
        return NULL;
    }
    *o = (th_optimizer){.ctx = ctx,
                        .bytes = bytes,
                        .module = m,
                        .rule = rule,
                        .n_groups = n_groups,
                        .capacity = count,
                        .backwards = ctx->backward_count,
                        .additions = ctx->module_additions};
    o->groups = th_allocate(ctx, (size_t)o->n_groups * sizeof *o->groups);
    o->parameters = th_allocate(ctx, (size_t)count * sizeof *o->parameters);
    o->layout = th_allocate(ctx, (size_t)count * sizeof *o->layout);
    if (!o->groups || !o->parameters || !o->layout || !th_attach_object(ctx, o, release)) {
        release(ctx, o);
        th_fail_memory(ctx, rule->name, (size_t)count * sizeof *o->parameters);
        return NULL;
    }
    th_observe_parameters(ctx, o, &th_optimizer_observer);
    return o;
}

/* Completes groups [n + 1]. The last one has all parameters that match no other. rate_factor: of the whole optimizer's
 * learning rate. */
static void complete_groups(th_optimizer_group *groups, const th_common_options *options, double rate_factor,
                            double weight_decay)
{
    const int n = options->n_groups;
    for (int g = 0; g < n; g++) {
        const th_parameter_group *given = &options->groups[g];
        groups[g] = (th_optimizer_group){rate_factor * th_option_or(given->learning_rate_factor, 1, given->no_update),
                                         th_option_or(given->weight_decay, weight_decay, given->no_weight_decay)};
    }
    groups[n] = (th_optimizer_group){rate_factor, weight_decay};
}

/* Lists the parameters with their groups. */
static void assign_groups(th_optimizer *o, th_module *m, const th_common_options *options)
{
    const int n = options->n_groups;
    complete_groups(o->groups, options, 1, options->weight_decay);
    if (o->rule->update_matrices)
        complete_groups(o->groups + n + 1, options, options->element_rate_factor, options->element_weight_decay);
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        if (th_is_storage_type(th_dtype_of(p.tensor)))
            continue;
        th_tensor_impl *tensor = th_tensor_impl_of(p.tensor);
        o->parameters[o->count++] = (th_optimizer_parameter){.tensor = tensor,
                                                             .entry = th_parameter_entry_of(tensor),
                                                             .group = th_optimizer_group_of(options->groups, n, &p)};
    }
}

th_optimizer *th_optimizer_new(th_module *m, const th_update_rule *rule, const void *rule_options,
                               const th_common_options *options)
{
    th_diloco_options diloco = options->diloco;
    if (!complete_diloco(m->ctx, rule->name, &diloco))
        return NULL;
    const int64_t count = count_parameters(m, rule->name);
    if (count == 0 || th_optimizer_check_groups(m, rule->name, options->groups, options->n_groups) != TH_OK)
        return NULL;
    th_optimizer *o = allocate(m, rule, count, (rule->update_matrices ? 2 : 1) * (options->n_groups + 1));
    if (o == NULL)
        return NULL;
    memcpy(o->options, rule_options, rule->options_size);
    o->n_moments = rule->moment_count(rule_options);
    o->learning_rate = options->learning_rate;
    o->max_norm = options->max_norm;
    o->diloco = diloco;
    assign_groups(o, m, options);
    if (th_matrices_init(o, m, options->groups, options->n_groups) != TH_OK ||
        th_shards_init(o, options->shards, options->group) != TH_OK) {
        th_optimizer_free(o);
        return NULL;
    }
    o->sharing = diloco.local_steps > 0    ? &th_sharing_local
                 : o->shards.processes > 1 ? &th_sharing_together
                                           : &th_sharing_alone;
    th_optimizer_name_rule(o);
    return o;
}

void th_optimizer_free(th_optimizer *o)
{
    if (o == NULL || !th_optimizer_usable(o, "optimizer_free"))
        return;
    th_detach_object(o->ctx, o);
    release(o->ctx, o);
}

/* Runs one step of an optimizer: sums and checks the gradients, clips them, and updates the parameters. With several
 * processes, shared_step.c exchanges gradients and parameters. With local steps, each process does this alone, and
 * outer_step.c then joins the parameters. */
#include <float.h>
#include <math.h>

#include "autograd/gradient.h"
#include "autograd/profile.h"
#include "processes/group.h"
#include "tapehead/tape.h"
#include "training/gradient_norm.h"
#include "training/optimizer.h"
#include "training/shared/agreement.h"
#include "training/shared/outer_step.h"

/* The smallest sum of the shards' weights. With smaller ones, the factor 1 / weight would overflow in float32. */
static const double least_weight = 1e-18;

/* Rejects a step. The gradients can still be examined. The next backward overwrites them, with the same random
 * numbers. */
static th_status reject(th_optimizer *o)
{
    for (int64_t i = 0; i < o->count; i++)
        if (th_has_gradient(o->parameters[i].tensor))
            th_gradient_refuse(o->parameters[i].tensor);
    th_shards_restart(o);
    th_random_step_refused(o->ctx);
    return o->ctx->error;
}

/* If a backward ran since a rejected step, empties the gradients of that step which the backward did not overwrite.
 * Without a backward in between, all gradients remain. */
static void forget_rejected(th_optimizer *o)
{
    bool repeated = false;
    for (int64_t i = 0; i < o->count && !repeated; i++)
        repeated =
            th_has_gradient(o->parameters[i].tensor) && !th_gradient_buffer_finished(o->parameters[i].tensor->gradient);
    for (int64_t i = 0; i < o->count && repeated; i++)
        if (th_gradient_buffer_finished(o->parameters[i].tensor->gradient))
            th_empty_gradient(o->parameters[i].tensor->handle);
}

/* Sets the norm of the gradients; `norm` is of the sums. Returns the factor by which the update multiplies the sums: 1 /
 * weight, or less to clip them. */
static double set_norm(th_optimizer *o, double norm, double weight)
{
    o->norm = fmin(norm / weight, DBL_MAX);
    return o->max_norm > 0 && o->norm > o->max_norm ? o->max_norm / norm : 1 / weight;
}

/* Returns the factor that the kernels use. They divide the weight decay by it. If it is too small for that, scales the
 * gradients itself and returns 1. */
static double scale_of(const th_optimizer *o, double factor)
{
    if (factor > 1e-18)
        return factor;
    th_scale_gradients(&(th_gradient_list){.optimizer = o}, factor);
    return 1;
}

/* TH_ERROR_STATE if th_backward was forgotten: a parameter requires a gradient, none has one, and no backward ran since
 * the last step. After a backward that reached none of the parameters, the step does nothing. */
static th_status check_backward(const th_optimizer *o)
{
    bool trains = false;
    for (int64_t i = 0; i < o->count; i++) {
        if (th_has_gradient(o->parameters[i].tensor))
            return TH_OK;
        trains |= o->parameters[i].tensor->requires_gradient;
    }
    if (!trains || o->backwards != o->ctx->backwards)
        return TH_OK;
    return th_fail(o->ctx, TH_ERROR_STATE, "optimizer_step",
                   "no parameter of %s has a gradient: call th_backward before each step", o->rule->name);
}

/* Checks whether a step is possible now. */
static bool can_begin(th_optimizer *o)
{
    return !th_failed(o->ctx) && th_refuse_in_check(o->ctx, "optimizer_step") == TH_OK && th_shards_check(o) == TH_OK &&
           th_optimizer_check_additions(o) == TH_OK && check_backward(o) == TH_OK;
}

/* Takes the gradients, and allocates memory. */
static th_status prepare(th_optimizer *o)
{
    if (!o->shards.looped)
        forget_rejected(o);
    th_shards_complete(o);
    if (th_moments_ensure(o) != TH_OK)
        return o->ctx->error;
    th_optimizer_sort(o);
    return o->shards.processes > 1 || th_steps_are_local(o) ? th_shared_step_reserve(o) : TH_OK;
}

/* Sets the weight and the loss of a step of `count` shards. */
static th_status add_shards(th_optimizer *o, const th_shard_values *values, int count, double *weight)
{
    double loss = *weight = 0;
    for (int i = 0; i < count; i++) {
        *weight += values[i].weight;
        loss += values[i].loss;
    }
    if (!(*weight >= least_weight && isfinite(*weight)))
        return th_fail(o->ctx, TH_ERROR_VALUE, "optimizer_step",
                       "the sum of the shards' weights is %g; it must be finite, and at least %g", *weight,
                       least_weight);
    o->loss = loss / *weight;
    return TH_OK;
}

/* Sums the gradients of this process's shards, and sets the norm and the factor of the sums. Errors: TH_ERROR_VALUE for a
 * gradient that is not finite. */
static th_status sum_gradients(th_optimizer *o, double *factor)
{
    double norm, weight;
    th_shards_sum(o);
    if (th_global_norm(&(th_gradient_list){o, o->module}, "optimizer_step", &norm) != TH_OK ||
        add_shards(o, o->shards.values, o->shards.end - o->shards.first, &weight) != TH_OK)
        return o->ctx->error;
    *factor = set_norm(o, norm, weight);
    return TH_OK;
}

/* The same for the shards of all processes: afterwards each process has the sums of its part of the parameters. */
static th_status sum_gradients_together(th_optimizer *o, double *factor)
{
    const th_shard_values *values;
    double norm, weight;
    if (th_shared_step_gather_due(o) != TH_OK || th_shared_step_sum(o) != TH_OK ||
        th_shared_step_norm(o, false, &norm, &values) != TH_OK ||
        add_shards(o, values, o->shards.count, &weight) != TH_OK)
        return o->ctx->error;
    *factor = set_norm(o, norm, weight);
    return TH_OK;
}

/* Sums the gradients of a local step. The processes agree on its errors before the parameters change. */
static th_status begin_local_step(th_optimizer *o, double *factor)
{
    if (o->ctx->options.shapes_only)
        return TH_OK;
    th_outer_step_start(o);
    return sum_gradients(o, factor);
}

/* Computes the new parameters. factor: of the sums of a local step. */
static th_status run_step(th_optimizer *o, double factor)
{
    const bool alone = o->shards.processes == 1 || th_steps_are_local(o);
    if (o->ctx->options.shapes_only)
        return TH_OK;
    if (!th_steps_are_local(o) && (alone ? sum_gradients(o, &factor) : sum_gradients_together(o, &factor)) != TH_OK)
        return o->ctx->error;
    th_update_parameters(o, scale_of(o, factor));
    return alone ? TH_OK : th_shared_step_distribute(o);
}

static void finish_step(th_optimizer *o)
{
    for (int64_t i = 0; i < o->count; i++)
        if (o->parameters[i].due) {
            o->parameters[i].steps++;
            o->parameters[i].changed = th_steps_are_local(o);
            th_storage_changed(o->parameters[i].tensor->storage);
            th_empty_gradient(o->parameters[i].tensor->handle);
        }
    o->local_steps += th_steps_are_local(o);
    o->backwards = o->ctx->backwards;
    th_shards_restart(o);
    th_random_step_done(o->ctx);
}

/* Returns whether the processes agree on their errors in this step. After an error they always do: otherwise the others
 * would not learn of it. */
static bool is_collective(const th_optimizer *o)
{
    return o->shards.processes > 1 && !o->ctx->options.shapes_only &&
           (!th_steps_are_local(o) || th_outer_step_follows(o) || th_failed(o->ctx));
}

th_status th_optimizer_step(th_optimizer *o)
{
    if (!th_optimizer_usable(o, "optimizer_step"))
        return o ? o->ctx->error : TH_ERROR_ARGUMENT;
    th_context *ctx = o->ctx;
    if (o->group && o->group->freed)
        return th_fail(ctx, TH_ERROR_STATE, "optimizer_step", "the group of %s has been freed", o->rule->name);
    const int64_t start = th_profile_start(ctx);
    const double exchanged = th_group_traffic_so_far(o->group).seconds;
    const bool begins = can_begin(o);
    double factor = 1;
    if (begins && prepare(o) == TH_OK && th_steps_are_local(o))
        (void)begin_local_step(o, &factor);
    if (is_collective(o))
        (void)th_shared_step_agree(o);
    if (!begins && o->shards.processes == 1) {
        th_shards_restart(o);
        return ctx->error;
    }
    if (th_failed(ctx) || run_step(o, factor) != TH_OK)
        return reject(o);
    finish_step(o);
    if (th_outer_step_is_due(o))
        (void)th_outer_step(o);
    if (start)
        th_profile_step(ctx, o->rule->name, start,
                        (int64_t)(1e9 * (th_group_traffic_so_far(o->group).seconds - exchanged)));
    return ctx->error;
}

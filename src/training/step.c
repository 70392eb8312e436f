/* One step of an optimizer: check, collect the gradients, clip them, update the parameters, finish. The table
 * o->sharing has the functions that differ if several processes train (shared/sharing.h). */
#include <float.h>
#include <math.h>

#include "autograd/gradient.h"
#include "autograd/profile.h"
#include "processes/group.h"
#include "tapehead/tape.h"
#include "training/gradient_norm.h"
#include "training/layout.h"
#include "training/matrices.h"
#include "training/moments.h"
#include "training/shared/sharing.h"

/* -- check -- */

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
    if (!trains || o->backwards != o->ctx->backward_count)
        return TH_OK;
    return th_fail(o->ctx, TH_ERROR_STATE, "optimizer_step",
                   "no parameter of %s has a gradient: call th_backward before each step", o->rule->name);
}

/* Checks whether a step is possible now. */
static bool can_begin(th_optimizer *o)
{
    return !th_failed(o->ctx) && th_refuse_in_check(o->ctx, "optimizer_step") == TH_OK &&
           th_shards_check_complete(o) == TH_OK && th_optimizer_check_additions(o) == TH_OK &&
           check_backward(o) == TH_OK;
}

/* -- collect -- */

/* If a backward ran since a rejected step, empties the gradients of that step which the backward did not overwrite.
 * Without a backward in between, all gradients remain. */
static void forget_rejected(th_optimizer *o)
{
    bool repeated = false;
    for (int64_t i = 0; i < o->count && !repeated; i++)
        repeated = th_has_gradient(o->parameters[i].tensor) &&
                   !th_gradient_buffer_is_finished(o->parameters[i].tensor->gradient);
    for (int64_t i = 0; i < o->count && repeated; i++)
        if (th_gradient_buffer_is_finished(o->parameters[i].tensor->gradient))
            th_empty_gradient(o->parameters[i].tensor->handle);
}

/* Finds the parameters that have a gradient, and allocates memory. */
static th_status collect(th_optimizer *o)
{
    if (!o->shards.loop_begun)
        forget_rejected(o);
    th_shards_mark_due(o);
    if (th_moments_ensure(o) != TH_OK)
        return o->ctx->error;
    th_optimizer_sort(o);
    return th_matrices_reserve(o) == TH_OK ? o->sharing->reserve(o) : o->ctx->error;
}

/* -- clip -- */

/* Sets the norm and the loss of the step. Returns the factor of the sums in the update. It is 1 / weight, or less to
 * clip the gradients. */
static double clip(th_optimizer *o, const th_step_sums *sums)
{
    o->loss = sums->loss / sums->weight;
    o->norm = fmin(sums->norm / sums->weight, DBL_MAX);
    return o->max_norm > 0 && o->norm > o->max_norm ? o->max_norm / sums->norm : 1 / sums->weight;
}

/* -- update -- */

/* Sums, clips and updates. The kernels divide the weight decay by the factor of the gradients. If it is too small for
 * that, the gradients are multiplied before. */
static th_status update(th_optimizer *o)
{
    th_step_sums sums;
    if (o->ctx->options.shapes_only)
        return o->ctx->error;
    if (o->sharing->sum_gradients(o, &sums) != TH_OK)
        return o->ctx->error;
    double factor = clip(o, &sums);
    if (factor <= 1e-18) {
        th_scale_gradients(&(th_gradient_list){.optimizer = o}, factor);
        factor = 1;
    }
    th_update_parameters(o, factor);
    return o->sharing->distribute(o);
}

/* -- finish -- */

static void finish(th_optimizer *o)
{
    for (int64_t i = 0; i < o->count; i++)
        if (o->parameters[i].due) {
            o->parameters[i].steps++;
            th_storage_mark_changed(o->parameters[i].tensor->storage);
            th_empty_gradient(o->parameters[i].tensor->handle);
        }
    o->backwards = o->ctx->backward_count;
    th_shards_end_loop(o);
    th_random_finish_step(o->ctx);
}

/* Rejects a step. The gradients can still be examined. The next backward overwrites them, with the same random
 * numbers. */
static th_status reject(th_optimizer *o)
{
    for (int64_t i = 0; i < o->count; i++)
        if (th_has_gradient(o->parameters[i].tensor))
            th_gradient_mark_finished(o->parameters[i].tensor);
    th_shards_end_loop(o);
    th_random_repeat_step(o->ctx);
    return o->ctx->error;
}

/* Runs a step. A process that cannot begin takes part in the agreement of its group, and is alone otherwise. */
static th_status run(th_optimizer *o)
{
    if (can_begin(o))
        (void)collect(o);
    else if (o->shards.processes == 1) {
        th_shards_end_loop(o);
        return o->ctx->error;
    }
    if (update(o) != TH_OK)
        return reject(o);
    finish(o);
    return TH_OK;
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
    if (run(o) != TH_OK)
        return ctx->error;
    (void)o->sharing->after_step(o);
    if (start)
        th_profile_step(ctx, o->rule->name, start,
                        (int64_t)(1e9 * (th_group_traffic_so_far(o->group).seconds - exchanged)));
    return ctx->error;
}

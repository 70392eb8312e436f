/* Local steps: each process takes H steps alone, then all of them take an outer step (outer_step.h). */
#include "training/shared/agreement.h"
#include "training/shared/outer_step.h"
#include "training/shared/sharing.h"
#include "training/shared/step_buffers.h"

/* The processes agree on errors before the step that the outer step follows. A process with an error begins its agreement
 * at once, because the others would not learn of it. */
static th_status sum_gradients(th_optimizer *o, th_step_sums *sums)
{
    if (!th_failed(o->ctx))
        th_outer_step_start(o);
    (void)th_sum_own_gradients(o, sums);
    const bool outer_step_follows = o->local_steps + 1 == o->diloco.local_steps;
    if (o->shards.processes > 1 && (outer_step_follows || th_failed(o->ctx)))
        (void)th_agree_on_step(o);
    return o->ctx->error;
}

static th_status after_step(th_optimizer *o)
{
    for (int64_t i = 0; i < o->count; i++)
        if (o->parameters[i].due)
            o->parameters[i].changed = true;
    o->local_steps++;
    return o->local_steps == o->diloco.local_steps ? th_outer_step(o) : TH_OK;
}

const th_sharing th_sharing_local = {
    .reserve = th_step_buffers_reserve,
    .sum_gradients = sum_gradients,
    .distribute = th_share_nothing,
    .after_step = after_step,
};

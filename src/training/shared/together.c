/* The steps that several processes compute together. Each owns a part of every parameter block (th_moments). It
 * receives the gradients of this part from all others, updates it, and sends it to them. */
#include "training/shared/agreement.h"
#include "training/shared/shared_norm.h"
#include "training/shared/sharing.h"
#include "training/shared/step_buffers.h"

/* Afterwards the gradients of this process's part are sums over the shards of all processes. */
static th_status sum_gradients(th_optimizer *o, th_step_sums *sums)
{
    const th_weighted_loss *losses;
    if (th_agree_on_step(o) != TH_OK || th_gather_due(o) != TH_OK ||
        th_gradient_exchange_sum(o->buffers->exchange, o) != TH_OK ||
        th_shared_norm(o, false, &sums->norm, &losses) != TH_OK)
        return o->ctx->error;
    return th_shards_sum_losses(o, losses, o->shards.count, sums);
}

static th_status distribute(th_optimizer *o)
{
    return th_gradient_exchange_parameters(o->buffers->exchange, o);
}

const th_sharing th_sharing_together = {
    .reserve = th_step_buffers_reserve,
    .sum_gradients = sum_gradients,
    .distribute = distribute,
    .after_step = th_share_nothing,
};

/* The steps of one process. */
#include "training/gradient_norm.h"
#include "training/shared/sharing.h"

th_status th_share_nothing(th_optimizer *o)
{
    (void)o;
    return TH_OK;
}

th_status th_sum_own_gradients(th_optimizer *o, th_step_sums *sums)
{
    if (th_failed(o->ctx))
        return o->ctx->error;
    th_shards_add_open_nodes(o);
    if (th_global_norm(&(th_gradient_list){o, o->module}, "optimizer_step", &sums->norm) != TH_OK)
        return o->ctx->error;
    return th_shards_sum_losses(o, o->shards.losses, o->shards.end - o->shards.first, sums);
}

const th_sharing th_sharing_alone = {
    .reserve = th_share_nothing,
    .sum_gradients = th_sum_own_gradients,
    .distribute = th_share_nothing,
    .after_step = th_share_nothing,
};

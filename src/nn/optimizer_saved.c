/* The state of an optimizer as checkpoints save it. */
#include "nn/optimizer_saved.h"

#include "nn/shared_step.h"
#include "tensor/tensor.h"

const char *th_optimizer_rule_name(const th_optimizer *o)
{
    if (o->rule == TH_RULE_SGD)
        return o->n_moments == 0 ? "sgd" : o->sgd.nesterov ? "sgd nesterov" : "sgd momentum";
    if (o->decoupled)
        return o->adam.amsgrad ? "adam_w amsgrad" : "adam_w";
    return o->adam.amsgrad ? "adam amsgrad" : "adam";
}

int th_optimizer_saved_options(const th_optimizer *o, th_saved_option option[TH_MAX_SAVED_OPTIONS])
{
    int n = 0;
    option[n++] = (th_saved_option){.name = "max_norm", .value = o->max_norm};
    if (o->rule == TH_RULE_SGD) {
        option[n++] = (th_saved_option){.name = "momentum", .value = o->sgd.momentum};
        option[n++] = (th_saved_option){.name = "dampening", .value = o->sgd.dampening};
    } else {
        option[n++] = (th_saved_option){.name = "beta1", .value = o->adam.beta1};
        option[n++] = (th_saved_option){.name = "beta2", .value = o->adam.beta2};
        option[n++] = (th_saved_option){.name = "eps", .value = o->adam.eps};
        option[n++] = (th_saved_option){.name = "eps_inside", .value = o->adam.eps_inside};
    }
    option[n++] = (th_saved_option){.name = "shards", .value = o->shards.count, .newer = true, .default_value = 1};
    return n;
}

const char *th_optimizer_moment_name(const th_optimizer *o, int i)
{
    static const char *const adam[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
    return o->rule == TH_RULE_SGD ? "momentum_buffer" : adam[i];
}

int64_t th_optimizer_index(const th_optimizer *o, const th_tensor_impl *parameter, int64_t *hint)
{
    for (int64_t i = 0; i < o->count; i++) {
        const int64_t at = (*hint + i) % o->count;
        if (o->parameters[at].tensor == parameter) {
            *hint = at + 1;
            return at;
        }
    }
    return -1;
}

th_array th_optimizer_moment(const th_optimizer *o, int64_t p, int i)
{
    const th_optimizer_parameter *parameter = &o->parameters[p];
    th_array array = th_tensor_array(parameter->tensor);
    array.data = th_moment_part_of(parameter, i).data;
    return array;
}

void th_optimizer_set_steps(th_optimizer *o, int64_t p, int64_t steps)
{
    o->parameters[p].steps = steps;
    if (steps == 0)
        th_moments_clear(o, &o->parameters[p]);
}

void th_optimizer_forget_loop(th_optimizer *o)
{
    th_shards_restart(o);
}

bool th_optimizer_in_loop(const th_optimizer *o)
{
    return o->shards.looped;
}

void th_optimizers_compare_again(th_context *ctx)
{
    th_attachment *at = ctx->attachments;
    for (th_optimizer *o = th_optimizer_next(&at); o; o = th_optimizer_next(&at))
        th_shared_step_compare_again(o);
}

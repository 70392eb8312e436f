/* The state of an optimizer as checkpoints save it. */
#include "training/saved_state.h"

#include "tensor/format.h"
#include "tensor/tensor.h"
#include "training/shared/outer_step.h"

static const char *rule_of(const th_optimizer *o)
{
    if (o->rule == TH_RULE_SGD)
        return o->n_moments == 0 ? "sgd" : o->sgd.nesterov ? "sgd nesterov" : "sgd momentum";
    if (o->decoupled)
        return o->adam.amsgrad ? "adam_w amsgrad" : "adam_w";
    return o->adam.amsgrad ? "adam amsgrad" : "adam";
}

void th_optimizer_name_rule(th_optimizer *o)
{
    o->rule_name[0] = 0;
    th_append(o->rule_name, sizeof o->rule_name, "%s", rule_of(o));
    if (th_steps_are_local(o))
        th_append(o->rule_name, sizeof o->rule_name, " of %d workers", o->shards.processes);
}

const char *th_optimizer_rule_name(const th_optimizer *o)
{
    return o->rule_name;
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
    if (th_steps_are_local(o)) {
        option[n++] = (th_saved_option){.name = "local_steps", .value = o->diloco.local_steps};
        option[n++] = (th_saved_option){.name = "outer_learning_rate", .value = o->diloco.learning_rate};
        option[n++] = (th_saved_option){.name = "outer_momentum", .value = o->diloco.momentum};
    }
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
    th_optimizer_parameter *parameter = &o->parameters[p];
    if (th_steps_are_local(o))
        parameter->outer = steps;
    if (!th_steps_are_local(o) || steps == 0)
        parameter->steps = steps;
    if (steps == 0)
        th_moments_clear(o, parameter);
}

void th_optimizer_forget_loop(th_optimizer *o)
{
    th_shards_restart(o);
    th_outer_step_forget(o);
}

bool th_optimizer_in_loop(const th_optimizer *o)
{
    return o->shards.looped;
}

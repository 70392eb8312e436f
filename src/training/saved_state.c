/* The state of an optimizer as checkpoints save it. */
#include "training/saved_state.h"

#include "tensor/format.h"
#include "tensor/tensor.h"
#include "training/moments.h"

void th_optimizer_name_rule(th_optimizer *o)
{
    o->rule_name[0] = 0;
    th_append(o->rule_name, sizeof o->rule_name, "%s", o->rule->full_name(o->options));
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
    n += o->rule->save_options(o->options, &option[n]);
    option[n++] = (th_saved_option){.name = "shards", .value = o->shards.count, .newer = true, .default_value = 1};
    if (th_steps_are_local(o)) {
        option[n++] = (th_saved_option){.name = "local_steps", .value = o->diloco.local_steps};
        option[n++] = (th_saved_option){.name = "outer_learning_rate", .value = o->diloco.learning_rate};
        option[n++] = (th_saved_option){.name = "outer_momentum", .value = o->diloco.momentum};
    }
    return n;
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
    th_shards_end_loop(o);
    th_forget_local_steps(o);
}

bool th_optimizer_in_loop(const th_optimizer *o)
{
    return o->shards.loop_begun;
}

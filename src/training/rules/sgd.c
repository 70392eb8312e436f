/* SGD with momentum, as PyTorch computes it. tapehead/optimizer.h has the formula, the options and their ranges;
 * kernels/elementwise/vector/optimizer.c computes it. */
#include <float.h>

#include "kernels/elementwise/optimizer_kernels.h"
#include "training/create.h"

typedef struct sgd_options {
    double momentum, dampening;
    bool nesterov;
} sgd_options;

static const char *full_name(const void *options)
{
    const sgd_options *o = options;
    return o->momentum == 0 ? "sgd" : o->nesterov ? "sgd nesterov" : "sgd momentum";
}

static int moment_count(const void *options)
{
    const sgd_options *o = options;
    return o->momentum > 0;
}

static double largest_moment(int i, th_dtype dtype)
{
    (void)i;
    return dtype == TH_FLOAT32 ? (double)FLT_MAX : DBL_MAX;
}

static int save_options(const void *options, th_saved_option option[TH_MAX_RULE_OPTIONS])
{
    const sgd_options *o = options;
    option[0] = (th_saved_option){.name = "momentum", .value = o->momentum};
    option[1] = (th_saved_option){.name = "dampening", .value = o->dampening};
    return 2;
}

static bool keeps_zeros(const void *options)
{
    (void)options;
    return true;
}

/* As in PyTorch, dampening applies neither to the first step nor without momentum. */
static void update(const th_update *u, int64_t n, void *parameter, const void *gradient,
                   void *const moment[TH_MAX_MOMENTS])
{
    const sgd_options *o = u->options;
    const double share = u->steps == 0 || o->momentum == 0 ? 1 : 1 - o->dampening;
    const th_sgd_update numbers = {
        .gradient_scale = share * u->gradient_scale,
        .weight_decay = share * u->weight_decay,
        .momentum = o->momentum,
        .nesterov = o->nesterov,
        .learning_rate = u->learning_rate,
    };
    u->kernels->sgd(n, parameter, gradient, moment[0], &numbers);
}

const th_update_rule th_update_rule_sgd = {
    .name = "sgd",
    .options_size = sizeof(sgd_options),
    .full_name = full_name,
    .moment_count = moment_count,
    .moment_names = {"momentum_buffer"},
    .largest_moment = largest_moment,
    .save_options = save_options,
    .keeps_zeros = keeps_zeros,
    .update = update,
};

th_optimizer *th_sgd_new(th_module *m, const th_sgd_options *options)
{
    const th_sgd_options given = options ? *options : (th_sgd_options){0};
    const char *name = th_update_rule_sgd.name;
    const th_common_options common = {.learning_rate = given.learning_rate,
                                      .weight_decay = given.weight_decay,
                                      .max_norm = given.max_norm,
                                      .groups = given.groups,
                                      .n_groups = given.n_groups,
                                      .shards = given.shards,
                                      .group = given.group,
                                      .diloco = given.diloco};
    if (!th_common_options_legal(m, name, &common) ||
        !th_option_in_range(m->ctx, name, "momentum", given.momentum, given.momentum >= 0 && given.momentum < 1) ||
        !th_option_in_range(m->ctx, name, "dampening", given.dampening, given.dampening >= 0 && given.dampening <= 1))
        return NULL;
    if (given.nesterov && (given.momentum == 0 || given.dampening != 0)) {
        th_fail(m->ctx, TH_ERROR_ARGUMENT, name, "nesterov needs momentum and no dampening");
        return NULL;
    }
    const sgd_options own = {given.momentum, given.dampening, given.nesterov};
    return th_optimizer_new(m, &th_update_rule_sgd, &own, &common);
}

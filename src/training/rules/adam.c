/* Adam, AdamW and AMSGrad. They differ in the weight decay and in the number of moments.
 * tapehead/optimizer.h has the formulas, the options and their ranges; kernels/elementwise/vector/optimizer.c computes
 * them. */
#include "training/rules/adam.h"

#include <math.h>

#include "kernels/elementwise/optimizer_kernels.h"
#include "kernels/elementwise/scalar.h"
#include "training/create.h"

static const char *full_name(const void *options)
{
    const th_adam_rule_options *o = options;
    if (o->decoupled)
        return o->amsgrad ? "adam_w amsgrad" : "adam_w";
    return o->amsgrad ? "adam amsgrad" : "adam";
}

static int moment_count(const void *options)
{
    const th_adam_rule_options *o = options;
    return o->amsgrad ? 3 : 2;
}

/* The limits of a gradient element and of its square (kernels/elementwise/optimizer_kernels.h). */
static double largest_moment(int i, th_dtype dtype)
{
    const bool narrow = dtype == TH_FLOAT32;
    return i == 0 ? (narrow ? 0x1p63 : 0x1p511) : narrow ? 0x1p126 : 0x1p1022;
}

static int save_options(const void *options, th_saved_option option[TH_MAX_RULE_OPTIONS])
{
    const th_adam_rule_options *o = options;
    option[0] = (th_saved_option){.name = "beta1", .value = o->beta1};
    option[1] = (th_saved_option){.name = "beta2", .value = o->beta2};
    option[2] = (th_saved_option){.name = "eps", .value = o->eps};
    option[3] = (th_saved_option){.name = "eps_inside", .value = o->eps_inside};
    return 4;
}

/* With an eps of 0, a moment of 0 gives 0 / 0. */
static bool keeps_zeros(const void *options)
{
    const th_adam_rule_options *o = options;
    return o->eps > 0;
}

static void update(const th_update *u, int64_t n, void *parameter, const void *gradient,
                   void *const moment[TH_MAX_MOMENTS])
{
    const th_adam_rule_options *o = u->options;
    const double t = (double)u->steps + 1;
    const th_adam_update numbers = {
        .gradient_scale = u->gradient_scale,
        .weight_decay = o->decoupled ? 0 : u->weight_decay,
        .beta1 = o->beta1,
        .beta2 = o->beta2,
        .shrink = o->decoupled ? u->learning_rate * u->weight_decay : 0,
        .step_size = u->learning_rate / (1 - th_scalar_pow(o->beta1, t)),
        .second_scale = 1 / (1 - th_scalar_pow(o->beta2, t)),
        .eps_inside = o->eps_inside ? o->eps : 0,
        .eps_outside = o->eps_inside ? 0 : o->eps,
    };
    u->kernels->adam(n, parameter, gradient, moment[0], moment[1], moment[2], &numbers);
}

/* The members that both rules have. */
#define ADAM_MEMBERS                                                                                                   \
    .options_size = sizeof(th_adam_rule_options), .full_name = full_name, .moment_count = moment_count,                \
    .moment_names = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, .largest_moment = largest_moment,                     \
    .save_options = save_options, .keeps_zeros = keeps_zeros, .update = update

const th_update_rule th_update_rule_adam = {.name = "adam", ADAM_MEMBERS};
const th_update_rule th_update_rule_adam_w = {.name = "adam_w", ADAM_MEMBERS};

static th_optimizer *adam_new(th_module *m, const th_update_rule *rule, const th_adam_options *options, bool decoupled)
{
    const th_adam_options given = options ? *options : (th_adam_options){0};
    const th_adam_rule_options own = {.beta1 = th_option_or(given.beta1, 0.9, given.has_betas && given.beta1 == 0),
                                      .beta2 = th_option_or(given.beta2, 0.999, given.has_betas && given.beta2 == 0),
                                      .eps = th_option_or(given.eps, 1e-8, given.no_eps),
                                      .eps_inside = given.eps_inside,
                                      .amsgrad = given.amsgrad,
                                      .decoupled = decoupled};
    const th_common_options common = {.learning_rate = given.learning_rate,
                                      .weight_decay = given.weight_decay,
                                      .max_norm = given.max_norm,
                                      .groups = given.groups,
                                      .n_groups = given.n_groups,
                                      .shards = given.shards,
                                      .group = given.group,
                                      .diloco = given.diloco};
    if (!th_common_options_legal(m, rule->name, &common) ||
        !th_option_in_range(m->ctx, rule->name, "beta1", own.beta1, own.beta1 >= 0 && own.beta1 < 1) ||
        !th_option_in_range(m->ctx, rule->name, "beta2", own.beta2, own.beta2 >= 0 && own.beta2 < 1) ||
        !th_option_in_range(m->ctx, rule->name, "eps", own.eps, own.eps >= 0 && isfinite(own.eps)))
        return NULL;
    return th_optimizer_new(m, rule, &own, &common);
}

th_optimizer *th_adam_new(th_module *m, const th_adam_options *options)
{
    return adam_new(m, &th_update_rule_adam, options, false);
}

th_optimizer *th_adam_w_new(th_module *m, const th_adam_options *options)
{
    return adam_new(m, &th_update_rule_adam_w, options, true);
}

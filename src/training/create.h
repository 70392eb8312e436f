/* Creates optimizers. The functions of the update rules (src/training/rules) check their own options and call these. */
#ifndef TH_TRAINING_CREATE_H
#define TH_TRAINING_CREATE_H

#include "training/optimizer.h"

/* The options that all rules have. th_sgd_options describes them. */
typedef struct th_common_options {
    double learning_rate, weight_decay, max_norm;
    double element_rate_factor, element_weight_decay; /* with matrices (matrices.h): of the other parameters */
    const th_parameter_group *groups;                 /* [n_groups] */
    int n_groups;
    int shards;
    th_group *group;
    th_diloco_options diloco;
} th_common_options;

/* Returns the option's value: 0 means the default, unless `zero`. Checkpoints store that explicit zero as -0.0 and
 * compare options bit by bit. */
double th_option_or(double value, double default_value, bool zero);
/* Returns `legal`; if it is false, with TH_ERROR_ARGUMENT. */
bool th_option_in_range(th_context *ctx, const char *operation, const char *option, double value, bool legal);
/* Returns false, with an error pending, if m cannot be used or one of the options is out of range. */
bool th_common_options_legal(const th_module *m, const char *operation, const th_common_options *options);

/* Creates an optimizer of all parameters of the module. rule_options: rule->options_size bytes, copied. Returns NULL
 * with an error pending. */
th_optimizer *th_optimizer_new(th_module *m, const th_update_rule *rule, const void *rule_options,
                               const th_common_options *options);

#endif

/* The internal state of an optimizer. create.c creates it, moments.c manages its moments, parameters.c follows
 * parameters that are freed or cast, step.c runs steps, shared/outer_step.c the outer steps of DiLoCo. */
#ifndef TH_TRAINING_OPTIMIZER_H
#define TH_TRAINING_OPTIMIZER_H

#include "private_api.h"
#include "tapehead/optimizer.h"
#include "tensor/context.h"
#include "tensor/parameter.h"
#include "tensor/parameter_observer.h"
#include "training/shared/shards.h"
#include "training/update_rule.h"

enum {
    TH_NORM_CHUNK = 1 << 14 /* elements of a parameter whose squares are summed first */
};

typedef struct th_moments th_moments; /* moments.h */

/* One parameter of an optimizer. */
typedef struct th_optimizer_parameter {
    th_tensor_impl *tensor;
    th_parameter_entry *entry;
    th_moments *moments; /* NULL until the first step, and if all parameters of the block are frozen */
    int group;
    int parts;    /* matrices of equal size, one below the other, that the rule updates whole; 0: element by element */
    bool due;     /* has a gradient in the current step */
    bool summed;  /* required a gradient when the loop over the shards began */
    bool changed; /* by a local step since the last outer step */
    bool has_saved_moments; /* a checkpoint that is being loaded has its moments */
    int64_t steps;          /* taken so far */
    int64_t outer;          /* the number of outer steps that included it, the same in all processes */
} th_optimizer_parameter;

typedef struct th_optimizer_group {
    double learning_rate_factor, weight_decay;
} th_optimizer_group;

struct th_optimizer {
    th_context *ctx;
    size_t bytes;            /* of this struct with the rule's options */
    const th_module *module; /* for names; NULL once it is freed */
    const th_update_rule *rule;
    char rule_name[48]; /* for checkpoints (saved_state.h) */
    double learning_rate, max_norm;
    th_diloco_options diloco; /* complete; local_steps 0: none */
    int local_steps;          /* since the last outer step */
    double norm, loss;        /* of the last step */
    int n_moments;            /* of elements; matrices may have fewer */
    th_optimizer_group
        *groups; /* [n_groups]; with matrices, [n_groups / 2] of these and then [n_groups / 2] of others */
    int n_groups;
    th_optimizer_parameter *parameters; /* [count], in the module's order */
    th_optimizer_parameter **layout;    /* [count], in the order of memory */
    int64_t count, capacity;
    bool sorted; /* layout is up to date */
    bool freed;
    uint64_t backwards; /* the context's number of backward passes at the last step, or at creation */
    uint64_t additions; /* the context's number of additions when all parameters to train had an optimizer */
    th_moments *moments;
    th_moments *reserved;            /* for parameters that will move, or for the first step; NULL otherwise */
    struct th_matrix_work *matrices; /* NULL: the rule updates no whole matrices */
    th_shard_state shards;
    th_group *group;                  /* NULL: this process alone */
    const struct th_sharing *sharing; /* how processes share a step (shared/sharing.h) */
    struct th_step_buffers *buffers;  /* NULL until the first step with several processes or local steps */
    bool compared;                    /* the processes have compared their parameters */
    bool same_due;                    /* all processes have the same due parameters, as of the last agreement */
    double options[];                 /* of the rule: rule->options_size bytes */
};

/* Returns whether the optimizer takes local steps (shared/outer_step.h). */
static inline bool th_steps_are_local(const th_optimizer *o)
{
    return o->diloco.local_steps > 0;
}
/* Begins again with no local step since the last outer step. */
void th_forget_local_steps(th_optimizer *o);

/* Returns false, with the error pending, if o is NULL or was freed. */
TH_PRIVATE_API bool th_optimizer_usable(const th_optimizer *o, const char *operation);

/* Returns the group that a parameter belongs to: the first that takes it; n_groups if none does. */
int th_optimizer_group_of(const th_parameter_group *groups, int n_groups, const th_parameter_iterator *p);
/* TH_ERROR_ARGUMENT if a group has a pattern that matches no parameter of m. */
th_status th_optimizer_check_groups(th_module *m, const char *operation, const th_parameter_group *groups,
                                    int n_groups);
/* TH_ERROR_STATE if the module has a parameter that requires a gradient and that no optimizer of the context has. */
th_status th_optimizer_check_additions(th_optimizer *o);

/* Follows parameters that are freed, or cast to another type. */
extern const th_parameter_observer th_optimizer_observer;

/* Returns how many moments the parameter has. */
static inline int th_moments_of(const th_optimizer *o, const th_optimizer_parameter *p)
{
    return p->parts ? o->rule->matrix_moments : o->n_moments;
}
/* Returns what is the same for all elements of a parameter. */
th_update th_update_of(const th_optimizer *o, const th_optimizer_parameter *p, double gradient_scale);
/* Updates all parameters that are due, with their gradients times gradient_scale. */
void th_update_parameters(const th_optimizer *o, double gradient_scale);

#endif

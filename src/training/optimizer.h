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

/* The moments of the parameters in a block. Each process of a group owns a part of the block: bytes cut[rank] to
 * cut[rank + 1] - 1. It has the moments of its part, which it updates. With local steps (outer_step.h) it updates the
 * whole block, and has all moments. A moment has the layout of what the process updates. */
typedef struct th_moments {
    th_parameter_block *block;
    size_t bytes;      /* of the block when the moments were made */
    size_t *cut;       /* [size of the group + 1], multiples of a cache line, from 0 to bytes */
    size_t begin, end; /* what this process updates in a step */
    void *moment[TH_MAX_MOMENTS];
    void *start;    /* with local steps: the block's parameters before the first of them, `bytes` bytes */
    void *velocity; /* of the outer step, of the part that this process owns; NULL without momentum */
    struct th_moments *next;
} th_moments;

/* One parameter of an optimizer. */
typedef struct th_optimizer_parameter {
    th_tensor_impl *tensor;
    th_parameter_entry *entry;
    th_moments *moments; /* NULL until the first step, and if all parameters of the block are frozen */
    int group;
    bool due;      /* has a gradient in the current step */
    bool summed;   /* required a gradient when the loop over the shards began */
    bool changed;  /* by a local step since the last outer step */
    bool stored;   /* a checkpoint that is being loaded has its moments */
    int64_t steps; /* taken so far */
    int64_t outer; /* the number of outer steps that included it, the same in all processes */
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
    int n_moments;
    th_optimizer_group *groups; /* [n_groups]; the last one has all parameters that match no other */
    int n_groups;
    th_optimizer_parameter *parameters; /* [count], in the module's order */
    th_optimizer_parameter **layout;    /* [count], in the order of memory */
    int64_t count, capacity;
    bool sorted; /* layout is up to date */
    bool freed;
    uint64_t backwards; /* the context's number of backward passes at the last step, or at creation */
    uint64_t additions; /* the context's number of additions when all parameters to train had an optimizer */
    th_moments *moments;
    th_moments *reserved; /* for parameters that will move, or for the first step; NULL otherwise */
    th_shard_state shards;
    th_group *group;               /* NULL: this process alone */
    struct th_shared_step *shared; /* shared_step.c; NULL until the first step with several processes or local steps */
    double options[];              /* of the rule: rule->options_size bytes */
};

/* Returns false, with the error stored, if o is NULL or was freed. */
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

/* Brings o->layout up to date. */
void th_optimizer_sort(th_optimizer *o);

/* Updates all parameters that are due, with their gradients times gradient_scale. */
void th_update_parameters(const th_optimizer *o, double gradient_scale);

/* -- moments -- */
/* Allocates moments, and what the outer step keeps, for the blocks with a parameter that is not frozen or `stored`. After
 * an error nothing has changed. */
TH_PRIVATE_API th_status th_moments_ensure(th_optimizer *o);
/* Allocates moments, zeros, for all parameters that the block holds now, unless it has them. The caller adopts or
 * discards them. */
th_status th_moments_reserve(th_optimizer *o, th_parameter_block *block);
/* Uses the reserved moments. They replace shorter ones of the same blocks, with their values. */
void th_moments_adopt_reserved(th_optimizer *o);
/* Frees the reserved moments. */
void th_moments_discard_reserved(th_optimizer *o);
/* Converts the parameter's moments into the moments of its successor's block. */
void th_moments_move(th_optimizer *o, th_optimizer_parameter *p);
/* Limits the values of moment i of a parameter (contiguous) to the largest that a step can produce. For moments from a
 * file or of another type. NaN does not change. */
void th_moments_limit(const th_optimizer *o, int i, const th_array *moment);
/* This process's part of moment i of parameter p: bytes begin to end - 1 of the moment are at data. begin = end if the
 * process has nothing of it. */
typedef struct th_moment_part {
    char *data; /* NULL before the first step, and in a shapes-only context */
    size_t begin, end;
} th_moment_part;
th_moment_part th_moment_part_of(const th_optimizer_parameter *p, int i);
/* Returns which part of every moment of p process `rank` has. data is NULL. */
th_moment_part th_moment_part_of_rank(const th_optimizer_parameter *p, int rank);
/* This process's part of the parameter's velocity of outer steps. */
th_moment_part th_velocity_part_of(const th_optimizer *o, const th_optimizer_parameter *p);
/* Sets the parameter's moments and velocity to zero, as gaps between parameters are. */
void th_moments_clear(const th_optimizer *o, const th_optimizer_parameter *p);
/* Frees the moments of blocks that no parameter of o uses any more. */
void th_moments_drop_unused(th_optimizer *o);
/* Frees all moments. */
void th_moments_destroy(th_optimizer *o);

#endif

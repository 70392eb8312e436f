/* What an optimizer is made of, for the files that share it: optimizer.c makes it, optimizer_moments.c holds its
 * moments, optimizer_parameters.c follows its parameters where they go, optimizer_step.c steps. */
#ifndef TH_NN_OPTIMIZER_STATE_H
#define TH_NN_OPTIMIZER_STATE_H

#include "nn/optimizer.h"
#include "private_api.h"
#include "tensor/context.h"

enum { TH_MAX_MOMENTS = 3 };

/* The moments of all parameters of a block: each mirrors the part of the block that the optimizer uses. */
typedef struct th_moments {
    th_parameter_block *block;
    size_t bytes;
    void *moment[TH_MAX_MOMENTS];
    struct th_moments *next;
} th_moments;

/* One parameter. */
typedef struct th_optimizer_parameter {
    th_tensor_impl *tensor;
    th_parameter_entry *entry;
    th_moments *moments; /* NULL until the first step */
    int group;
    bool due;      /* has a gradient in the current step */
    int64_t steps; /* taken so far */
} th_optimizer_parameter;

typedef struct th_optimizer_group {
    double learning_rate_factor, weight_decay;
} th_optimizer_group;

typedef enum th_optimizer_rule { TH_RULE_SGD, TH_RULE_ADAM } th_optimizer_rule;

struct th_optimizer {
    th_context *ctx;
    const th_module *module; /* for names; NULL once it is freed */
    const char *operation;   /* "adam": for sentences */
    th_optimizer_rule rule;
    bool decoupled;
    th_sgd_options sgd;
    th_adam_options adam;
    double learning_rate, max_norm, norm;
    int n_moments;
    th_optimizer_group *groups; /* [n_groups]; the last one is everything else */
    int n_groups;
    th_optimizer_parameter *parameters; /* [count], in the module's order */
    th_optimizer_parameter **layout;    /* [count], in the order they lie in memory */
    int64_t count, capacity;
    bool sorted; /* layout is up to date */
    bool freed;
    uint64_t backwards; /* the context's count at the last step, or when the optimizer was made */
    th_moments *moments;
    th_moments *reserved; /* for parameters that are about to move, or for the first step; NULL otherwise */
};

/* False, with an error pending, for a module whose parameters are out of reach. */
bool th_optimizer_takes(const th_module *m);
/* False for an optimizer that must not be used: the error is stored. */
TH_PRIVATE_API bool th_optimizer_usable(const th_optimizer *o, const char *operation);
/* The first optimizer from *at on, which moves behind it; NULL at the end. Start with the context's attachments. */
th_optimizer *th_optimizer_next(th_attachment **at);

/* -- moments -- */
/* For every parameter, or for none more than there were. */
TH_PRIVATE_API th_status th_moments_ensure(th_optimizer *o);
/* Room for moments of all that lies in the block now, unless they have it: zeros, to be adopted or discarded. */
th_status th_moments_reserve(th_optimizer *o, th_parameter_block *block);
/* What was reserved replaces shorter moments of the same blocks. */
void th_moments_adopt_reserved(th_optimizer *o);
void th_moments_discard_reserved(th_optimizer *o);
/* The parameter's moments, converted, to where it will be. */
void th_moments_move(th_optimizer *o, th_optimizer_parameter *p);
/* Limits the values of moment i of a parameter (contiguous) to the largest that a step can produce. For moments from a
 * file or from another type. NaN stays. */
TH_PRIVATE_API void th_moments_limit(const th_optimizer *o, int i, const th_array *moment);
/* The parameter's place in the moments holds zeros again, as every gap does. */
void th_moments_clear(const th_optimizer *o, const th_optimizer_parameter *p);
/* Frees those of blocks that no parameter uses any more: the blocks may be gone soon. */
void th_moments_drop_unused(th_optimizer *o);
void th_moments_destroy(th_optimizer *o);

#endif

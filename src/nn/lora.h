/* Adapters (tapehead/lora.h): lora.c creates and runs one, projections.c finds the places for them, lora_attach.c and
 * lora_merge.c attach, detach and merge all adapters of a module tree. */
#ifndef TH_NN_LORA_H
#define TH_NN_LORA_H

#include "nn/module.h"

/* How an adapter is made. */
typedef struct th_lora_setting {
    int64_t rank;
    double alpha, dropout;
    bool rank_stabilized;
} th_lora_setting;

/* The adapter of a projection: a module with the parameters A and B. It is hidden while it is merged. */
typedef struct th_lora {
    th_module base;
    th_tensor *a, *b; /* (r, in), (out, r) */
    th_lora_setting setting;
    double scale;
    char *saved_weight; /* while merged: the weight's bytes before the merge; NULL in a shapes-only context */
    size_t saved_bytes;
    uint32_t merged_version; /* of the weight's storage after the merge */
} th_lora;

/* -- one adapter (lora.c) -- */

/* Creates an adapter for a weight (rows, input), with B = 0. A is 0, or shared if that is not NULL. Returns NULL with
 * an error pending. */
th_lora *th_lora_new(th_context *ctx, const th_lora_setting *setting, th_dtype dtype, int64_t rows, int64_t input,
                     th_tensor *shared);

/* Draws the values of A. */
th_status th_lora_initialize(const th_lora *l);

/* Returns residual + scale drop(x) A^T B^T, the start of the sums of the base's product. residual may be NULL. Returns
 * residual if l is NULL or merged. */
th_tensor *th_lora_residual(th_lora *l, th_tensor *x, th_tensor *residual);

/* The two steps of th_lora_residual. th_lora_reduce returns scale drop(x) A^T, (N, r), which adapters with the same A
 * and x share. th_lora_expand returns residual + reduced B^T. */
th_tensor *th_lora_reduce(th_lora *l, th_tensor *x);
th_tensor *th_lora_expand(th_lora *l, th_tensor *reduced, th_tensor *residual);

/* Returns whether l is an adapter that must run. */
static inline bool th_lora_is_active(const th_lora *l)
{
    return l && !l->base.state->hidden;
}

/* Releases the copy of the weight that the adapter keeps while it is merged. */
void th_lora_release_saved_weight(th_lora *l);

/* -- the places for adapters (projections.c) -- */

/* A projection: a dense layer's weight, or the rows of query, key or value of an attention layer. */
typedef struct th_projection {
    th_module *owner;             /* the dense or attention layer */
    char name[TH_FULL_NAME_SIZE]; /* below the root: "layers.0.self_attn.q_proj" */
    /* of query, key and value together: "layers.0.self_attn.in_proj"; "" for a dense layer */
    char joint_name[TH_FULL_NAME_SIZE];
    const char *child; /* the adapter's name in the owner */
    th_tensor *weight; /* rows begin .. begin + rows - 1 of it */
    int64_t begin, rows, input;
    bool classifier; /* of a whole model */
    th_lora **lora;  /* where the owner keeps its adapter */
    /* internal */
    const th_module *root;
    int input_index; /* of query, key or value in an attention layer */
} th_projection;

/* Returns an iterator before the first projection below m. */
TH_PRIVATE_API th_projection th_projections_begin(const th_module *m);
/* Moves to the next projection. Returns false at the end. */
TH_PRIVATE_API bool th_projection_next(th_projection *p);
/* As th_projection_next, for those that have an adapter. */
TH_PRIVATE_API bool th_projection_next_adapted(th_projection *p);

/* -- all adapters of a tree (lora_attach.c) -- */

/* Returns whether the user replaced the forward of a layer, which then might not run its adapter. */
static inline bool th_lora_may_be_ignored(const th_module *owner)
{
    return owner->forward != owner->state->own_forward || owner->attend;
}

/* Gives a projection an adapter. shared: the A that it shares, or NULL. Returns NULL with an error pending. */
TH_PRIVATE_API th_lora *th_lora_attach_to(const th_projection *p, const th_lora_setting *setting, th_tensor *shared);
/* Freezes all parameters below m except those of adapters. */
TH_PRIVATE_API void th_lora_freeze_base(th_module *m);
/* Frees all adapters below m, also while an error is pending. */
TH_PRIVATE_API void th_lora_remove_all(th_module *m);

#endif

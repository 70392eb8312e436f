/* LoRA, low-rank adaptation (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"): trains two small
 * matrices beside each frozen weight.
 *
 *     y = x W^T + b + scale drop(x) A^T B^T        x (N, in), W (out, in) frozen; A (r, in) and B (out, r) are trained
 *     scale = alpha / r                            with rank_stabilized: alpha / sqrt(r)
 *
 *     th_module *model = th_language_model_from_pretrained(ctx, folder);
 *     const char *const patterns[] = {"q_proj", "v_proj"};
 *     if (th_lora_attach(model, &(th_lora_options){.rank = 16, .patterns = patterns, .n_patterns = 2}))
 *         return report(ctx);
 *     th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 2e-4});
 *     ...                                          train as usual: only A and B change
 *     if (th_lora_save(model, "adapter"))          (tapehead/peft.h) or th_lora_merge, th_lora_detach and
 *         return report(ctx);                      th_language_model_export
 *
 * A projection is the weight of a dense layer, or the rows of one of the three input projections of an attention layer.
 * Its name is the dense layer's dotted name, or the attention layer's with q_proj, k_proj or v_proj:
 *
 *     layers.0.self_attn.q_proj, .k_proj, .v_proj, .out_proj     layers.0.linear1, .linear2, .gate     classifier
 *
 * The adapter of a projection is a module with the parameters A and B, so all functions for modules reach them. It is a
 * child "lora" of the dense layer, or "q_lora", "k_lora" or "v_lora" of the attention layer. */
#ifndef TAPEHEAD_LORA_H
#define TAPEHEAD_LORA_H

#include "tapehead/module.h"

TH_BEGIN_DECLS

/* Options of th_lora_attach. */
typedef struct th_lora_options {
    int64_t rank;         /* r; 0: 8 */
    double alpha;         /* 0: rank, so that alpha / r = 1 */
    bool rank_stabilized; /* scale = alpha / sqrt(r) (Kalajdzievski 2023, "A Rank Stabilization Scaling Factor for
                             Fine-Tuning with LoRA"), so that the output does not shrink as r grows */
    double dropout;       /* on x in front of A, in training; 0 <= p < 1 */
    /* The projections that get an adapter. A shell's pattern for file names is compared with the projection's name below
     * the module (* also matches dots), and with the part of the name behind each dot. So "q_proj" matches
     * "layers.0.self_attn.q_proj", as in PEFT's target_modules. "in_proj" matches q_proj, k_proj and v_proj of a layer
     * together: their adapters share A, as in PEFT's c_attn and qkv_proj. [n_patterns]; NULL: all projections except the
     * classifier (PEFT's "all-linear") */
    const char *const *patterns;
    int n_patterns;
} th_lora_options;

/* Attaches an adapter to each projection that a pattern matches. Draws A from U(-1/sqrt(in), 1/sqrt(in)) (Kaiming's
 * initialization as PEFT uses it), projection after projection in the order of th_module_parameters. B is 0. So
 * the outputs stay the same, bit for bit, until the first step. (Exceptions: -0 may become 0, and if x A^T
 * overflows, 0 times infinity is NaN.) Freezes all other parameters below m. A and B have the weight's type, or
 * float32 for a storage type. options may be NULL. After an error nothing has changed. Errors:
 *
 *   TH_ERROR_ARGUMENT  An option is out of range. A pattern matches nothing, for example because the classifier is the
 *                      embedding (tied). Both "in_proj" and "q_proj" are given. The forward of a layer was replaced,
 *                      and might not run the adapter.
 *   TH_ERROR_STATE     a module below m has an adapter already
 *   TH_ERROR_MEMORY */
TH_API th_status th_lora_attach(th_module *m, const th_lora_options *options) TH_MUST_CHECK;

/* Adds each adapter to its weight: W += scale B A, computed in the weight's type with products in float32 precision.
 * Afterwards the layers run without adapters, as fast as the base. Functions for modules do not visit A and B:
 * th_weights_save and th_language_model_export write the merged model. The old bits of W are kept for
 * th_lora_unmerge, which takes as much memory as the weights that have adapters. After an error nothing has changed.
 * Errors:
 *
 *   TH_ERROR_STATE     no adapter below m, or merged already; the tape still uses a weight (th_tape_clear first)
 *   TH_ERROR_TYPE      a weight has a storage type, which would round the sum
 *   TH_ERROR_ARGUMENT  a weight is tied to another module
 *   TH_ERROR_MEMORY */
TH_API th_status th_lora_merge(th_module *m) TH_MUST_CHECK;
/* Undoes th_lora_merge: restores the bits of W, and the adapters run again. TH_ERROR_STATE if the adapters are not
 * merged, or if a weight was changed, loaded or cast since then; after an error nothing has changed. */
TH_API th_status th_lora_unmerge(th_module *m) TH_MUST_CHECK;
/* Frees all adapters below m. Merged weights stay merged. The other parameters stay frozen; th_module_freeze(m, false)
 * changes this. Optimizers forget A and B. TH_ERROR_STATE if m has no adapters, or if a forward of a layer with an
 * adapter runs. */
TH_API th_status th_lora_detach(th_module *m) TH_MUST_CHECK;

/* Copies the adapters of `from` to `to`, a model with the same layers, which may belong to another context. If `to` has
 * no adapters, it gets adapters with the same settings, and its other parameters are frozen. So one thread can generate
 * with a snapshot of the adapters that another thread trains. No other thread may use either context meanwhile. After
 * an error no adapter was attached. Errors:
 *
 *   TH_ERROR_ARGUMENT  the models have different layers, or `to` has other adapters
 *   TH_ERROR_STATE     `from` has no adapter; an adapter of `to` is merged; a shapes-only context
 *   TH_ERROR_TYPE      the adapters are float32 and the weights of `to` float64, or the reverse
 *   TH_ERROR_MEMORY
 *
 * If an error is pending in the context of `from`, its code is returned. */
TH_API th_status th_lora_copy(th_module *to, const th_module *from) TH_MUST_CHECK;

/* What th_lora_find tells about an adapter. */
typedef struct th_lora_adapter {
    char name[TH_FULL_NAME_SIZE]; /* of the projection, below the module: "layers.0.self_attn.q_proj" */
    th_tensor *a, *b;             /* (r, in), (out, r): the parameters */
    double alpha, scale, dropout;
    bool rank_stabilized;
    bool merged;
} th_lora_adapter;
/* Returns the number of adapters below m; 0 for NULL. */
TH_API int64_t th_lora_count(const th_module *m);
/* Describes adapter `index` below m, 0 <= index < th_lora_count(m), in the order of the projections. Returns false,
 * without an error, for another index. Projections with a shared A have the same tensor a. */
TH_API bool th_lora_find(const th_module *m, int64_t index, th_lora_adapter *adapter);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_lora_attach(...) TH_AT_STATUS(th_lora_attach(__VA_ARGS__))
#define th_lora_merge(...) TH_AT_STATUS(th_lora_merge(__VA_ARGS__))
#define th_lora_unmerge(...) TH_AT_STATUS(th_lora_unmerge(__VA_ARGS__))
#define th_lora_detach(...) TH_AT_STATUS(th_lora_detach(__VA_ARGS__))
#define th_lora_copy(...) TH_AT_STATUS(th_lora_copy(__VA_ARGS__))
#endif

TH_END_DECLS

#endif

/* Modules: a named tree of parameters and children. Layers that come with the library: tapehead/layers.h.
 *
 * A module of your own is a struct that begins with a th_module, a constructor that names its children once, and a
 * forward:
 *
 *     typedef struct { th_module base; th_module *norm, *attention; } attention_block;
 *
 *     static th_tensor *attention_block_forward(th_module *m, th_tensor *x)     (B, T, E) -> (B, T, E)
 *     {
 *         attention_block *b = (attention_block *)m;
 *         th_tensor *h = th_module_forward(b->norm, x);
 *         return th_add(x, th_attend(b->attention, h, h, h, NULL));
 *     }
 *
 *     th_module *attention_block_new(th_context *ctx, int64_t width, int64_t heads)
 *     {
 *         attention_block *b = th_module_new(ctx, sizeof *b, "attention_block", attention_block_forward);
 *         if (b == NULL)
 *             return NULL;
 *         b->norm = th_module_add(&b->base, "norm", th_layer_norm_new(ctx, width, NULL));
 *         b->attention = th_module_add(&b->base, "attention", th_multi_head_attention_new(ctx, width, heads, NULL));
 *         return &b->base;
 *     }
 *
 * You can replace the forward of a library module, for adapters such as LoRA. The library then always runs your forward
 * for that module, also in fused paths:
 *
 *     static th_forward_function *dense_forward;                               saved before it is replaced
 *
 *     static th_tensor *with_adapter(th_module *m, th_tensor *x)
 *     {
 *         return th_add(dense_forward(m, x), th_module_forward(th_module_find(m, "adapter"), x));
 *     }
 *
 *     th_module *linear2 = th_module_find(model, "layers.0.linear2");
 *     dense_forward = linear2->forward;
 *     linear2->forward = with_adapter;
 *     th_module_add(linear2, "adapter", adapter_new(ctx));
 *
 * A replaced forward takes only x. If the library would pass it more (a mask, a memory, a cache, positions), or needs
 * more from it (attention weights), that is TH_ERROR_ARGUMENT.
 *
 * The tree provides names of parameters ("norm.weight"), training and evaluation, counting, saving and freeing. A
 * constructor checks only its own memory: the first error stays in the context, and while it is pending every forward
 * returns NULL. */
#ifndef TAPEHEAD_MODULE_H
#define TAPEHEAD_MODULE_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

typedef struct th_module th_module;
typedef struct th_module_state th_module_state; /* the library's own */
/* One tensor in, one tensor out. */
typedef th_tensor *th_forward_function(th_module *m, th_tensor *x);

enum {
    TH_NAME_SIZE = 64,      /* bytes of a member's name with its final 0 */
    TH_FULL_NAME_SIZE = 256 /* of a dotted name: "layers.0.self_attn.out_proj.weight" */
};

/* One parameter of a module under its own name there. */
typedef struct th_parameter {
    char name[TH_NAME_SIZE];
    th_tensor *tensor;
    struct th_parameter *next;
} th_parameter;

/* To read; the functions below change it. Set by hand: forward (before the first use), destroy and part. */
struct th_module {
    th_context *ctx;
    char type[TH_NAME_SIZE]; /* "attention_block": for messages */
    char name[TH_NAME_SIZE]; /* its name in the parent; "" without a parent */
    th_forward_function
        *forward; /* may be replaced, see above. NULL: the module has typed functions only, like th_attend */
    void (*destroy)(th_module *m); /* frees what the struct holds besides members; called once, before they go; may be
                                      NULL */
    th_module *parent, *first, *next; /* first child; next child of the same parent */
    th_parameter *parameters;         /* its own, in the order they were added */
    bool evaluation;                  /* pinned to evaluation */
    bool part;                        /* its parent's forward needs it: it is freed with its parent only */
    th_module_state *state;           /* the library's own */
};

/* -- making -- */
/* A module of `bytes` zeroed bytes that begin with a th_module; it belongs to the context until it is added to a
 * parent. type is copied. NULL with an error pending or when memory is out (TH_ERROR_MEMORY). */
TH_API void *th_module_new(th_context *ctx, size_t bytes, const char *type, th_forward_function *forward);
/* Makes child a member of m, which frees it with itself. Returns child, or NULL for a NULL child. Errors (then NULL): a
 * name that is empty, longer than 63 bytes, has a dot or is taken; a child that has a parent or would contain itself.
 * It is also an error if m is a library module other than a list, unless its forward was replaced: it would never use
 * the child. The same holds for parameters, below. */
TH_API th_module *th_module_add(th_module *m, const char *name, th_module *child);
/* A new parameter of the context's default type, all zeros (th_fill_*, tapehead/tensor.h, draws others), which requires
 * a gradient. It belongs to the module: th_tensor_free leaves it alone. */
TH_API th_tensor *th_module_add_parameter(th_module *m, const char *name, th_shape shape);
/* The parameter of another module under a second name (tied weights): one tensor, counted, stepped and saved once.
 * Returns it. */
TH_API th_tensor *th_module_tie_parameter(th_module *m, const char *name, th_tensor *parameter);
/* Frees a module with all its members, and takes it out of its parent. Optimizers forget its parameters. NULL is fine.
 * TH_ERROR_STATE, and nothing is freed: its forward is running, or it is a part of its parent (all members of the
 * library's own modules but those of lists are). A freed module must not be used; while its memory has no other use
 * (usually until 256 more modules and optimizers have been freed) that, too, is TH_ERROR_STATE. */
TH_API void th_module_free(th_module *m);

/* A list: its members are called "0", "1", ..., so that a list "layers" gives "layers.0.norm.weight". Its forward runs
 * them one after another. */
TH_API th_module *th_module_list_new(th_context *ctx);
TH_API th_module *th_module_list_add(th_module *list, th_module *member); /* returns member */
TH_API int64_t th_module_list_length(const th_module *list);
TH_API th_module *th_module_list_at(th_module *list, int64_t index); /* TH_ERROR_INDEX outside [0, length) */

/* -- running -- */
/* y = forward(m, x), as a scope: what the forward makes, its result excepted, is given up at its end. With an error
 * pending, or given NULL: NULL. */
TH_API th_tensor *th_module_forward(th_module *m, th_tensor *x);
/* The same in evaluation and without recording, whatever the context's mode: for measuring and generating between
 * training steps. */
TH_API th_tensor *th_module_evaluate(th_module *m, th_tensor *x);
/* The same scope for a typed function of your own:
 *     if (!th_module_begin(decoder)) return NULL;
 *     ...
 *     return th_module_end(decoder, y);
 * begin is false, and no scope is open, when m is NULL or an error is pending. end returns its result, and closes what
 * was left open inside, scopes and th_no_grad_begin. A return in between leaves the scope open until a forward around
 * it ends, or th_tape_clear. */
TH_API bool th_module_begin(th_module *m);
TH_API th_tensor *th_module_end(th_module *m, th_tensor *result);
/* With several results; entries may be NULL. */
TH_API void th_module_end_all(th_module *m, th_tensor *const *results, int count);

/* -- training and evaluation -- */
/* A module is in training when the context is and neither it nor a module above it is pinned to evaluation. */
TH_API void th_module_pin_evaluation(th_module *m, bool pinned);
TH_API bool th_module_is_training(const th_module *m);
/* Parameters of the whole tree stop (or start again) to require a gradient; gradients of frozen ones are emptied. */
TH_API th_status th_module_freeze(th_module *m, bool frozen) TH_MUST_CHECK;
/* Converts all floating parameters of the tree in place: handles stay, values are rounded as C does, gradients are
 * emptied, the moments of optimizers follow. TH_ERROR_STATE when the tape still uses one (th_tape_clear first); on an
 * error nothing has changed. */
TH_API th_status th_module_cast(th_module *m, th_dtype dtype) TH_MUST_CHECK;

/* -- looking -- */
/* Every parameter of the tree with its dotted name, each once, a module's own before its children's:
 *
 *     for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
 *         printf("%s: %lld\n", p.name, (long long)th_numel(p.tensor));
 */
typedef struct th_parameter_iterator {
    th_tensor *tensor;
    char name[TH_FULL_NAME_SIZE];
    /* where it stands */
    const th_module *root, *module;
    const th_parameter *parameter;
} th_parameter_iterator;
TH_API th_parameter_iterator th_module_parameters(const th_module *m); /* NULL: nothing to visit */
TH_API bool th_parameter_next(th_parameter_iterator *iterator);

/* By dotted name relative to m; NULL, without an error, when there is none. */
TH_API th_tensor *th_module_find_parameter(const th_module *m, const char *name);
TH_API th_module *th_module_find(th_module *m, const char *name);
/* "layers.0.norm" from the root on, into name (of TH_FULL_NAME_SIZE bytes), which is returned; "" for a root. */
TH_API const char *th_module_full_name(const th_module *m, char *name);
/* Numbers in all parameters, and in those that require a gradient. */
TH_API int64_t th_module_count(const th_module *m);
TH_API int64_t th_module_count_trainable(const th_module *m);
/* CRC-32C (Castagnoli) over the bytes of all parameters in the iterator's order: equal models have equal ones. 0 in a
 * shapes-only context. */
TH_API uint32_t th_module_crc32c(const th_module *m);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_module_new(...) TH_AT_POINTER(void, th_module_new(__VA_ARGS__))
#define th_module_add(...) TH_AT_POINTER(th_module, th_module_add(__VA_ARGS__))
#define th_module_add_parameter(...) TH_AT(th_module_add_parameter(__VA_ARGS__))
#define th_module_tie_parameter(...) TH_AT(th_module_tie_parameter(__VA_ARGS__))
#define th_module_list_new(...) TH_AT_POINTER(th_module, th_module_list_new(__VA_ARGS__))
#define th_module_list_add(...) TH_AT_POINTER(th_module, th_module_list_add(__VA_ARGS__))
#define th_module_list_at(...) TH_AT_POINTER(th_module, th_module_list_at(__VA_ARGS__))
#define th_module_forward(...) TH_AT(th_module_forward(__VA_ARGS__))
#define th_module_evaluate(...) TH_AT(th_module_evaluate(__VA_ARGS__))
#define th_module_freeze(...) TH_AT_STATUS(th_module_freeze(__VA_ARGS__))
#define th_module_cast(...) TH_AT_STATUS(th_module_cast(__VA_ARGS__))
#endif

TH_END_DECLS

#endif

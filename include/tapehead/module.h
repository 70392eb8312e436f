/* Modules: a tree of named parameters and child modules. Both are called the members of their module. The library's
 * layers are in tapehead/layers.h.
 *
 * Your own module consists of a struct that begins with a th_module, a forward, and a constructor that names the
 * children:
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
 * A replaced forward gets only x and returns only y. For such a module, a call with a mask, an encoder output
 * (memory), a cache or positions gives TH_ERROR_ARGUMENT. A call that requests attention weights does too. To replace
 * attention or a whole block in a model, set ->attend or ->transform, which get all options:
 *
 *     static th_tensor *own_attend(th_module *m, th_tensor *query, th_tensor *key, th_tensor *value,
 *                                  const th_attend_options *options)
 *     {
 *         th_tensor *y = th_attend(m, query, key, value, options);                the library's attention
 *         return th_mul(y, th_sigmoid(th_module_forward(th_module_find(m, "output_gate"), query)));
 *     }
 *
 *     th_module *attention = th_module_find(model, "layers.0.self_attn");
 *     attention->attend = own_attend;
 *     th_module_add(attention, "output_gate", th_dense_new(ctx, width, width, NULL));
 *
 * An attempt that cannot work is an error. The library never ignores a replaced function.
 *
 * The tree provides names of parameters ("norm.weight"), training and evaluation mode, counting, saving and freeing. A
 * constructor checks only its own allocation. It need not check the children that it creates, because the context
 * stores the first error, and every forward returns NULL while an error is pending. */
#ifndef TAPEHEAD_MODULE_H
#define TAPEHEAD_MODULE_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* A module: see struct th_module. */
typedef struct th_module th_module;
/* Internal state of a module. */
typedef struct th_module_state th_module_state;
/* The forward of a module: one tensor in, one tensor out. */
typedef th_tensor *th_forward_function(th_module *m, th_tensor *x);

struct th_attend_options;
struct th_transform_options;
/* A function that th_attend runs for a module instead of the library's. options is not NULL, and its residual is NULL.
 * It sets *options->weights if that is given. In it, th_attend(m, ...) runs the library's function. */
typedef th_tensor *th_attend_function(th_module *m, th_tensor *query, th_tensor *key, th_tensor *value,
                                      const struct th_attend_options *options);
/* A function that th_transform runs for a module instead of the library's. options is not NULL. In it,
 * th_transform(m, ...) runs the library's function. */
typedef th_tensor *th_transform_function(th_module *m, th_tensor *x, const struct th_transform_options *options);

enum {
    TH_NAME_SIZE = 64,      /* bytes of a member's name, with its final 0 */
    TH_FULL_NAME_SIZE = 256 /* bytes of a dotted name: "layers.0.self_attn.out_proj.weight" */
};

/* One parameter of a module, with its name there. */
typedef struct th_parameter {
    char name[TH_NAME_SIZE];
    th_tensor *tensor;
    struct th_parameter *next;
} th_parameter;

/* A node of the tree. Programs may set forward, attend and transform (before their first use), destroy and part. The
 * functions below set all other fields. */
struct th_module {
    th_context *ctx;
    char type[TH_NAME_SIZE];      /* "attention_block": for messages */
    char name[TH_NAME_SIZE];      /* in the parent; "" without a parent */
    th_forward_function *forward; /* may be replaced, see above. NULL: th_module_forward is an error, because the module
                                     has functions of its own with other arguments */
    /* Of multi-head attention, or of a module of your own: what th_attend runs. NULL: the library's function. */
    th_attend_function *attend;
    /* Of a block, a stack, or a module of your own: what th_transform runs, and th_module_forward of a block or a
     * stack. NULL: the library's function. */
    th_transform_function *transform;
    void (*destroy)(th_module *m); /* frees what your struct owns besides its members (parameters and children); called
                                      once, before the members are freed; may be NULL */
    th_module *parent, *first, *next; /* first: the first child; next: the next child of the same parent */
    th_parameter *parameters;         /* of this module alone, in the order they were added */
    bool evaluation;                  /* pinned to evaluation */
    bool part;                        /* the parent's forward needs it: it is freed with the parent only */
    th_module_state *state;           /* internal */
};

/* -- creating -- */
/* Creates a module: a struct of `bytes` bytes, all zero, that begins with a th_module. It belongs to the context until
 * it is added to a parent. type is copied. Returns NULL if an error was pending before. Errors (NULL):
 * TH_ERROR_MEMORY, TH_ERROR_ARGUMENT for `bytes` less than sizeof(th_module) or a type name that is empty or longer
 * than 63 bytes. */
TH_API void *th_module_new(th_context *ctx, size_t bytes, const char *type, th_forward_function *forward);
/* Adds a child to a module, under this name. m then owns child. Returns child; NULL for a NULL child. Errors (NULL):
 *
 *   - the name is empty, longer than 63 bytes, contains a dot or is taken
 *   - the child has a parent, or would contain itself
 *   - m is a library module, not a list, and none of its functions was replaced: the library's forward would never
 * use the child
 *
 * Parameters follow the same rules. */
TH_API th_module *th_module_add(th_module *m, const char *name, th_module *child);
/* Creates a parameter of the context's default type, all zeros, which requires a gradient. th_fill_*
 * (tapehead/tensor.h) draw other values. The module owns it: th_tensor_free does not free it. Errors: those of
 * th_module_add. */
TH_API th_tensor *th_module_add_parameter(th_module *m, const char *name, th_shape shape);
/* Adds the parameter of another module under a second name (tied weights). It is one tensor, which is counted, updated
 * and saved once. Returns it. Errors: those of th_module_add. */
TH_API th_tensor *th_module_tie_parameter(th_module *m, const char *name, th_tensor *parameter);
/* Frees a module with all its members (parameters and children), and removes it from its parent. Optimizers forget its
 * parameters. NULL is allowed. If its forward is running, or if it is a part of its parent, the result is
 * TH_ERROR_STATE and nothing is freed. (All children of library modules are parts, except those of lists.) Using a
 * freed module is TH_ERROR_STATE until its memory is reused: usually after 256 more modules and optimizers were
 * freed. */
TH_API void th_module_free(th_module *m);

/* Creates a list of modules. Its members are named "0", "1", ..., so that a list "layers" gives "layers.0.norm.weight".
 * Its forward runs them in order. */
TH_API th_module *th_module_list_new(th_context *ctx);
/* Adds a member at the end of a list. Returns member. Errors: those of th_module_add. */
TH_API th_module *th_module_list_add(th_module *list, th_module *member);
/* Returns the number of members of a list; 0 for NULL. */
TH_API int64_t th_module_list_length(const th_module *list);
/* Returns a member of a list. TH_ERROR_INDEX if index is outside [0, length). */
TH_API th_module *th_module_list_at(th_module *list, int64_t index);

/* -- running -- */
/* Returns forward(m, x). The forward is a scope: at its end, all tensors that it made are released, except the result.
 * Returns NULL if an error is pending, or if an argument is NULL. */
TH_API th_tensor *th_module_forward(th_module *m, th_tensor *x);
/* As th_module_forward, but in evaluation mode and without recording, independent of the context's modes. For measuring
 * and generating between training steps. */
TH_API th_tensor *th_module_evaluate(th_module *m, th_tensor *x);
/* Opens the scope of a module's forward, for a function of your own that takes other arguments:
 *
 *     if (!th_module_begin(decoder))
 *         return NULL;
 *     ...
 *     return th_module_end(decoder, y);
 *
 * Returns false, with no scope open, if m is NULL or an error is pending. If the function returns in between, the scope
 * stays open until an outer forward ends, or until th_tape_clear. */
TH_API bool th_module_begin(th_module *m);
/* Closes the scope of th_module_begin, and any scope and th_no_grad_begin that was left open inside. Returns result,
 * which outlives the scope; NULL if an error is pending. */
TH_API th_tensor *th_module_end(th_module *m, th_tensor *result);
/* As th_module_end, with several results. Entries may be NULL. */
TH_API void th_module_end_all(th_module *m, th_tensor *const *results, int count);

/* -- training and evaluation -- */
/* Pins a module and all modules below it to evaluation mode, or unpins it. */
TH_API void th_module_pin_evaluation(th_module *m, bool pinned);
/* Returns true if the context is in training mode, and neither the module nor a module above it is pinned to
 * evaluation. */
TH_API bool th_module_is_training(const th_module *m);
/* Freezes all parameters of the tree: they no longer require a gradient, and their gradients are emptied. With frozen =
 * false they require a gradient again. TH_ERROR_TYPE, and nothing has changed, if one of them has a storage type. */
TH_API th_status th_module_freeze(th_module *m, bool frozen) TH_MUST_CHECK;
/* Converts all float32 and float64 parameters of the tree in place. Handles stay valid, values are rounded as in C,
 * gradients are emptied, and the moments of optimizers are converted too. TH_ERROR_STATE if the tape still uses a
 * parameter (th_tape_clear first). After an error nothing has changed. */
TH_API th_status th_module_cast(th_module *m, th_dtype dtype) TH_MUST_CHECK;
/* Stores the frozen weights of dense layers, attention projections and embeddings of the tree as a storage type
 * (TH_BFLOAT16, TH_FLOAT16, TH_Q8_0, TH_Q4_0), in place. The values are rounded as by th_cast. A model with the rounded
 * values in float32 computes the same bits, forward and backward, except in TH_PRECISION_INT8. With TH_FLOAT32 or
 * TH_FLOAT64, converts the stored weights of the tree back.
 *
 *     if (th_module_freeze(model, true) || th_module_store(model, TH_Q8_0))
 *
 * Handles stay valid. Weights that require a gradient, norms, biases and the parameters of your own modules keep their
 * type. Optimizers forget the converted weights. The float32 memory is released: other parameters of the tree that are
 * in the same blocks of memory move too, and their gradients are emptied. During the call both copies exist.
 *
 * Errors, after which nothing has changed: TH_ERROR_SHAPE if a weight (out, in) is stored in blocks and `in` is not a
 * multiple of 32. TH_ERROR_STATE if no weight is frozen, or if the tape still uses a parameter (th_tape_clear first). */
TH_API th_status th_module_store(th_module *m, th_dtype dtype) TH_MUST_CHECK;

/* -- inspecting -- */
/* Visits every parameter of a tree once, with its dotted name. A module's own parameters come before its children's:
 *
 *     for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
 *         printf("%s: %lld\n", p.name, (long long)th_numel(p.tensor)); */
typedef struct th_parameter_iterator {
    th_tensor *tensor;
    char name[TH_FULL_NAME_SIZE];
    /* internal */
    const th_module *root, *module;
    const th_parameter *parameter;
} th_parameter_iterator;
/* Returns an iterator before the first parameter of m. If m is NULL, nothing is visited. */
TH_API th_parameter_iterator th_module_parameters(const th_module *m);
/* Moves to the next parameter. Returns false at the end. */
TH_API bool th_parameter_next(th_parameter_iterator *iterator);

/* Returns the parameter with this dotted name relative to m. Returns NULL, without an error, if it does not exist. */
TH_API th_tensor *th_module_find_parameter(const th_module *m, const char *name);
/* Returns the module with this dotted name relative to m; m itself for "". Returns NULL, without an error, if it does
 * not exist. */
TH_API th_module *th_module_find(th_module *m, const char *name);
/* Writes the dotted name of m relative to the root, such as "layers.0.norm", into name (TH_FULL_NAME_SIZE bytes).
 * Returns name. The name of a root is "". */
TH_API const char *th_module_full_name(const th_module *m, char *name);
/* Returns the number of elements in all parameters of the tree. A block counts as its 32 or 256 numbers. */
TH_API int64_t th_module_count(const th_module *m);
/* Returns the number of elements in the parameters that require a gradient. */
TH_API int64_t th_module_count_trainable(const th_module *m);
/* Returns the CRC-32C (Castagnoli) over the bytes of all parameters in the iterator's order. Equal models have equal
 * checksums. 0 in a shapes-only context. */
TH_API uint32_t th_module_crc32c(const th_module *m);

/* Gradients of parameters that are adjacent in memory. */
typedef struct th_gradient_range {
    void *data;    /* [count]; NULL in a shapes-only context. Between two parameters there may be some zeros */
    int64_t count; /* of elements */
    th_dtype dtype;
} th_gradient_range;
/* Lists the gradients of a tree, those of tied parameters once: ranges [capacity]. Parameters without a gradient are not
 * listed. The order is the order of memory, the same in each process that made the same model. Returns the number of
 * ranges, which may be more than capacity: usually 1 to 4. The program may change the numbers before the optimizer's
 * step, for example to average them with its own MPI call:
 *
 *     th_gradient_range range[16];
 *     const int64_t n = th_module_gradients(model, range, 16);
 *     for (int64_t i = 0; i < n; i++)
 *         MPI_Allreduce(MPI_IN_PLACE, range[i].data, (int)range[i].count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); */
TH_API int64_t th_module_gradients(th_module *m, th_gradient_range *ranges, int64_t capacity);

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
#define th_module_store(...) TH_AT_STATUS(th_module_store(__VA_ARGS__))
#endif

TH_END_DECLS

#endif

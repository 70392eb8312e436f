/* Internal functions of the module tree, and the type descriptors of the library's own modules. */
#ifndef TH_NN_MODULE_H
#define TH_NN_MODULE_H

#include "private_api.h"
#include "tapehead/module.h"
#include "tensor/tensor.h"

/* An option of a library module that changes its results, but no shape of a parameter. */
typedef struct th_module_option {
    const char *name; /* NULL ends a list */
    enum {
        TH_OPTION_REAL,
        TH_OPTION_INTEGER,
        TH_OPTION_FLAG,
        TH_OPTION_CHOICE
    } kind;        /* double, int64_t, bool, an enum */
    size_t offset; /* in the module's struct */
} th_module_option;
#define TH_MODULE_REAL(type, member)                                                                                   \
    {                                                                                                                  \
#member, TH_OPTION_REAL, offsetof(type, member)                                                                \
    }
#define TH_MODULE_INTEGER(type, member)                                                                                \
    {                                                                                                                  \
#member, TH_OPTION_INTEGER, offsetof(type, member)                                                             \
    }
#define TH_MODULE_FLAG(type, member)                                                                                   \
    {                                                                                                                  \
#member, TH_OPTION_FLAG, offsetof(type, member)                                                                \
    }
#define TH_MODULE_CHOICE(type, member)                                                                                 \
    {                                                                                                                  \
#member, TH_OPTION_CHOICE, offsetof(type, member)                                                              \
    }

/* Describes one type of library module. The address of the descriptor identifies the type. */
typedef struct th_module_type {
    const char *name;                /* "dense": for error messages */
    size_t bytes;                    /* of the struct, which begins with a th_module */
    th_forward_function *forward;    /* NULL: the module runs through functions of its type, such as th_attend */
    const char *no_forward;          /* without a forward: the error message of th_module_forward */
    bool attends, transforms;        /* whether th_attend or th_transform runs it */
    const th_module_option *options; /* or NULL. Processes that train one model compare them */
} th_module_type;

/* Internal state, stored behind the module's struct in the same allocation. */
struct th_module_state {
    size_t bytes;                     /* of the struct and this state */
    const th_module_type *type;       /* NULL for a module of the user's own */
    th_forward_function *own_forward; /* the forward that the module was made with */
    int running_forwards;             /* number of forwards of this module that are running */
    bool training_outside;            /* the context's training mode before the first of these forwards */
    bool finished;                    /* a complete library module: its forward uses only the members it has now */
    bool hidden; /* functions that visit parameters or find members by name skip the module and all modules below it */
    bool cached; /* a cache keeps something of each token for the module: keys and values, or the tokens */
    bool freed;  /* by th_module_free; the memory remains for error messages */
};

/* One parameter in a module's list. The tensor uses the label if no module owned it before. */
typedef struct th_module_member {
    th_parameter parameter;
    th_label label;
} th_module_member;

/* Creates a library module: th_module_new with a type descriptor. */
void *th_module_new_of_type(th_context *ctx, const th_module_type *type);

/* As th_module_new_of_type, with `more` bytes after the struct, for copies of arrays among the options. */
void *th_module_new_longer(th_context *ctx, const th_module_type *type, size_t more);

/* Ends a constructor. If an error is pending, frees m and returns NULL. (Constructors do not check each result, because
 * functions do nothing after the first error.) Otherwise marks the members of m as parts, which only m frees, and
 * returns m. */
th_module *th_module_finish(th_module *m);

/* Adds a part, such as an adapter, to a library module that is complete already. Errors: those of th_module_add. */
th_module *th_module_add_part(th_module *m, const char *name, th_module *child);

/* As th_module_add_parameter, with this type. The parameter is in a block of memory with other parameters of
 * adapters. */
th_tensor *th_module_add_adapter_parameter(th_module *m, const char *name, th_shape shape, th_dtype dtype);

/* Checks that the first two sizes (width and heads) are positive, the others (0 is a default) are not negative, and
 * none exceeds INT64_MAX / 4. Errors: TH_ERROR_ARGUMENT. */
th_status th_check_widths(th_context *ctx, const char *layer, int count, const int64_t *sizes);

/* Returns whether m has this type. The user may have replaced its forward. */
static inline bool th_module_is(const th_module *m, const th_module_type *type)
{
    return m->state->type == type;
}

/* Returns whether the user set `attend` or `transform` although m never runs it: beginning m's forward is an error. */
static inline bool th_module_has_unused_function(const th_module *m)
{
    const th_module_type *type = m->state->type;
    return type && ((m->attend && !type->attends) || (m->transform && !type->transforms));
}

/* Returns whether the user replaced m's forward, so that the replacement must run, or give its error. False while a
 * forward of m runs, because the replacement may call library functions on m itself. */
static inline bool th_module_is_replaced(const th_module *m)
{
    return (m->forward != m->state->own_forward || th_module_has_unused_function(m)) && m->state->running_forwards == 0;
}

/* Returns whether the user set m's `attend` or `transform`, so that it must run. False while a function of m runs. */
static inline bool th_module_runs_user_attend(const th_module *m)
{
    return m->attend && m->state->running_forwards == 0;
}
static inline bool th_module_runs_user_transform(const th_module *m)
{
    return m->transform && m->state->running_forwards == 0;
}
/* As th_module_runs_user_transform, in the forward of m: false in a call from the user's function. */
static inline bool th_module_forward_runs_transform(const th_module *m)
{
    return m->transform && m->state->running_forwards == 1;
}

/* Returns false, with the error pending, if m's forward was replaced but cannot run here. why: the end of the
 * message. */
bool th_module_check_not_replaced(const th_module *m, const char *operation, const char *why);

/* As th_module_begin, for a function of one type of module, such as th_attend. Also returns false, with no scope open,
 * if m has another type. kind: the expected kind of module, for the message. */
bool th_module_begin_as(th_module *m, const th_module_type *type, const char *operation, const char *kind);

/* Returns true if m is not NULL, was not freed, and no error is pending. Otherwise returns false with an error
 * pending. */
TH_PRIVATE_API bool th_module_usable(const th_module *m, const char *operation);

/* Frees m and its members without checks. The caller has already detached m from its parent or context. */
void th_module_destroy(th_module *m);

/* Writes the dotted name of m, relative to its ancestor `above` (NULL: the root), into name (TH_FULL_NAME_SIZE bytes).
 * Returns name. */
const char *th_module_name_below(const th_module *m, const th_module *above, char *name);

/* Returns the module after m in the tree below root, parents before children, without hidden ones; NULL at the end. */
const th_module *th_module_next(const th_module *m, const th_module *root);

/* Returns whether th_module_store can store the iterator's parameter: only th_dense and th_embedding read it. */
TH_PRIVATE_API bool th_module_can_store(const th_parameter_iterator *p);

/* Returns true if the name ends with `end`: th_name_ends_with("layers.0.norm1.bias", "bias"). */
TH_PRIVATE_API bool th_name_ends_with(const char *name, const char *end);

#endif

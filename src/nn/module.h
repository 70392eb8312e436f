/* What the files of the tree of modules share, and what the library's own modules tell it. */
#ifndef TH_NN_MODULE_H
#define TH_NN_MODULE_H

#include "private_api.h"
#include "tapehead/module.h"

/* Lies behind the module's own struct. */
struct th_module_state {
    size_t bytes;                   /* of the struct and of this */
    int entered;                    /* forwards of this module that run now */
    bool training_outside;          /* the context's mode while the first of them runs */
    th_forward_function *made_with; /* the forward passed to th_module_new, which identifies the library's modules */
    bool finished;                  /* a library module, whose forward runs only the members that it has now */
    bool freed;                     /* by th_module_free: the rest is for error messages */
};

/* The end of a constructor. With an error pending every call of one does nothing, so it looks at its own memory only;
 * this throws a half-made module away and returns NULL. Otherwise m, whose members are parts of it from now on: its
 * forward needs them. */
th_module *th_module_finish(th_module *m);
/* TH_ERROR_ARGUMENT unless the first two sizes (width and heads) are positive and the others, where 0 is a default, not
 * negative; and so small that four times each is a size too. */
th_status th_check_widths(th_context *ctx, const char *layer, int count, const int64_t *sizes);
/* Whether m was made with this forward; the user may have replaced it since. */
static inline bool th_module_is(const th_module *m, th_forward_function *forward)
{
    return m->state->made_with == forward;
}
/* Whether the user has replaced m's forward, so that it must run instead of the library's. False while it runs:
 * functions that it calls on m itself are then the library's. */
static inline bool th_module_replaced(const th_module *m)
{
    return m->forward != m->state->made_with && m->state->entered == 0;
}
/* Returns false, with the error stored, if m's forward was replaced but cannot run here. why: the end of the
 * message. */
bool th_module_not_replaced(const th_module *m, const char *operation, const char *why);
/* th_module_begin for a typed function. Returns false, and opens no scope, also if m was not made with this forward.
 * kind: the expected kind of module, for the message. */
bool th_module_begin_as(th_module *m, th_forward_function *forward, const char *operation, const char *kind);
/* False with an error pending, or when m is NULL or has been freed (then that is the error). */
TH_PRIVATE_API bool th_module_usable(const th_module *m, const char *operation);
/* The dotted name of m from below `above` (NULL: from the root) on, into name (of TH_FULL_NAME_SIZE bytes). */
const char *th_module_name_below(const th_module *m, const th_module *above, char *name);
/* Of the dotted names of parameters: th_name_ends_with("layers.0.norm1.bias", "bias"). */
TH_PRIVATE_API bool th_name_ends_with(const char *name, const char *end);

#endif

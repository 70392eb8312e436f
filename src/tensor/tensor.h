/* Tensors from inside: a handle, the body that it stands for (geometry), its storage (memory), and for differentiable
 * ones the place of their gradient, or the root of whose gradient theirs is a part.
 *
 * th_tensor is the handle, what users and modules hold. It is never defined and never followed: a handle is a number
 * that no other tensor has, so that one kept for too long is recognized however much later (handle.c). Whatever is
 * given a th_tensor turns it into a th_tensor_impl once, where it enters, and works on that. (In a debugger:
 * print *th_tensor_impl_of(t).) */
#ifndef TH_TENSOR_TENSOR_H
#define TH_TENSOR_TENSOR_H

#include "private_api.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"

/* One memory, shared by a tensor and its views.
 *
 * holds counts who needs the bytes: living handles, nodes that saved them. At 0 the bytes go back. A storage whose
 * producer is to be recomputed is not held by the nodes that save it; its bytes come back when backward recomputes
 * it. */
typedef struct th_storage {
    void *data;
    th_block *block; /* where data lies; NULL for parameters (their block outlives them) and when dropped */
    size_t bytes;
    int32_t holds;
    uint32_t version;         /* counts changes in place */
    const char *changed_file; /* who changed it last */
    int changed_line;
    bool owned;                           /* in the owned memory (or a parameter block), not the step's */
    bool dropped;                         /* the bytes were given back */
    bool recomputed;                      /* and came back: its producer holds them until its own backward */
    bool kept;                            /* nodes that save it hold it although it has a producer */
    int64_t producer;                     /* node that can recompute it, or -1 */
    struct th_parameter_entry *parameter; /* where it lies, of a parameter */
} th_storage;

/* Where a root's gradient lies, and what is in it (tensor/gradient_buffer.h). */
typedef struct th_gradient_buffer th_gradient_buffer;

/* What a handle on this body is good for. */
typedef enum th_life {
    TH_LIFE_UNUSED, /* never handed out, or an owned one that was freed */
    TH_LIFE_LIVE,
    TH_LIFE_FREED,    /* th_tensor_free was called; what uses it still, the tape or a check, ends it */
    TH_LIFE_RELEASED, /* its scope ended; the engine may still use it, the user may not */
    TH_LIFE_CLEARED   /* its step is over */
} th_life;

/* A tensor's gradient as a part of a root's: the same view of it as the tensor is of the root, except below an expand.
 * A root's own part is all of it. */
typedef struct th_part {
    struct th_tensor_impl *root;         /* NULL: the tensor has no gradient */
    int64_t stride[TH_MAX_DIMS], offset; /* elements */
} th_part;

/* The name of a parameter in its first module, which lives as long as the label. */
typedef struct th_label {
    const char *name; /* "weight" */
    const struct th_module *module;
} th_label;

typedef struct th_tensor_impl {
    th_context *ctx;
    th_tensor *handle; /* that stands for it now */
    th_storage *storage;
    th_storage own_storage; /* used by tensors that are not views */
    const th_label *label;  /* of a parameter, until its first module is freed; else NULL */
    th_dtype dtype;
    int ndim;
    int64_t size[TH_MAX_DIMS];
    int64_t stride[TH_MAX_DIMS]; /* elements */
    int64_t offset;              /* elements from storage->data */
    char axes[TH_MAX_DIMS + 1];
    bool owned; /* from the owned pool */
    bool parameter;
    bool requires_gradient; /* a leaf that asks for one, or a result that depends on such a leaf */
    th_life life;
    th_gradient_buffer *gradient; /* of a root: the place of its gradient; else NULL */
    th_part part;                 /* that its gradient is, of whose */
    int32_t tape_uses;            /* nodes of the current tape that name this owned tensor */
    int32_t checking; /* of an owned one, while the gradient checker runs a function: what it is to it (checker.h) */
    struct th_tensor_impl *next_free; /* links of the owned pool's free list, oldest first */
} th_tensor_impl;

/* -- handles and storage (tensor/handle.c) -- */
/* The body that a handle stands for; NULL for NULL and for a handle whose tensor is gone. One that its scope has given
 * up is still there. */
TH_PRIVATE_API th_tensor_impl *th_tensor_impl_of(const th_tensor *t);
static inline th_tensor *th_handle_of(const th_tensor_impl *impl) /* NULL for NULL */
{
    return impl ? impl->handle : NULL;
}
/* The context that a handle was made in; NULL when that has been freed, and for what is no handle. */
th_context *th_handle_context(const th_tensor *t);
/* A new handle and its body, without storage: of the owned pool when `owned`, else of the step. NULL with
 * TH_ERROR_MEMORY. */
th_tensor_impl *th_handle_new(th_context *ctx, bool owned, const char *operation);
/* Whether the user will own a tensor created now: true outside every scope and every step of th_step_begin. */
TH_PRIVATE_API bool th_creates_owned(const th_context *ctx);
/* Gives t a storage of its own of `bytes` from the step's or the owned memory. */
th_status th_storage_new(th_tensor_impl *t, size_t bytes, const char *operation);
void th_storage_hold(th_storage *storage);
void th_storage_drop(th_context *ctx, th_storage *storage);  /* one hold less; at 0 the bytes go back */
TH_PRIVATE_API void th_storage_changed(th_storage *storage); /* bumps the version, notes the caller's line */
/* The handle's own claim ends (scope end, clear, free). */
void th_handle_give_up(th_tensor_impl *t, th_life life);
void th_handle_free_owned(th_tensor_impl *t);
/* The tape, or another tensor, needs the memory of an owned tensor or of its gradient. */
bool th_tensor_in_use(const th_tensor_impl *t);
void th_free_waiting(th_context *ctx); /* at a clear: the owned tensors whose freeing waited for it */
/* Memory for a tensor of this shape, contiguous: the usual way to create one. */
TH_PRIVATE_API th_tensor_impl *th_tensor_new(th_context *ctx, th_dtype dtype, int ndim, const int64_t *size, bool owned,
                                             const char *operation);
/* Checks a required tensor operand of a function called `operation`: not NULL, not stale or given up, of ctx (any when
 * NULL), no error pending. Returns its body; NULL after storing the error (if none is pending). position: "a",
 * "weight", ... */
TH_PRIVATE_API th_tensor_impl *th_usable(const th_tensor *t, th_context *ctx, const char *operation,
                                         const char *position);
/* What a function returns after th_usable has refused t: the code of the pending error. */
TH_PRIVATE_API th_status th_refused(const th_tensor *t);
/* The body of a tensor that is only looked at: NULL is legal and gives NULL, a pending error is no obstacle. */
th_tensor_impl *th_looked_at(const th_tensor *t, const char *operation);

static inline void *th_tensor_data(const th_tensor_impl *t)
{
    return t->storage->data ? (char *)t->storage->data + (size_t)t->offset * th_dtype_size(t->dtype) : NULL;
}
TH_PRIVATE_API int64_t th_tensor_numel(const th_tensor_impl *t);
TH_PRIVATE_API bool th_strides_contiguous(int ndim, const int64_t *size, const int64_t *stride);
/* No two elements lie on one another. (Of some layouts that nobody makes, interleaved ones, false is said as well.) */
bool th_strides_distinct(int ndim, const int64_t *size, const int64_t *stride);
/* Checks that the elements of t can be written: in an expanded view, say, many are one. operation: for the error. */
TH_PRIVATE_API th_status th_check_writable(const th_tensor_impl *t, const char *operation);
void th_contiguous_strides(int ndim, const int64_t *size, int64_t *stride);
bool th_same_sizes(const th_array *a, const th_array *b);
/* The tensor as an operation sees it. */
TH_PRIVATE_API th_array th_tensor_array(const th_tensor_impl *t);
TH_PRIVATE_API bool th_is_floating(th_dtype dtype);
TH_PRIVATE_API bool th_is_index(th_dtype dtype);

#endif

/* Tensors inside the library.
 *
 *   th_tensor        the handle, which users and modules hold
 *   th_tensor_impl   the implementation: type, shape, strides
 *   th_storage       the memory, shared by a tensor and its views
 *   th_gradient_view the view of a root's gradient that is the tensor's gradient
 *
 * A handle is a number in the form of a pointer. No other tensor gets the same number, so the library recognizes the
 * handle of a tensor that ended long ago. Nothing dereferences a handle. Every function converts a th_tensor to its
 * th_tensor_impl once, at its beginning, and works on the th_tensor_impl. In a debugger, print
 * *th_tensor_impl_of(t). */
#ifndef TH_TENSOR_TENSOR_H
#define TH_TENSOR_TENSOR_H

#include "kernels/dtype.h"
#include "private_api.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/shape.h"

/* The memory of a tensor and its views.
 *
 * holds counts the users of the bytes: live handles, and nodes that saved them for backward. At 0 the bytes are
 * released. If backward can recompute a storage, the nodes that save it do not hold it: its bytes are released, and
 * backward runs the producer again, which restores them. */
typedef struct th_storage {
    void *data;
    th_block *block; /* contains data; NULL for a parameter, and after the bytes were released */
    size_t bytes;
    int32_t holds;
    uint32_t version;         /* counts changes in place */
    const char *changed_file; /* the caller's line of the last change */
    int changed_line;
    bool owned;       /* in owned_memory or a parameter block, not in step_memory */
    bool dropped;     /* the bytes were released */
    bool recomputed;  /* the released bytes were recomputed: the producer holds them until its own backward */
    bool always_held; /* nodes that save it hold it although it has a producer */
    int64_t producer; /* the node that can recompute it, or -1 */
    struct th_parameter_entry *parameter; /* of a parameter: its entry in a block; else NULL */
} th_storage;

typedef struct th_gradient_buffer th_gradient_buffer; /* tensor/gradient_buffer.h */

/* The life of the tensor of an implementation. */
typedef enum th_life {
    TH_LIFE_UNUSED,   /* no tensor yet, or an owned one that was freed */
    TH_LIFE_LIVE,     /* the only state in which the user may use it */
    TH_LIFE_FREED,    /* th_tensor_free was called; the tape or a gradient check still uses it, and ends it */
    TH_LIFE_RELEASED, /* its scope ended; the tape may still use it */
    TH_LIFE_CLEARED   /* its step ended */
} th_life;

/* The view of a root's gradient that is the gradient of a tensor. A view's gradient is the same view of its root's
 * gradient, unless it is a view of an expanded tensor. For a root, it is the whole gradient. */
typedef struct th_gradient_view {
    struct th_tensor_impl *root;         /* NULL: the tensor has no gradient */
    int64_t stride[TH_MAX_DIMS], offset; /* elements */
} th_gradient_view;

/* A name. For a parameter: its name in the first module that contains it, as long as that module lives. Otherwise: the
 * name that th_set_name gave the tensor. */
typedef struct th_label {
    const char *name;               /* "weight" */
    const struct th_module *module; /* NULL: a name of th_set_name */
} th_label;

typedef struct th_tensor_impl {
    th_context *ctx;
    th_tensor *handle; /* the current one */
    th_storage *storage;
    th_storage own_storage; /* *storage, unless the tensor is a view */
    const th_label *label;  /* the tensor's name; NULL: none */
    th_dtype dtype;
    int ndim;
    int64_t size[TH_MAX_DIMS];
    int64_t stride[TH_MAX_DIMS]; /* elements */
    int64_t offset;              /* elements from storage->data */
    char axes[TH_MAX_DIMS + 1];
    bool owned; /* the user owns the tensor, not the tape */
    bool parameter;
    bool requires_gradient; /* a leaf that requires a gradient, or a result that depends on such a leaf */
    th_life life;
    th_gradient_buffer *gradient;     /* of a root; else NULL */
    th_gradient_view gradient_view;   /* its gradient as a view of a root's gradient */
    int32_t tape_uses;                /* of an owned tensor: nodes of the current tape that use it */
    int32_t check_role;               /* its role in a gradient check (checker/checker.h); 0: no check, or made in it */
    struct th_tensor_impl *next_free; /* in ctx->owned_free_first or ctx->free_at_clear */
} th_tensor_impl;

/* -- handles (tensor/handle.c) -- */

/* Returns the implementation of a handle. Returns NULL for NULL and for a handle whose tensor has ended. A tensor
 * that its scope released is still returned. */
TH_PRIVATE_API th_tensor_impl *th_tensor_impl_of(const th_tensor *t);
/* Returns the handle of an implementation; NULL for NULL. */
static inline th_tensor *th_handle_of(const th_tensor_impl *impl)
{
    return impl ? impl->handle : NULL;
}
/* Returns the context of a handle. Returns NULL if the context was freed, or if t is not a handle. */
th_context *th_handle_context(const th_tensor *t);

/* Returns the implementation of a tensor that a function called `operation` needs. Checks that t is a live tensor,
 * that it belongs to ctx (to any context if ctx is NULL), and that no error is pending. Otherwise sets an error, if
 * none is pending, and returns NULL. operand names the tensor in the error: "a", "weight". */
TH_PRIVATE_API th_tensor_impl *th_usable_tensor(const th_tensor *t, th_context *ctx, const char *operation,
                                                const char *operand);
/* Returns the code of the pending error, after th_usable_tensor returned NULL. */
TH_PRIVATE_API th_status th_pending_status(const th_tensor *t);
/* As th_usable_tensor, for a function that only reads properties of t: a pending error does not matter, and NULL gives
 * NULL without an error. */
th_tensor_impl *th_inspect(const th_tensor *t, const char *operation);

/* Returns a new implementation and handle without storage. The user owns the tensor if `owned`, else the tape.
 * Returns NULL with TH_ERROR_MEMORY pending if memory runs out. */
th_tensor_impl *th_handle_new(th_context *ctx, bool owned, const char *operation);
/* Returns true if the user will own a tensor created now: outside every scope and every step of th_step_begin. */
TH_PRIVATE_API bool th_creates_owned(const th_context *ctx);
/* Ends the handle's hold on the storage. `life` says why: the scope ended, the step ended, or the tensor was freed. */
void th_handle_release(th_tensor_impl *t, th_life life);
/* Makes the implementation of an owned tensor available for a new tensor. Its storage must have been released. */
void th_handle_free_owned(th_tensor_impl *t);

/* -- tensors and their memory (tensor/handle.c) -- */

/* Sets an error and returns true for a type that a macro of the two files (docs/two-files.md) left out. */
static inline bool th_dtype_is_missing(th_context *ctx, const char *operation, th_dtype dtype)
{
    const char *left_out = NULL;
#ifdef TAPEHEAD_NO_FLOAT64
    left_out = dtype == TH_FLOAT64 ? "TAPEHEAD_NO_FLOAT64" : left_out;
#endif
#ifdef TAPEHEAD_NO_STORAGE_TYPES
    left_out = th_is_storage_type(dtype) ? "TAPEHEAD_NO_STORAGE_TYPES" : left_out;
#endif
    if (left_out)
        th_fail(ctx, TH_ERROR_TYPE, operation, "this library was compiled without %s (%s)", th_dtype_name(dtype),
                left_out);
    (void)dtype;
    return left_out != NULL;
}

/* Creates a contiguous tensor with memory. Returns NULL with an error pending: TH_ERROR_SHAPE, TH_ERROR_MEMORY. */
TH_PRIVATE_API th_tensor_impl *th_tensor_new(th_context *ctx, th_dtype dtype, int ndim, const int64_t *size, bool owned,
                                             const char *operation);
/* Allocates t's own storage from step_memory or owned_memory. Errors: TH_ERROR_MEMORY. */
th_status th_storage_new(th_tensor_impl *t, size_t bytes, const char *operation);
/* Increments the holds of a storage. */
void th_storage_hold(th_storage *storage);
/* Decrements the holds of a storage; at 0 releases its bytes. */
void th_storage_drop(th_context *ctx, th_storage *storage);
/* Records a change in place: increments the version and stores the caller's line. */
TH_PRIVATE_API void th_storage_mark_changed(th_storage *storage);
/* Returns true if the tape or another tensor needs the memory of an owned tensor or of its gradient. */
bool th_tensor_in_use(const th_tensor_impl *t);
/* Frees the owned tensors that th_tensor_free could not free because the tape used them. th_tape_clear calls it. */
void th_free_deferred(th_context *ctx);

/* Returns true if the elements are numbers. For a storage type, whose elements are not accessed one by one, stores an
 * error. */
bool th_check_elements(th_context *ctx, const char *operation, th_dtype dtype);

/* -- elements -- */

/* Returns the first element; NULL in a shapes-only context. */
static inline void *th_tensor_data(const th_tensor_impl *t)
{
    return t->storage->data ? (char *)t->storage->data + (size_t)t->offset * th_dtype_size(t->dtype) : NULL;
}
/* Returns the number of elements. */
TH_PRIVATE_API int64_t th_tensor_numel(const th_tensor_impl *t);
/* Returns the tensor as an operation sees it. */
TH_PRIVATE_API th_array th_tensor_array(const th_tensor_impl *t);
/* Sets `resolved` to the index of an element along each axis, given a caller's index. A negative index counts from the
 * end of its axis. Errors: TH_ERROR_INDEX if it is outside t. */
th_status th_element_index(const th_tensor_impl *t, const char *operation, const th_shape *index,
                           int64_t resolved[TH_MAX_DIMS]);
/* Checks that no two elements of t share memory, as they do in an expanded view. Errors: TH_ERROR_STATE. */
TH_PRIVATE_API th_status th_check_writable(const th_tensor_impl *t, const char *operation);

#endif

/* The first error of a context, and which context a thread used last. */
#ifndef TH_TENSOR_ERROR_H
#define TH_TENSOR_ERROR_H

#include <stdarg.h>

#include "private_api.h"
#include "tensor/context_struct.h"

/* Sets an error if none is pending: "<operation>: <sentence>; at file:line". operation may be NULL. Returns code. */
TH_PRIVATE_API th_status th_fail(th_context *ctx, th_status code, const char *operation, const char *format, ...)
    TH_FORMAT(4, 5);
/* As th_fail, with a va_list. ctx may be NULL: then nothing is stored. */
th_status th_fail_arguments(th_context *ctx, th_status code, const char *operation, const char *format,
                            va_list arguments);
/* Sets an error in the context that this thread used last, if there is one. Another thread may free that context at
 * the same time. Returns the code of the pending error, or code without a context. */
TH_PRIVATE_API th_status th_fail_last(th_status code, const char *operation, const char *format, ...) TH_FORMAT(3, 4);

/* Replaces the pending error, if there is one. location may be "". */
void th_error_set(th_context *ctx, th_status code, const char *text, const char *location);

/* Returns true if an error is pending. */
static inline bool th_failed(const th_context *ctx)
{
    return ctx->error != TH_OK;
}

/* Returns true if a public function may use ctx: it is not NULL and no error is pending. For NULL, sets an error in
 * the context that this thread used last. */
TH_PRIVATE_API bool th_usable_context(th_context *ctx, const char *operation);
/* Returns TH_OK, or sets TH_ERROR_STATE while a gradient check runs. For operations that would disturb the check,
 * which has changed the parameters of the checked function. */
static inline th_status th_refuse_in_check(th_context *ctx, const char *operation)
{
    return ctx->watch == NULL ? TH_OK
                              : th_fail(ctx, TH_ERROR_STATE, operation,
                                        "must not be called while the gradient of its caller is being checked");
}

/* Records that this thread uses ctx. */
TH_PRIVATE_API void th_use_context(th_context *ctx);
/* Returns the context that this thread used last. Returns NULL if it was freed, if another thread has used it since,
 * or if this thread has not used any. The caller must hold TH_LOCK_CONTEXTS, because another thread may free the
 * context. */
th_context *th_last_context(void);
/* Returns the code of the error pending in that context; TH_OK without a context. */
th_status th_last_error(void);

/* Returns the caller's source line, the innermost one that TH_AT pushed. *file is NULL outside TH_AT. */
void th_caller_location(const char **file, int *line);

#endif

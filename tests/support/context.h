/* The context of the current test, and checks of its error. A suite's setup creates it, and close_context is the
 * teardown. Include this header last: parameters in other headers are named ctx too. */
#ifndef TESTS_CONTEXT_H
#define TESTS_CONTEXT_H

#include <string.h>

#include "suite.h"
#include "tapehead/context.h"
#include "tapehead/tensor.h"

static th_context *ctx;

/* Checks that no error is pending. */
static inline void no_error(void)
{
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
}

/* Frees the context. A pending error fails the test. */
static inline void close_context(void)
{
    no_error();
    th_context_free(ctx);
}

/* Checks the code of the pending error and some words of its message. Clears it. */
static inline void expect_error(th_status code, const char *words)
{
    ck_assert_msg(th_error_code(ctx) == code && strstr(th_error_message(ctx), words), "code %d \"%s\", not %d \"%s\"",
                  (int)th_error_code(ctx), th_error_message(ctx), (int)code, words);
    th_error_clear(ctx);
}

/* As expect_error, and the call returned the same code. */
static inline void expect_status(th_status status, th_status code, const char *words)
{
    ck_assert_int_eq(status, code);
    expect_error(code, words);
}

/* As expect_error, for a call that must have failed. */
static inline void expect_failure(bool failed, th_status code, const char *words)
{
    ck_assert_msg(failed, "no error, instead of \"%s\"", words);
    expect_error(code, words);
}

/* Checks that a result is NULL, and that the error names a line of the test. */
static inline void assert_error(const void *result, th_status code, const char *words)
{
    ck_assert_msg(strstr(th_error_message(ctx), "; at test_") != NULL, "no line in \"%s\"", th_error_message(ctx));
    expect_failure(result == NULL, code, words);
}

/* Checks the shape of t. */
static inline void assert_shape(const th_tensor *t, th_shape shape)
{
    no_error();
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(th_ndim(t), shape.ndim);
    for (int i = 0; i < shape.ndim; i++)
        ck_assert_int_eq(th_size(t, i), shape.size[i]);
}

/* Returns how often text contains part. */
static inline int count(const char *text, const char *part)
{
    int found = 0;
    for (const char *c = text; (c = strstr(c, part)) != NULL; c++)
        found++;
    return found;
}

#endif

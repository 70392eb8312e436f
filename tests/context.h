/* The context of the test that runs, and what tests ask of it. A suite's setup opens it, close_context is its teardown.
 * Included last, since parameters in other headers have the name that ctx has here. */
#ifndef TESTS_CONTEXT_H
#define TESTS_CONTEXT_H

#include <string.h>

#include "suite.h"
#include "tapehead/context.h"
#include "tapehead/tensor.h"

static th_context *ctx;

static inline void no_error(void)
{
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
}

/* A test leaves no error behind that it has not looked at. */
static inline void close_context(void)
{
    no_error();
    th_context_free(ctx);
}

/* The pending error has this code, and these words in its message; it is cleared. */
static inline void expect_error(th_status code, const char *words)
{
    ck_assert_msg(th_error_code(ctx) == code && strstr(th_error_message(ctx), words), "code %d \"%s\", not %d \"%s\"",
                  (int)th_error_code(ctx), th_error_message(ctx), (int)code, words);
    th_error_clear(ctx);
}

/* The same error, as the status that a call returned too. */
static inline void expect_status(th_status status, th_status code, const char *words)
{
    ck_assert_int_eq(status, code);
    expect_error(code, words);
}

/* A call that failed, or whose result is NULL, did so with this error. */
static inline void expect_failure(bool failed, th_status code, const char *words)
{
    ck_assert_msg(failed, "no error, instead of \"%s\"", words);
    expect_error(code, words);
}

/* The same for a result of the test's own call, whose line the error gives. */
static inline void assert_error(const void *result, th_status code, const char *words)
{
    ck_assert_msg(strstr(th_error_message(ctx), "; at test_") != NULL, "no line in \"%s\"", th_error_message(ctx));
    expect_failure(result == NULL, code, words);
}

static inline void assert_shape(const th_tensor *t, th_shape shape)
{
    no_error();
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(th_ndim(t), shape.ndim);
    for (int i = 0; i < shape.ndim; i++)
        ck_assert_int_eq(th_size(t, i), shape.size[i]);
}

/* How often a part stands in a text. */
static inline int count(const char *text, const char *part)
{
    int found = 0;
    for (const char *c = text; (c = strstr(c, part)) != NULL; c++)
        found++;
    return found;
}

#endif

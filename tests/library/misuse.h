/* The context of tests of misuse, and checks of it. Include this header last. */
#ifndef TESTS_MISUSE_H
#define TESTS_MISUSE_H

#include "tapehead/tapehead.h"

#include "context.h"

static inline void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1, .threads = 1});
}

/* Checks the code and some words of the pending error, and clears it. */
static inline void assert_error_of(th_context *c, th_status code, const char *words)
{
    ck_assert_msg(th_error_code(c) == code && strstr(th_error_message(c), words), "\"%s\" (%d) instead of \"%s\" (%d)",
                  th_error_message(c), (int)th_error_code(c), words, (int)code);
    th_error_clear(c);
}

/* Checks that the user owns a tensor created now. */
static inline void assert_outside(void)
{
    th_tensor *t = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1));
    th_tape_clear(ctx);
    ck_assert_double_eq(th_item(t), 1);
    th_tensor_free(t);
    no_error();
}

#endif

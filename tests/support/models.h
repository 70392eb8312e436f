/* Functions for tests of whole models. */
#ifndef TESTS_MODELS_H
#define TESTS_MODELS_H

#include <math.h>

#include "memory.h"
#include "tapehead/tapehead.h"

#include "context.h"

/* Runs backward and an optimizer step. Returns the loss. */
static inline double step_down(th_tensor *loss, th_optimizer *optimizer)
{
    const double value = th_item(loss);
    if (th_backward(loss, NULL) || th_optimizer_step(optimizer))
        ck_abort_msg("%s", th_error_message(ctx));
    th_tape_clear(ctx);
    return value;
}

/* Fails each allocation of a constructor once: the result must be TH_ERROR_MEMORY, without a leak. */
static inline void assert_constructor_survives(th_module *(*make)(th_context *))
{
    test_memory f = {.fail_at = 1};
    for (bool reached = true; reached; f.calls = 0, f.fail_at++) {
        th_context *fresh = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&f)});
        const th_module *model = fresh ? make(fresh) : NULL;
        reached = f.calls >= f.fail_at;
        if (model == NULL && fresh && th_error_code(fresh) != TH_ERROR_MEMORY)
            ck_abort_msg("allocation %lld: %s", (long long)f.fail_at, th_error_message(fresh));
        if (!reached && model == NULL)
            ck_abort_msg("no model: %s", th_error_message(fresh));
        th_context_free(fresh);
        if (f.bytes != 0)
            ck_abort_msg("allocation %lld: %zu bytes left", (long long)f.fail_at, f.bytes);
    }
    ck_assert_int_gt(f.fail_at, 20);
}

#endif

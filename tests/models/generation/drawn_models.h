/* Models with chosen distributions of the next token, for tests of generation. */
#ifndef TESTS_DRAWN_MODELS_H
#define TESTS_DRAWN_MODELS_H

#include "tapehead/models.h"

#include "context.h"

/* Sets parameters to numbers that give a varied distribution. */
static inline th_module *randomized(th_module *m)
{
    no_error();
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        if (th_ndim(p.tensor) > 1)
            ck_assert_int_eq(th_fill_normal(p.tensor, 0, 0.4), TH_OK);
    return m;
}

/* Returns a model of these options that has these logits after any tokens. */
static inline th_module *new_with_logits(const th_language_model_options *options, const double *logits)
{
    th_module *m = th_language_model_new(ctx, options);
    th_tensor *bias = th_module_find_parameter(m, "norm.bias"), *rows = th_module_find_parameter(m, "embedding.weight");
    ck_assert_int_eq(th_fill(th_module_find_parameter(m, "norm.weight"), 0), TH_OK);
    ck_assert_int_eq(th_fill(bias, 0), TH_OK);
    ck_assert_int_eq(th_set(bias, TH_INDEX(1), 1), TH_OK);
    for (int64_t v = 0; v < options->vocabulary; v++)
        ck_assert_int_eq(th_set(rows, TH_INDEX(v, 1), logits[v]), TH_OK);
    return m;
}

#endif

/* A temporary folder for a model in transformers' format: its config.json, and numbers that are compared. */
#ifndef TESTS_HUGGING_FACE_MODELS_H
#define TESTS_HUGGING_FACE_MODELS_H

#include <math.h>

#include "hugging_face_folder.h"

static inline void write_config(const char *text)
{
    FILE *file = fopen(in_directory("config.json"), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* Returns the elements of t as float64, in memory of the context. */
static inline const double *numbers_of(th_tensor *t)
{
    no_error();
    th_tensor *wide = th_empty(ctx, TH_FLOAT64, th_shape_of(t));
    ck_assert_int_eq(th_copy_into(wide, t), TH_OK);
    return th_data_const(wide);
}

/* Checks that the largest difference, relative to the largest expected element, is at most limit. */
static inline void assert_close(th_tensor *t, th_tensor *expected, double limit, const char *name)
{
    const double *a = numbers_of(t), *b = numbers_of(expected);
    double difference = 0, largest = 0;
    ck_assert_int_eq(th_numel(t), th_numel(expected));
    for (int64_t i = 0; i < th_numel(t); i++) {
        difference = fmax(difference, fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    ck_assert_msg(difference <= limit * largest && largest > 0, "%s: %g of %g", name, difference, largest);
}

/* A model like the fixture's, whose weights can be written under any names. */
static const char small[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 5, \"n_positions\": 4, \"n_embd\": 4, \"n_head\": 2, \"n_layer\": 1}";

#endif

/* A small chat model and its tuner, for tests. */
#ifndef TESTS_TUNER_H
#define TESTS_TUNER_H

#include "tapehead/models.h"

#include "context.h"

enum { MODEL_LENGTH = 160 };

typedef struct tuned_model {
    th_module *model;
    th_tokenizer *tokenizer;
    th_chat_template *chat;
    th_tune *tune;
} tuned_model;

/* Creates the model, always with the same weights, and a tuner. */
static inline tuned_model tuner_new(const th_tune_options *options)
{
    static const th_language_model_options small = {
        .vocabulary = 259,
        .length = MODEL_LENGTH,
        .width = 32,
        .heads = 2,
        .layers = 2,
        .positions = TH_POSITIONS_NONE,
        .initialization = {.embedding_deviation = 1, .deviation = 0.25},
        .block = {
            .gated = true, .activation = TH_SILU, .no_bias = true, .norm = TH_RMS_NORM, .scores = {.rotary = true}}};
    tuned_model m = {.model = NULL};
    th_set_seed(ctx, 5);
    th_set_step(ctx, 0);
    m.model = th_language_model_new(ctx, &small);
    m.tokenizer = th_tokenizer_bytes_new(ctx);
    ck_assert_int_eq(th_tokenizer_add(m.tokenizer, "<|im_start|>"), 256);
    ck_assert_int_eq(th_tokenizer_add(m.tokenizer, "<|im_end|>"), 257);
    m.chat = th_chat_template_new(ctx, "chatml", NULL, "<|im_end|>");
    m.tune = th_tune_new(m.model, m.tokenizer, m.chat, options);
    return m;
}

static inline void tuner_free(tuned_model *m)
{
    th_tune_free(m->tune);
    th_chat_template_free(m->chat);
    th_tokenizer_free(m->tokenizer);
    th_module_free(m->model);
}

static inline void teach(const tuned_model *m, const char *question, const char *answer)
{
    const th_chat_message messages[] = {{"user", question}, {"assistant", answer}};
    ck_assert_int_eq(th_tune_add(m->tune, messages, 2), TH_OK);
}

static inline void teach_colors(const tuned_model *m)
{
    teach(m, "sky?", "blue");
    teach(m, "grass?", "green");
    teach(m, "snow?", "white as paper");
}

/* Calls th_tune_step `count` times. */
static inline void take_steps(const tuned_model *m, int count)
{
    for (int i = 0; i < count; i++)
        if (th_tune_step(m->tune) != TH_OK)
            no_error();
}

#endif

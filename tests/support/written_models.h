/* Small language models for tests that write them to files: every layout of the tensors in a file. A temporary folder
 * for the files, and a context that counts its memory. */
#ifndef TESTS_WRITTEN_MODELS_H
#define TESTS_WRITTEN_MODELS_H

#include <string.h>

#include "tapehead/models.h"

#include "folder.h"
#include "memory.h"

#include "context.h"

enum { V = 41, E = 64, H = 4, MLP = 96, T = 7, LENGTH = 16 };

static test_memory memory;

static inline void setup(void)
{
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2, .allocator = allocator_of(&memory)});
    ck_assert_ptr_nonnull(ctx);
    make_folder();
}

static inline void teardown(void)
{
    remove_folder();
    close_context();
    ck_assert_uint_eq(memory.bytes, 0);
}

#define SIZES .vocabulary = V, .length = LENGTH, .width = E, .heads = H
#define BLOCK .norm = TH_RMS_NORM, .gated = true, .activation = TH_SILU, .mlp_width = MLP
#define HALVES .rotary = true, .rotary_pairing = TH_ROTARY_HALVES

/* Whole matrices; query, key and value below each other; transposed; by head; several parameters in one tensor. */
static const struct written {
    const char *family, *architecture; /* of a folder and of a GGUF file */
    th_language_model_options options;
} models[] = {
    {"llama",
     "llama",
     {SIZES, .layers = 2, .positions = TH_POSITIONS_NONE,
      .block = {BLOCK, .no_bias = true, .kv_heads = 2, .scores = {HALVES}}}},
    {"llama",
     "llama",
     {SIZES, .layers = 2, .positions = TH_POSITIONS_NONE, .untied = true,
      .block = {BLOCK, .no_bias = true, .scores = {HALVES}}}},
    {"gpt2", "gpt2", {SIZES, .layers = 2, .block = {.activation = TH_GELU_TANH}}},
    {"gpt_neox",
     "gptneox",
     {SIZES, .layers = 2, .positions = TH_POSITIONS_NONE, .untied = true,
      .block = {.activation = TH_GELU, .parallel = true, .scores = {HALVES}}}},
    {"phi3",
     "phi3",
     {SIZES, .layers = 2, .positions = TH_POSITIONS_NONE, .untied = true,
      .block = {BLOCK, .no_bias = true, .kv_heads = 2, .scores = {HALVES}}}},
};
enum { MODELS = sizeof models / sizeof *models, WHOLE = 0 };

/* Returns a model with random weights, also of its norms and biases. */
static inline th_module *model_of(th_context *c, const th_language_model_options *options)
{
    th_module *model = th_language_model_new(c, options);
    ck_assert_msg(model != NULL, "%s", th_error_message(c));
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        ck_assert_int_eq(th_fill_normal(p.tensor, strstr(p.name, "norm") ? 0.9 : 0, 0.2), TH_OK);
    return model;
}

static inline th_tensor *tokens_of(th_context *c)
{
    int32_t token[2 * T];
    for (int i = 0; i < 2 * T; i++)
        token[i] = (i * 7 + i / 3) % V;
    return th_from_data(c, TH_INT32, TH_SHAPE(2, T), token);
}

/* Returns the logits of those tokens, without recording. */
static inline th_tensor *logits_of(th_module *model)
{
    th_no_grad_begin(ctx);
    th_tensor *logits = th_module_forward(model, tokens_of(ctx));
    th_no_grad_end(ctx);
    no_error();
    return logits;
}

/* Checks that two models have the same logits, bit for bit. */
static inline void expect_same_logits(th_module *a, th_module *b, const char *what)
{
    th_tensor *x = logits_of(a), *y = logits_of(b);
    ck_assert_int_eq(th_numel(x), th_numel(y));
    ck_assert_msg(memcmp(th_data_const(x), th_data_const(y), (size_t)th_numel(x) * sizeof(float)) == 0, "%s: logits",
                  what);
}

#endif

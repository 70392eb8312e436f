/* A small language model for tests of adapters, and its loss. */
#ifndef TESTS_ADAPTER_MODEL_H
#define TESTS_ADAPTER_MODEL_H

#include "tapehead/tapehead.h"

#include "context.h"

enum { V = 11, LENGTH = 8 };
static const th_language_model_options small = {
    .vocabulary = V, .length = LENGTH, .width = 16, .heads = 2, .layers = 2, .block = {.gated = true}};

static inline th_tensor *tokens_new(void)
{
    int32_t token[2 * LENGTH];
    for (int i = 0; i < 2 * LENGTH; i++)
        token[i] = i * 5 % V;
    return th_from_data(ctx, TH_INT32, TH_SHAPE(2, LENGTH), token);
}

static inline th_tensor *loss_of(th_module *model)
{
    return th_language_model_loss(model, tokens_new(), tokens_new(), NULL);
}

#endif

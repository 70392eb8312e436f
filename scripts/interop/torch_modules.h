/* Builds Tapehead's versions of PyTorch's attention and Transformer modules from a string of settings
 * ("heads=2 norm_first=1"). Shared by the comparison and the test of its fixtures. */
#ifndef INTEROP_TORCH_MODULES_H
#define INTEROP_TORCH_MODULES_H

#include <stdlib.h>
#include <string.h>
#include <tapehead/tapehead.h>

/* Possible operands of a module. Those before LEAVES require gradients. Only attention has key and value. */
typedef enum torch_operand {
    OPERAND_X,
    OPERAND_MEMORY,
    OPERAND_KEY,
    OPERAND_VALUE,
    OPERAND_ADDITIVE,
    OPERAND_MEMORY_ADDITIVE,
    OPERAND_SOURCE_ADDITIVE,
    LEAVES,
    OPERAND_KEEP = LEAVES,
    OPERAND_MEMORY_KEEP,
    OPERAND_SOURCE_KEEP,
    OPERANDS
} torch_operand;
static const char *const operand_name[OPERANDS] = {
    "x",    "memory",      "key",        "value", "additive", "memory_additive", "source_additive",
    "keep", "memory_keep", "source_keep"};

/* Returns the value of a setting, or 0 if it is missing. */
static inline double setting(const char *settings, const char *name)
{
    const size_t length = strlen(name);
    for (const char *word = settings; word; word = strchr(word, ' ')) {
        word += *word == ' ';
        if (strncmp(word, name, length) == 0 && word[length] == '=')
            return strtod(word + length + 1, NULL);
    }
    return 0;
}

static inline th_transformer_stack_options stack_options(const char *settings)
{
    return (th_transformer_stack_options){.final_norm = setting(settings, "final_norm") != 0 ? TH_FINAL_NORM_ALWAYS
                                                                                             : TH_FINAL_NORM_NEVER,
                                          .block = {.mlp_width = (int64_t)setting(settings, "mlp_width"),
                                                    .post_norm = setting(settings, "norm_first") == 0,
                                                    .activation = setting(settings, "relu") != 0 ? TH_RELU : TH_GELU,
                                                    .dropout = setting(settings, "dropout"),
                                                    .attention_dropout = setting(settings, "dropout"),
                                                    .recompute = setting(settings, "recompute") != 0,
                                                    .no_bias = setting(settings, "bias") == 0,
                                                    .eps = setting(settings, "eps")}};
}

static inline th_module *stack_new(th_context *ctx, const char *settings, bool decoder, int64_t width)
{
    const int64_t heads = (int64_t)setting(settings, "heads");
    const int64_t layers = (int64_t)setting(settings, decoder ? "decoder_layers" : "encoder_layers");
    const th_transformer_stack_options options = stack_options(settings);
    return decoder ? th_transformer_decoder_new(ctx, layers, width, heads, &options)
                   : th_transformer_encoder_new(ctx, layers, width, heads, &options);
}

/* Creates a module; kind: attention, block, encoder, decoder or transformer. */
static inline th_module *torch_module_new(th_context *ctx, const char *kind, const char *settings,
                                          th_tensor *const *operand)
{
    const int64_t width = th_size(operand[OPERAND_X], -1), heads = (int64_t)setting(settings, "heads");
    if (strcmp(kind, "attention") == 0)
        return th_multi_head_attention_new(
            ctx, width, heads,
            &(th_multi_head_attention_options){.key_input = th_size(operand[OPERAND_KEY], -1),
                                               .value_input = th_size(operand[OPERAND_VALUE], -1),
                                               .no_bias = setting(settings, "bias") == 0});
    if (strcmp(kind, "block") == 0) {
        th_transformer_stack_options options = stack_options(settings);
        options.block.cross_attention = operand[OPERAND_MEMORY] != NULL;
        return th_transformer_block_new(ctx, width, heads, &options.block);
    }
    if (strcmp(kind, "transformer") != 0)
        return stack_new(ctx, settings, strcmp(kind, "decoder") == 0, width);
    th_module *both = th_module_new(ctx, sizeof *both, "transformer", NULL);
    th_module_add(both, "encoder", stack_new(ctx, settings, false, width));
    th_module_add(both, "decoder", stack_new(ctx, settings, true, width));
    return both;
}

/* Returns the output of a module. Stores attention's weights in *weights unless weights is NULL. */
static inline th_tensor *torch_module_run(th_module *m, const char *kind, th_tensor *const *operand,
                                          th_tensor **weights)
{
    const th_mask mask = {.keep = operand[OPERAND_KEEP], .additive = operand[OPERAND_ADDITIVE]},
                  memory_mask = {.keep = operand[OPERAND_MEMORY_KEEP], .additive = operand[OPERAND_MEMORY_ADDITIVE]},
                  source_mask = {.keep = operand[OPERAND_SOURCE_KEEP], .additive = operand[OPERAND_SOURCE_ADDITIVE]};
    if (strcmp(kind, "attention") == 0)
        return th_attend(m, operand[OPERAND_X], operand[OPERAND_KEY], operand[OPERAND_VALUE],
                         &(th_attend_options){.mask = &mask, .weights = weights});
    th_transform_options given = {
        .mask = &mask, .memory = operand[OPERAND_MEMORY], .memory_mask = operand[OPERAND_MEMORY] ? &memory_mask : NULL};
    if (strcmp(kind, "transformer") != 0)
        return th_transform(m, operand[OPERAND_X], &given);
    given.memory =
        th_transform(th_module_find(m, "encoder"), given.memory, &(th_transform_options){.mask = &source_mask});
    return th_transform(th_module_find(m, "decoder"), operand[OPERAND_X], &given);
}

#endif

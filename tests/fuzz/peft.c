/* Fuzz target: adapters of PEFT. The input is adapter_config.json, NUL, and adapter_model.safetensors. Adapters that fit a
 * model are saved, and loaded into a new model with the same bits. Rejected adapters do not change the model. */
#include <sys/stat.h>

#include "tapehead/models.h"

#include "safetensors_mutator.h"

enum { MEMORY = 16 << 20, MODELS = 2, MAX_RANK = 64 };

/* The sizes of tests/fixtures/lora, whose adapters are the first inputs. */
static const th_language_model_options models[MODELS] = {
    {.vocabulary = 13, .length = 9, .width = 8, .heads = 2, .layers = 2, .block = {.mlp_width = 20}},
    {.vocabulary = 13,
     .length = 9,
     .width = 8,
     .heads = 4,
     .layers = 2,
     .positions = TH_POSITIONS_NONE,
     .untied = true,
     .block = {.norm = TH_RMS_NORM,
               .gated = true,
               .activation = TH_SILU,
               .no_bias = true,
               .mlp_width = 12,
               .kv_heads = 2,
               .scores = {.rotary = true}}},
};

static size_t mutate_config(uint8_t *data, size_t config, size_t size, size_t max_size)
{
    const size_t rest = size - config;
    uint8_t *behind = malloc(rest + 1);
    if (behind == NULL)
        return size;
    memcpy(behind, data + config, rest);
    const size_t changed = LLVMFuzzerMutate(data, config, max_size - rest);
    memcpy(data + changed, behind, rest);
    free(behind);
    return changed + rest;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const uint8_t *end = memchr(data, 0, size);
    if (end == NULL || size > max_size)
        return LLVMFuzzerMutate(data, size, max_size);
    const size_t config = (size_t)(end - data), weights = config + 1;
    if (seed % 3 == 0)
        return mutate_config(data, config, size, max_size);
    return weights + mutate_safetensors(data + weights, size - weights, max_size - weights, seed / 3);
}

/* Saves the adapters of the model, and loads them into a new one. */
static void check_saved(th_context *ctx, const th_language_model_options *options, th_module *model)
{
    th_lora_adapter adapter;
    for (int64_t i = 0; th_lora_find(model, i, &adapter); i++)
        if (th_size(adapter.a, 0) > MAX_RANK)
            return; /* packed modules may have the sum of ranks */
    const th_status status = th_lora_save(model, fuzz_path("saved"), NULL);
    FUZZ_CHECK(status == TH_OK, "%s", th_error_message(ctx));
    th_module *again = th_language_model_new(ctx, options);
    FUZZ_CHECK(again && th_lora_load(again, fuzz_path("saved")) == TH_OK, "%s", th_error_message(ctx));
    FUZZ_CHECK(th_lora_count(again) == th_lora_count(model), "%lld adapters instead of %lld",
               (long long)th_lora_count(again), (long long)th_lora_count(model));
    th_lora_adapter other;
    for (int64_t i = 0; th_lora_find(model, i, &adapter); i++) {
        FUZZ_CHECK(th_lora_find(again, i, &other) && strcmp(adapter.name, other.name) == 0, "%s is missing",
                   adapter.name);
        FUZZ_CHECK(adapter.scale == other.scale && adapter.dropout == other.dropout, "%s has other settings",
                   adapter.name);
        fuzz_check_same(adapter.a, other.a);
        fuzz_check_same(adapter.b, other.b);
    }
}

static void check_model(const th_language_model_options *options)
{
    th_context *ctx = fuzz_context(MEMORY);
    th_module *model = th_language_model_new(ctx, options);
    FUZZ_CHECK(model != NULL, "%s", th_error_message(ctx));
    const uint32_t bits = th_module_crc32c(model);
    const th_status status = th_lora_load(model, fuzz_path("adapter"));
    if (fuzz_rejected(ctx, status != TH_OK, fuzz_path("adapter")))
        FUZZ_CHECK(th_lora_count(model) == 0 && th_module_crc32c(model) == bits, "rejected adapters changed the model");
    else
        check_saved(ctx, options, model);
    fuzz_context_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_part part[2];
    fuzz_split(data, size, part, 2);
    (void)mkdir(fuzz_path("adapter"), 0700);
    fuzz_write("adapter/adapter_config.json", part[0].bytes, part[0].count);
    fuzz_write("adapter/adapter_model.safetensors", part[1].bytes, part[1].count);
    for (int i = 0; i < MODELS; i++)
        check_model(&models[i]);
    return 0;
}

/* Fuzz target: config.json, and the weights of its model. The input is config.json, NUL, and model.safetensors.
 * Settings are read twice alike. A model that they describe is made within the memory limit, exported, and read
 * again. */
#include <sys/stat.h>

#include "tapehead/hugging_face.h"
#include "tapehead/tapehead.h"

#include "fuzz.h"

enum { MEMORY = 16 << 20, MAX_PARAMETERS = 4096 };

/* Whether a model is so small that it is made and exported. */
static bool is_small(const th_language_model_options *o)
{
    th_context *shapes =
        th_context_new(&(th_context_options){.threads = 1, .memory_limit = MEMORY, .shapes_only = true});
    FUZZ_CHECK(shapes != NULL, "there is no context");
    th_module *model = th_language_model_new(shapes, o);
    (void)fuzz_failed_with(shapes, model == NULL, TH_ERROR_MEMORY); /* config.json has been checked */
    const bool small = model && th_module_count(model) <= MAX_PARAMETERS;
    th_context_free(shapes);
    return small;
}

/* Exports a model and reads it again: the options and the weights are the same. */
static void check_export(const th_language_model_options *options)
{
    th_context *ctx = fuzz_context(MEMORY);
    th_language_model_options again = {0};
    th_module *model = th_language_model_new(ctx, options);
    const th_status status = model ? th_language_model_export(model, fuzz_path("export"), NULL) : th_error_code(ctx);
    if (!fuzz_failed_with(ctx, status != TH_OK, TH_ERROR_ARGUMENT)) {
        FUZZ_CHECK(th_pretrained_options(ctx, fuzz_path("export"), &again) == TH_OK, "%s", th_error_message(ctx));
        const th_language_model_options *made = th_language_model_options_of(model);
        FUZZ_CHECK(made->vocabulary == again.vocabulary && made->length == again.length && made->width == again.width &&
                       made->heads == again.heads && made->layers == again.layers &&
                       made->positions == again.positions && made->untied == again.untied &&
                       made->block.norm == again.block.norm && made->block.activation == again.block.activation &&
                       made->block.eps == again.block.eps,
                   "the exported options differ");
        th_module *loaded = th_language_model_from_pretrained(ctx, fuzz_path("export"));
        FUZZ_CHECK(loaded && th_module_crc32c(loaded) == th_module_crc32c(model), "the exported weights differ: %s",
                   th_error_message(ctx));
    }
    fuzz_context_free(ctx);
}

/* Loads the weights into a model of these options. If they are rejected, the model does not change. */
static void check_weights(const th_language_model_options *options)
{
    th_context *ctx = fuzz_context(MEMORY);
    th_module *model = th_language_model_new(ctx, options);
    const uint32_t bits = th_module_crc32c(model);
    const th_status status = th_pretrained_load(model, fuzz_path("model"), NULL);
    if (fuzz_rejected(ctx, status != TH_OK, fuzz_path("model")))
        FUZZ_CHECK(th_module_crc32c(model) == bits, "rejected weights changed the model");
    (void)fuzz_rejected(ctx, th_language_model_check_weights(ctx, options, fuzz_path("model")) != TH_OK,
                        fuzz_path("model"));
    th_module *made = th_language_model_from_pretrained(ctx, fuzz_path("model"));
    FUZZ_CHECK(fuzz_rejected(ctx, made == NULL, fuzz_path("model")) == (status != TH_OK),
               "the two ways to load differ");
    FUZZ_CHECK(made == NULL || th_module_crc32c(made) == th_module_crc32c(model), "two models of a file differ");
    fuzz_context_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_part part[2];
    fuzz_split(data, size, part, 2);
    (void)mkdir(fuzz_path("model"), 0700);
    fuzz_write("model/config.json", part[0].bytes, part[0].count);
    fuzz_write("model/model.safetensors", part[1].bytes, part[1].count);
    th_language_model_options options, again;
    memset(&options, 0, sizeof options);
    memset(&again, 0, sizeof again);
    int64_t end = -2;
    th_context *ctx = fuzz_context(MEMORY);
    const th_status status = th_pretrained_options(ctx, fuzz_path("model"), &options);
    const bool failed = fuzz_rejected(ctx, status != TH_OK, fuzz_path("model/config.json"));
    FUZZ_CHECK((th_pretrained_options(ctx, fuzz_path("model"), &again) != TH_OK) == failed, "the result differs");
    (void)fuzz_rejected(ctx, failed, fuzz_path("model/config.json"));
    FUZZ_CHECK((th_pretrained_end_token(ctx, fuzz_path("model"), &end) != TH_OK) == failed, "the end token differs");
    (void)fuzz_rejected(ctx, failed, fuzz_path("model/config.json"));
    FUZZ_CHECK(failed || (end >= -1 && end < options.vocabulary), "the end token is %lld", (long long)end);
    if (!failed && is_small(&options)) {
        check_export(&options);
        check_weights(&options);
    }
    fuzz_context_free(ctx); /* it owns what the options point to */
    return 0;
}

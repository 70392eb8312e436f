/* Times th_generate on a language model with random weights, or on one in a folder or a GGUF file. Each sequence has a
 * prompt and is continued token by token, by default greedily. Prints one line of name=value pairs. generation.sh compares them with
 * transformers and llama.cpp. */
#include <tapehead/models.h>

#include "measure.h"
#include "options.h"
#include "precision.h"
#include "suggest.h"

#include <string.h>

static const char program[] = "generation";
static int64_t layers = 12, width = 768, heads = 12, vocabulary = 50257, length = 1024, batch = 1, prompt = 32,
               tokens = 64, beams, threads, repeats = 3;
static double temperature, top_p;
static const char *precision = "float32";
static const char *folder, *storage;
static bool llama, no_mapping;
static int64_t top_k;
static const program_option options[] = {
    {"folder", "of a model, or a GGUF file, to load instead of making one", .text = &folder},
    {"no-mapping", "copy all of the file", .flag = &no_mapping},
    {"llama", "a Llama with an MLP of 8/3 of the width, not a GPT-2", .flag = &llama},
    {"storage", "of frozen weights: bfloat16, float16, q8_0 or q4_0", .text = &storage},
    {"layers", "of the model", .integer = &layers, .low = 1, .high = 1000},
    {"width", "of the model", .integer = &width, .low = 1, .high = 1e6},
    {"heads", "attention heads; a divisor of the width", .integer = &heads, .low = 1, .high = 1e6},
    {"vocabulary", "number of different tokens", .integer = &vocabulary, .low = 1, .high = 1e7},
    {"batch", "sequences", .integer = &batch, .low = 1, .high = 1e6},
    {"prompt", "tokens in each prompt", .integer = &prompt, .low = 1, .high = 1000},
    {"tokens", "new tokens for each sequence", .integer = &tokens, .low = 2, .high = 1000},
    {"temperature", "0: greedy", .real = &temperature, .low = 0, .high = 100},
    {"top-k", "0: all", .integer = &top_k, .low = 0, .high = 1e7},
    {"top-p", "0: all", .real = &top_p, .low = 0, .high = 1},
    {"beams", "0: no beam search", .integer = &beams, .low = 0, .high = 1000},
    {"precision", "of matrix products: float32, bfloat16x3, bfloat16 or int8", .text = &precision},
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"repeats", "the fastest counts", .integer = &repeats, .low = 1, .high = 1000},
    {0},
};

/* When generation began, when the last sequence got its first token, and when generation ended. */
typedef struct {
    double begin, first, end;
} times;

static bool note(void *user, int64_t sequence, int64_t token)
{
    times *t = user;
    (void)token;
    if (sequence == batch - 1 && t->first == 0)
        t->first = now();
    return true;
}

/* Returns the type with this name. */
static th_dtype find_storage(void)
{
    th_dtype dtype = TH_BFLOAT16;
    while (dtype <= TH_Q4_0 && strcmp(th_dtype_name(dtype), storage) != 0)
        dtype++;
    if (dtype > TH_Q4_0)
        give_up(program, "--storage must be bfloat16, float16, q8_0 or q4_0");
    return dtype;
}

/* Loads the frozen model of --folder. */
static th_module *load_model(th_context *ctx)
{
    const char *ending = strrchr(folder, '.');
    const th_dtype type = storage ? find_storage() : TH_FLOAT32;
    if (ending && strcmp(ending, ".gguf") == 0)
        return th_language_model_from_gguf(
            ctx, folder,
            &(th_gguf_load_options){.stored = !storage, .frozen = true, .type = type, .no_mapping = no_mapping});
    return th_language_model_from_folder(
        ctx, folder,
        &(th_folder_load_options){.stored = !storage, .frozen = true, .type = type, .no_mapping = no_mapping});
}

static th_module *make_model(th_context *ctx)
{
    if (folder)
        return load_model(ctx);
    th_language_model_options model = {
        .vocabulary = vocabulary, .length = length, .width = width, .heads = heads, .layers = layers};
    if (llama) {
        model.positions = TH_POSITIONS_NONE;
        model.untied = true;
        model.block = (th_transformer_block_options){.norm = TH_RMS_NORM,
                                                     .gated = true,
                                                     .activation = TH_SILU,
                                                     .no_bias = true,
                                                     .mlp_width = (width * 8 / 3 + 31) / 32 * 32,
                                                     .scores = {.rotary = true}};
    }
    return th_language_model_new(ctx, &model);
}

/* Stores the weights of a new model as --storage says. */
static void store_weights(th_context *ctx, th_module *model)
{
    if (th_module_freeze(model, true) || th_module_store(model, find_storage()))
        give_up(program, th_error_message(ctx));
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, program, "generation: tokens per second of a language model", options);
    th_context *ctx = th_context_new(
        &(th_context_options){.seed = 1, .threads = (int)threads, .precision = precision_named(program, precision)});
    const double start = now();
    th_module *model = make_model(ctx);
    const double load = now() - start;
    if (model == NULL)
        give_up(program, th_error_message(ctx));
    vocabulary = th_language_model_options_of(model)->vocabulary;
    if (storage && folder == NULL)
        store_weights(ctx, model);
    th_tensor *prompts = th_random_integers(ctx, TH_INT32, TH_SHAPE(batch, prompt), 0, vocabulary);
    times best = {.end = 1e300};
    for (int64_t i = 0; i < repeats; i++) {
        times t = {.begin = now()};
        const th_generate_options generate = {.prompts = prompts,
                                              .max_new_tokens = tokens,
                                              .temperature = temperature,
                                              .top_k = top_k,
                                              .top_p = top_p,
                                              .beams = beams,
                                              .emit = note,
                                              .user = &t};
        if (th_generate(model, &generate, NULL))
            give_up(program, th_error_message(ctx));
        t.end = now();
        if (t.end - t.begin < best.end - best.begin)
            best = t;
    }
    const double all = best.end - best.begin;
    printf("batch=%lld load_ms=%.0f prompt_per_second=%.1f generation_per_second=%.2f tokens_per_second=%.1f "
           "prompt_ms=%.1f token_ms=%.2f peak_rss_mib=%.0f build=\"%s\"\n",
           (long long)batch, load * 1e3, (double)(batch * prompt) / (best.first - best.begin),
           (double)(batch * (tokens - 1)) / (best.end - best.first), (double)(batch * tokens) / all,
           (best.first - best.begin) * 1e3, (best.end - best.first) / (double)(tokens - 1) * 1e3, peak_rss_mib(),
           th_build_info(ctx));
    th_context_free(ctx);
    return end_with_suggestion(program, argv[0], NULL, "generation", (const char *const[]){"--batch", "8", NULL});
}

/* Times th_generate on a GPT-2 with random weights: each sequence has a prompt and is continued token by token, by
 * default greedily. Prints one line of name=value pairs. generation.sh compares them with transformers. */
#include <tapehead/models.h>

#include "measure.h"
#include "options.h"
#include "precision.h"
#include "suggest.h"

static const char program[] = "generation";
static int64_t layers = 12, width = 768, heads = 12, vocabulary = 50257, length = 1024, batch = 1, prompt = 32,
               tokens = 64, beams, threads, repeats = 3;
static double temperature, top_p;
static const char *precision = "float32";
static int64_t top_k;
static const program_option options[] = {
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
    {"precision", "of matrix products: float32, bfloat16x3 or bfloat16", .text = &precision},
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

int main(int argc, char **argv)
{
    parse_options(argc, argv, program, "generation: tokens per second of a GPT-2 with random weights", options);
    th_context *ctx = th_context_new(
        &(th_context_options){.seed = 1, .threads = (int)threads, .precision = precision_named(program, precision)});
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){
                 .vocabulary = vocabulary, .length = length, .width = width, .heads = heads, .layers = layers});
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
    printf("batch=%lld tokens_per_second=%.1f prompt_ms=%.1f token_ms=%.2f peak_rss_mib=%.0f build=\"%s\"\n",
           (long long)batch, (double)(batch * tokens) / all, (best.first - best.begin) * 1e3,
           (best.end - best.first) / (double)(tokens - 1) * 1e3, peak_rss_mib(), th_build_info(ctx));
    th_context_free(ctx);
    return end_with_suggestion(program, argv[0], NULL, "generation", (const char *const[]){"--batch", "8", NULL});
}

/* Times training steps of a Llama with random weights on random tokens, and counts their memory. It tunes all
 * parameters in float32, or adapters (LoRA) beside frozen weights of a storage type. Prints one line of name=value
 * pairs. tuning.sh compares the cases.
 *
 *     tuning                                         all parameters
 *     tuning --lora 16 --storage q8_0                adapters of all projections
 *     tuning --lora 16 --storage q8_0 --attention    adapters of q_proj and v_proj only
 *     tuning --lora 16 --folder FILE.gguf            adapters beside the weights of a file, in its types and mapped
 *
 * Nothing is stored in q8_0 from the start: th_module_store converts a float32 model. The fields of the memory do not
 * contain this conversion; store_peak_mib does. */
#include <string.h>
#include <tapehead/models.h>

#include "measure.h"
#include "options.h"
#include "precision.h"
#include "suggest.h"

static const char program[] = "tuning";
enum { BATCHES = 4, MAX_STEPS = 1000 };

static int64_t layers = 12, width = 768, heads = 12, kv_heads, mlp_width, vocabulary = 32000, length = 256, batch = 1;
static int64_t rank, threads, steps = 5;
static bool tied, attention, recompute;
static const char *storage = "float32", *precision = "float32", *profile, *folder;

static const program_option options[] = {
    {"layers", "of the model", .integer = &layers, .low = 1, .high = 1000},
    {"width", "of the model", .integer = &width, .low = 1, .high = 1e6},
    {"heads", "attention heads; a divisor of the width", .integer = &heads, .low = 1, .high = 1e6},
    {"kv-heads", "heads of key and value; 0: as many as heads", .integer = &kv_heads, .low = 0, .high = 1e6},
    {"mlp-width", "0: 8/3 of the width", .integer = &mlp_width, .low = 0, .high = 1e6},
    {"vocabulary", "number of different tokens", .integer = &vocabulary, .low = 1, .high = 1e7},
    {"tied", "the classifier is the embedding", .flag = &tied},
    {"length", "tokens in a sequence", .integer = &length, .low = 1, .high = 1e6},
    {"batch", "sequences in a step", .integer = &batch, .low = 1, .high = 1e6},
    {"lora", "rank of the adapters; 0: tunes all parameters", .integer = &rank, .low = 0, .high = 1e6},
    {"attention", "adapters of q_proj and v_proj only, not of all projections", .flag = &attention},
    {"storage", "of frozen weights: float32, bfloat16, float16, q8_0 or q4_0", .text = &storage},
    {"folder", "of a model, or a GGUF file, whose weights are frozen as they are stored", .text = &folder},
    {"recompute", "saves only the result of each block", .flag = &recompute},
    {"precision", "of matrix products: float32, bfloat16x3, bfloat16 or int8", .text = &precision},
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"steps", "to measure, after two steps that are not measured", .integer = &steps, .low = 1, .high = MAX_STEPS},
    {"profile", "profile one more step: print a table to standard error, write a Chrome trace to this file",
     .text = &profile},
    {0},
};

/* The bytes in use by the context's count. */
typedef struct {
    size_t base;       /* frozen weights as stored; all parameters without LoRA */
    size_t state;      /* adapters, gradients and moments; without LoRA, gradients and moments */
    size_t step;       /* most bytes of values, gradients of values and scratch memory in a step */
    size_t store_peak; /* most bytes until the frozen weights are stored */
} bytes_in_use;

/* B batch, T length. */
typedef struct {
    th_context *ctx;
    th_module *model;
    th_optimizer *adam;
    th_tensor *tokens[BATCHES], *targets[BATCHES]; /* (B, T) */
    bytes_in_use bytes;
} tuning;

static th_dtype storage_type(void)
{
    static const th_dtype types[] = {TH_FLOAT32, TH_BFLOAT16, TH_FLOAT16, TH_Q8_0, TH_Q4_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(th_dtype_name(types[i]), storage) == 0)
            return types[i];
    refuse(program, "--storage must be float32, bfloat16, float16, q8_0 or q4_0, not ", storage);
    return TH_FLOAT32;
}

/* Ends the program if the context has an error. */
static void check(const tuning *t)
{
    if (th_error_code(t->ctx))
        give_up(program, th_error_message(t->ctx));
}

/* Loads the frozen model of --folder. */
static th_module *load_model(th_context *ctx)
{
    th_language_model_options model = {0};
    if (th_pretrained_options(ctx, folder, &model))
        give_up(program, th_error_message(ctx));
    model.block.recompute = recompute;
    vocabulary = model.vocabulary;
    return th_language_model_from_folder(ctx, folder, &(th_folder_load_options){.stored = true, .model = &model});
}

static th_module *make_model(th_context *ctx)
{
    if (folder)
        return load_model(ctx);
    return th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = vocabulary,
                                          .length = length,
                                          .width = width,
                                          .heads = heads,
                                          .layers = layers,
                                          .positions = TH_POSITIONS_NONE,
                                          .untied = !tied,
                                          .block = {.norm = TH_RMS_NORM,
                                                    .gated = true,
                                                    .activation = TH_SILU,
                                                    .no_bias = true,
                                                    .recompute = recompute,
                                                    .kv_heads = kv_heads,
                                                    .mlp_width = mlp_width ? mlp_width : (width * 8 / 3 + 31) / 32 * 32,
                                                    .scores = {.rotary = true}}});
}

/* Freezes and stores the weights of the model, then attaches adapters. */
static void attach(const tuning *t)
{
    static const char *const patterns[] = {"q_proj", "v_proj"};
    const th_lora_options lora = {
        .rank = rank, .patterns = attention ? patterns : NULL, .n_patterns = attention ? 2 : 0};
    if (th_lora_attach(t->model, &lora))
        check(t);
}

/* Runs one step: forward, backward, AdamW. Returns its loss, which is valid until the next step. */
static th_tensor *run_step(const tuning *t, int64_t step)
{
    th_tape_clear(t->ctx);
    th_tensor *loss = th_language_model_loss(t->model, t->tokens[step % BATCHES], t->targets[step % BATCHES], NULL);
    if (th_backward(loss, NULL) || th_optimizer_step(t->adam))
        check(t);
    return loss;
}

/* Makes a model, its adapters and its optimizer, and runs two steps. The optimizer creates its moments at the end of
 * the first one. */
static tuning new_tuning(bool shapes_only)
{
    const th_context_options context = {.seed = 1,
                                        .threads = (int)threads,
                                        .precision = precision_named(program, precision),
                                        .shapes_only = shapes_only};
    tuning t = {.ctx = th_context_new(&context)};
    if (t.ctx == NULL)
        give_up(program, "out of memory");
    t.model = make_model(t.ctx);
    if (t.model == NULL)
        check(&t);
    const th_dtype dtype = storage_type();
    if (rank > 0 && dtype != TH_FLOAT32 && (th_module_freeze(t.model, true) || th_module_store(t.model, dtype)))
        check(&t);
    t.bytes.base = th_memory(t.ctx).live;
    t.bytes.store_peak = th_memory(t.ctx).peak;
    if (rank > 0)
        attach(&t);
    t.adam = th_adam_w_new(t.model, &(th_adam_options){.learning_rate = 2e-4});
    const size_t before = th_memory(t.ctx).live;
    for (int i = 0; i < BATCHES; i++) {
        t.tokens[i] = th_random_integers(t.ctx, TH_INT32, TH_SHAPE(batch, length), 0, vocabulary);
        t.targets[i] = th_random_integers(t.ctx, TH_INT32, TH_SHAPE(batch, length), 0, vocabulary);
    }
    const size_t tokens = th_memory(t.ctx).live - before;
    th_memory_reset_peak(t.ctx);
    run_step(&t, 0);
    run_step(&t, 1);
    th_tape_clear(t.ctx);
    check(&t);
    const size_t held = th_memory(t.ctx).live - tokens;
    t.bytes.state = held - t.bytes.base;
    t.bytes.step = th_memory(t.ctx).peak - held;
    return t;
}

static size_t peak_of(const bytes_in_use *bytes)
{
    return bytes->base + bytes->state + bytes->step;
}

/* Sets the kernel's peak of resident memory to its present value. */
static void reset_peak_rss(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file) {
        fputs("5", file);
        fclose(file);
    }
}

static void write_profile(const tuning *t)
{
    if (th_profile_begin(t->ctx, NULL))
        check(t);
    run_step(t, 0);
    if (th_profile_end(t->ctx) || th_profile_print(t->ctx, stderr) || th_profile_write_trace(t->ctx, profile))
        check(t);
}

static int64_t trainable(const th_module *model)
{
    int64_t count = 0;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        count += th_requires_gradient(p.tensor) ? th_numel(p.tensor) : 0;
    return count;
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, program, "tuning: time and memory of steps that tune a Llama", options);
    if (rank == 0 && storage_type() != TH_FLOAT32)
        refuse(program, "only frozen weights have a storage type; --storage needs ", "--lora");
    if (folder && rank == 0)
        refuse(program, "the weights of a file are frozen; --folder needs ", "--lora");
    const tuning forecast = new_tuning(true);
    th_context_free(forecast.ctx);
    const tuning t = new_tuning(false);
    const double rss_with_store = peak_rss_mib();
    reset_peak_rss();
    static double times[MAX_STEPS];
    double loss = 0;
    for (int64_t i = 0; i < steps; i++) {
        const double begin = now();
        loss = th_item(run_step(&t, i + 2));
        times[i] = now() - begin;
    }
    check(&t);
    const double middle = median(times, (int)steps), mib = 1 << 20;
    printf("min_ms=%.1f median_ms=%.1f base_mib=%.2f state_mib=%.2f step_mib=%.2f peak_mib=%.2f forecast_mib=%.2f "
           "over_base=%.4f peak_rss_mib=%.1f ",
           times[0] * 1e3, middle * 1e3, (double)t.bytes.base / mib, (double)t.bytes.state / mib,
           (double)t.bytes.step / mib, (double)peak_of(&t.bytes) / mib, (double)peak_of(&forecast.bytes) / mib,
           (double)peak_of(&t.bytes) / (double)t.bytes.base, peak_rss_mib());
    printf("store_peak_mib=%.2f store_peak_rss_mib=%.1f reserved_peak_mib=%.2f forecast_equal=%d loss=%.6f "
           "trainable=%lld build=%s\n",
           (double)t.bytes.store_peak / mib, rss_with_store, (double)th_memory(t.ctx).reserved_peak / mib,
           memcmp(&t.bytes, &forecast.bytes, sizeof t.bytes) == 0, loss, (long long)trainable(t.model),
           th_build_info(t.ctx));
    if (profile)
        write_profile(&t);
    th_context_free(t.ctx);
    return end_with_suggestion(program, argv[0], profile, "tuning",
                               (const char *const[]){"--lora", "16", "--storage", "q8_0", NULL});
}

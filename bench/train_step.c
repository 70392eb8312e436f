/* Times whole training steps of a GPT-2 (forward, backward, AdamW) on random tokens, through the public API. Prints one
 * line of name=value pairs. session.py compares them with PyTorch and JAX.
 *
 *     train_step char12 --threads 2               a configuration from configurations.def
 *     train_step --layers 2 --width 256 ...       or any sizes */
#include <string.h>
#include <tapehead/tapehead.h>

#include "measure.h"
#include "options.h"
#include "precision.h"
#include "suggest.h"
#include "training.h"

static const char program[] = "train_step";
enum { MAX_STEPS = 1000 };

static training_sizes sizes = {
    .layers = 2, .width = 64, .heads = 4, .vocabulary = 16, .length = 32, .batch = 32, .mlp = true};
static int64_t threads, steps;
static double seconds = 10, started;
static bool no_mlp, no_fusion;
static const char *precision = "float32", *profile;

static const program_option options[] = {
    {"layers", "of the model", .integer = &sizes.layers, .low = 1, .high = 1000},
    {"width", "of the model", .integer = &sizes.width, .low = 1, .high = 1e6},
    {"heads", "attention heads; a divisor of the width", .integer = &sizes.heads, .low = 1, .high = 1e6},
    {"vocabulary", "number of different tokens", .integer = &sizes.vocabulary, .low = 1, .high = 1e7},
    {"length", "tokens in a sequence", .integer = &sizes.length, .low = 1, .high = 1e6},
    {"batch", "sequences in a step", .integer = &sizes.batch, .low = 1, .high = 1e6},
    {"no-mlp", "layers have attention only", .flag = &no_mlp},
    {"dropout", "of the embedding, the branches and the attention weights", .real = &sizes.dropout, .low = 0,
     .high = 0.99},
    {"precision", "of matrix products: float32, bfloat16x3, bfloat16 or int8", .text = &precision},
    {"no-fusion", "replace fused operations by their compositions", .flag = &no_fusion},
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"steps", "in total; 0: until --seconds have passed", .integer = &steps, .low = 0, .high = 1e6},
    {"seconds", "to measure, but at least three steps", .real = &seconds, .low = 0, .high = 1e5},
    {"started", "start time of the process on CLOCK_MONOTONIC; 0: now", .real = &started, .low = 0, .high = 1e12},
    {"profile", "profile one more step: print a table to standard error, write a Chrome trace to this file",
     .text = &profile},
    {0},
};

/* -- a training run -- */

static training new_training(bool shapes_only)
{
    const th_context_options context = {.seed = 1,
                                        .threads = (int)threads,
                                        .precision = precision_named(program, precision),
                                        .shapes_only = shapes_only};
    training t = training_new(program, &sizes, &context);
    th_set_fusion(t.ctx, !no_fusion);
    return t;
}

/* Returns the floating-point operations of a step: the products with the weights, forward and twice backward, and
 * causal attention. The position embedding does not count, because it is only added. All engines are measured with
 * this count. */
static double work(const th_module *model)
{
    double weights = 0;
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (th_ndim(p.tensor) > 1 && strcmp(p.name, "position.weight") != 0)
            weights += (double)th_numel(p.tensor);
    const double tokens = (double)(sizes.batch * sizes.length);
    return 6 * weights * tokens + 6 * (double)(sizes.layers * sizes.width * sizes.length) * tokens;
}

/* Returns the peak memory in bytes that the library predicts for a step, from a run with shapes only. */
static size_t forecast(void)
{
    const training t = new_training(true);
    training_step(program, &t, 0);
    training_step(program, &t, 1);
    const size_t bytes = th_memory(t.ctx).peak;
    th_context_free(t.ctx);
    return bytes;
}

static void write_profile(const training *t)
{
    if (th_profile_begin(t->ctx, NULL))
        give_up(program, th_error_message(t->ctx));
    training_step(program, t, 0);
    if (th_profile_end(t->ctx) || th_profile_print(t->ctx, stderr) || th_profile_write_trace(t->ctx, profile))
        give_up(program, th_error_message(t->ctx));
}

/* -- measuring -- */

typedef struct {
    double first_step, end, first_loss, last_loss; /* first_step, end: clock times */
    double least, median;                          /* seconds of a step, without the warm-up steps */
    int64_t steps;
} outcome;

static outcome measure(const training *t)
{
    static double times[MAX_STEPS];
    const int64_t max = steps ? steps : MAX_STEPS;
    const int64_t cold = max > 5 && work(t->model) < 1e11 ? 3 : max > 1 ? 1 : 0; /* warm-up steps */
    outcome o = {0};
    int count = 0;
    for (double begin = now(), spent = 0; o.steps < max && (steps || count < 3 || spent < seconds); o.steps++) {
        th_tensor *loss = training_step(program, t, o.steps);
        o.end = now();
        o.last_loss = th_item(loss);
        if (o.steps == 0) {
            o.first_loss = o.last_loss;
            o.first_step = o.end;
        }
        if (o.steps >= cold) {
            times[count++ % MAX_STEPS] = o.end - begin;
            spent += o.end - begin;
        }
        begin = now();
    }
    o.median = median(times, count < MAX_STEPS ? count : MAX_STEPS);
    o.least = times[0];
    return o;
}

int main(int argc, char **argv)
{
    const double entered = now();
    if (argc > 1 && argv[1][0] != '-') {
        if (!training_find(argv[1], &sizes))
            refuse(program, "unknown configuration ", argv[1]);
        argv[1] = argv[0]; /* getopt's messages begin with the program's name */
        argv++;
        argc--;
    }
    parse_options(argc, argv, program, "train_step [CONFIGURATION]: times training steps of a GPT-2", options);
    sizes.mlp = sizes.mlp && !no_mlp;
    const training t = new_training(false);
    const outcome o = measure(&t);
    if (th_error_code(t.ctx))
        give_up(program, th_error_message(t.ctx));
    const double origin = started > 0 ? started : entered, mib = 1 << 20;
    printf("min_ms=%.4f median_ms=%.4f peak_rss_mib=%.1f startup_ms=%.2f total_ms=%.1f steps=%lld gflops=%.1f "
           "work_gf=%.4f ",
           o.least * 1e3, o.median * 1e3, peak_rss_mib(), (o.first_step - origin) * 1e3, (o.end - origin) * 1e3,
           (long long)o.steps, work(t.model) / o.least * 1e-9, work(t.model) * 1e-9);
    printf("first_loss=%.5f last_loss=%.5f memory_mib=%.2f forecast_mib=%.2f parameters=%lld build=%s\n", o.first_loss,
           o.last_loss, (double)th_memory(t.ctx).peak / mib, (double)forecast() / mib,
           (long long)th_module_count(t.model), th_build_info(t.ctx));
    if (profile)
        write_profile(&t);
    th_context_free(t.ctx);
    return end_with_suggestion(program, argv[0], profile, "train_step",
                               profile ? (const char *const[]){"copyB", NULL}
                                       : (const char *const[]){"copyA", "--profile", "trace.json", NULL});
}

/* Times every operation that reads its elements or rows once, forward and backward. Prints, as CSV, nanoseconds for
 * each element and the limit that the memory bandwidth sets. Measures one thread with operands in the second-level
 * cache, and all threads with operands in memory. Times and bytes come from the library's profiler, so only the
 * operation counts, not the tape around it. products.c and attention.c measure matrix products and attention. */
#include <string.h>
#include <tapehead/tapehead.h>

#include "machine_limits.h"
#include "measure.h"
#include "options.h"
#include "suggest.h"

static const char program[] = "elementwise";
enum { COLUMNS = 1024 };
static int64_t threads, largest = DRAM_FLOATS;
static double seconds = 0.1;
static const program_option options[] = {
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"seconds", "for each measurement", .real = &seconds, .low = 0, .high = 100},
    {"elements", "in each operand that is in memory", .integer = &largest, .low = 1 << 15, .high = 1 << 30},
    {0},
};

/* Operands. x and a are (rows, COLUMNS), with values between 0.25 and 0.75. */
typedef struct {
    th_context *ctx;
    th_tensor *x, *a;
    th_tensor *condition;     /* bool (rows, COLUMNS) */
    th_tensor *index;         /* int32 (rows): row numbers of x, or target classes */
    th_tensor *weight, *bias; /* (COLUMNS) */
} inputs;

/* -- operations with other arguments than (x) or (x, a) -- */

static th_tensor *where(const inputs *in)
{
    return th_where(in->condition, in->x, in->a);
}
static th_tensor *scale(const inputs *in)
{
    return th_scale(in->x, 0.5);
}
static th_tensor *add_scalar(const inputs *in)
{
    return th_add_scalar(in->x, 0.5);
}
static th_tensor *pow_scalar(const inputs *in)
{
    return th_pow_scalar(in->x, 2.5);
}
static th_tensor *clamp(const inputs *in)
{
    return th_clamp(in->x, 0.3, 0.6);
}
static th_tensor *dropout(const inputs *in)
{
    return th_dropout(in->x, 0.1);
}
static th_tensor *add_bias(const inputs *in)
{
    return th_add(in->x, in->bias);
}
static th_tensor *cast(const inputs *in)
{
    return th_cast(in->x, TH_FLOAT64);
}
static th_tensor *transposed(const inputs *in)
{
    return th_contiguous(th_swap_axes(in->x, 0, 1));
}
static th_tensor *concat(const inputs *in)
{
    return th_concat((th_tensor *const[]){in->x, in->a}, 2, 1);
}
static th_tensor *embedding(const inputs *in)
{
    return th_embedding(in->x, in->index);
}
static th_tensor *sum_all(const inputs *in)
{
    return th_sum(in->x, TH_ALL_AXES, NULL);
}
static th_tensor *sum_rows(const inputs *in)
{
    return th_sum(in->x, TH_AXES(1), NULL);
}
static th_tensor *sum_columns(const inputs *in)
{
    return th_sum(in->x, TH_AXES(0), NULL);
}
static th_tensor *variance(const inputs *in)
{
    return th_variance(in->x, TH_AXES(1), NULL);
}
static th_tensor *max(const inputs *in)
{
    return th_max(in->x, TH_AXES(1), NULL);
}
static th_tensor *argmax(const inputs *in)
{
    return th_argmax(in->x, 1);
}
static th_tensor *log_sum_exp(const inputs *in)
{
    return th_log_sum_exp(in->x, TH_AXES(1), NULL);
}
static th_tensor *softmax(const inputs *in)
{
    return th_softmax(in->x, 1);
}
static th_tensor *log_softmax(const inputs *in)
{
    return th_log_softmax(in->x, 1);
}
static th_tensor *masked_softmax(const inputs *in)
{
    return th_masked_softmax(in->x, &(th_mask){.keep = in->condition});
}
static th_tensor *layer_norm(const inputs *in)
{
    return th_layer_norm(in->x, &(th_norm_options){.weight = in->weight, .bias = in->bias});
}
static th_tensor *rms_norm(const inputs *in)
{
    return th_rms_norm(in->x, &(th_norm_options){.weight = in->weight});
}
static th_tensor *cross_entropy(const inputs *in)
{
    return th_cross_entropy(in->x, in->index, NULL);
}

/* -- the list of operations -- */

/* One operation: exactly one of the three functions is set. */
typedef struct {
    const char *name;
    th_tensor *(*unary)(th_tensor *x);
    th_tensor *(*binary)(th_tensor *x, th_tensor *a);
    th_tensor *(*other)(const inputs *in);
} operation;

static const operation operations[] = {
    {"neg", .unary = th_neg},
    {"exp", .unary = th_exp},
    {"log", .unary = th_log},
    {"sqrt", .unary = th_sqrt},
    {"rsqrt", .unary = th_rsqrt},
    {"sin", .unary = th_sin},
    {"cos", .unary = th_cos},
    {"abs", .unary = th_abs},
    {"tanh", .unary = th_tanh},
    {"sigmoid", .unary = th_sigmoid},
    {"relu", .unary = th_relu},
    {"gelu", .unary = th_gelu},
    {"gelu_tanh", .unary = th_gelu_tanh},
    {"silu", .unary = th_silu},
    {"scale", .other = scale},
    {"add_scalar", .other = add_scalar},
    {"pow_scalar", .other = pow_scalar},
    {"clamp", .other = clamp},
    {"dropout", .other = dropout},
    {"add", .binary = th_add},
    {"add, one row", .other = add_bias},
    {"sub", .binary = th_sub},
    {"mul", .binary = th_mul},
    {"div", .binary = th_div},
    {"pow", .binary = th_pow},
    {"maximum", .binary = th_maximum},
    {"minimum", .binary = th_minimum},
    {"where", .other = where},
    {"less", .binary = th_less},
    {"cast to float64", .other = cast},
    {"contiguous, transposed", .other = transposed},
    {"concat", .other = concat},
    {"embedding", .other = embedding},
    {"sum", .other = sum_all},
    {"sum of rows", .other = sum_rows},
    {"sum of columns", .other = sum_columns},
    {"variance", .other = variance},
    {"max", .other = max},
    {"argmax", .other = argmax},
    {"log_sum_exp", .other = log_sum_exp},
    {"softmax", .other = softmax},
    {"log_softmax", .other = log_softmax},
    {"masked_softmax", .other = masked_softmax},
    {"layer_norm", .other = layer_norm},
    {"rms_norm", .other = rms_norm},
    {"cross_entropy", .other = cross_entropy},
    {"mse", .binary = th_mse},
};

static th_tensor *apply(const operation *o, const inputs *in)
{
    return o->unary ? o->unary(in->x) : o->binary ? o->binary(in->x, in->a) : o->other(in);
}

/* -- measuring -- */

/* Where the operands are stored (the cache or memory), and the triad's bandwidth there. */
typedef struct {
    const char *name;
    int64_t elements;
    int threads;
    double gbs;
} location;

/* The minimum time of one phase of an operation, and the bytes that it read and wrote, from profiles. */
typedef struct {
    double ns;    /* for each element; 0: the operation does not have this phase */
    double bytes; /* for each element */
} cost;

static void check(th_context *ctx)
{
    if (th_error_code(ctx))
        give_up(program, th_error_message(ctx));
}

/* Reads the profile of one call and lowers costs to its times where they are less. Leaves out gradient sums: the driver
 * of backward adds gradients, not the operation. */
static void take_profile(th_context *ctx, const location *p, cost costs[TH_PROFILE_PHASE_COUNT])
{
    cost sum[TH_PROFILE_PHASE_COUNT] = {{0}};
    for (int64_t i = 0; i < th_profile_count(ctx); i++) {
        th_profile_entry e;
        if (th_profile_entry_at(ctx, i, &e) || strcmp(e.operation, "gradient sum") == 0)
            continue;
        sum[e.phase].ns += e.milliseconds * 1e6 / (double)p->elements;
        sum[e.phase].bytes += (double)e.bytes / (double)p->elements;
    }
    for (int i = 0; i < TH_PROFILE_PHASE_COUNT; i++)
        if (sum[i].ns > 0 && (costs[i].ns == 0 || sum[i].ns < costs[i].ns))
            costs[i] = sum[i];
}

static void print_costs(const char *name, const location *p, const cost costs[TH_PROFILE_PHASE_COUNT])
{
    for (int i = 0; i < TH_PROFILE_PHASE_COUNT; i++)
        if (costs[i].ns > 0)
            printf("\"%s\",%s,%s,%d,%.4f,%.1f,%.4f,%.2f\n", name, th_profile_phase_name((th_profile_phase)i), p->name,
                   p->threads, costs[i].ns, costs[i].bytes, costs[i].bytes / p->gbs,
                   costs[i].bytes / p->gbs / costs[i].ns);
}

static void measure(const operation *o, const inputs *in, const location *p)
{
    cost costs[TH_PROFILE_PHASE_COUNT] = {{0}};
    th_tensor *dy = NULL; /* outlives the first step, which determines its shape */
    const double begin = now();
    for (int i = 0; i < 4 || now() - begin < seconds; i++) {
        if (th_profile_begin(in->ctx, &(th_profile_options){.max_events = -1}))
            break;
        th_tensor *y = apply(o, in);
        if (th_requires_gradient(y) && dy && th_backward(y, &(th_backward_options){.cotangent = dy}))
            break;
        if (th_profile_end(in->ctx))
            break;
        if (i > 0) /* the first call is cold */
            take_profile(in->ctx, p, costs);
        else if (th_requires_gradient(y))
            dy = th_ones(in->ctx, th_dtype_of(y), th_shape_of(y));
        th_empty_gradient(in->x);
        th_tape_clear(in->ctx);
    }
    check(in->ctx);
    th_tensor_free(dy);
    print_costs(o->name, p, costs);
}

/* Times AdamW on one parameter. */
static void measure_adam(th_context *ctx, const char *name, double max_norm, const location *p)
{
    cost costs[TH_PROFILE_PHASE_COUNT] = {{0}};
    th_module *module = th_module_new(ctx, sizeof *module, "parameters", NULL);
    th_tensor *parameter = th_module_add_parameter(module, "weight", TH_SHAPE(p->elements));
    th_optimizer *adam =
        th_adam_w_new(module, &(th_adam_options){.learning_rate = 1e-3, .weight_decay = 0.1, .max_norm = max_norm});
    const double begin = now();
    for (int i = 0; i < 4 || now() - begin < seconds; i++) {
        if (th_backward(th_sum(parameter, TH_ALL_AXES, NULL), NULL))
            break;
        if (th_profile_begin(ctx, &(th_profile_options){.max_events = -1}) || th_optimizer_step(adam) ||
            th_profile_end(ctx))
            break;
        if (i > 0)
            take_profile(ctx, p, costs);
        th_tape_clear(ctx);
    }
    check(ctx);
    th_optimizer_free(adam);
    th_module_free(module);
    print_costs(name, p, costs);
}

static inputs inputs_new(th_context *ctx, int64_t rows)
{
    const th_shape shape = TH_SHAPE(rows, COLUMNS);
    inputs in = {.ctx = ctx};
    in.x = th_uniform(ctx, TH_FLOAT32, shape, 0.25, 0.75);
    in.a = th_uniform(ctx, TH_FLOAT32, shape, 0.25, 0.75);
    in.condition = th_zeros(ctx, TH_BOOL, shape);
    bool *condition = th_data(in.condition);
    for (int64_t i = 0; condition && i < rows * COLUMNS; i++)
        condition[i] = i * 7 % 16 < 12;
    in.index = th_random_integers(ctx, TH_INT32, TH_SHAPE(rows), 0, rows < COLUMNS ? rows : COLUMNS);
    in.weight = th_ones(ctx, TH_FLOAT32, TH_SHAPE(COLUMNS));
    in.bias = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(COLUMNS));
    th_set_requires_gradient(in.x, true);
    check(ctx);
    return in;
}

static void measure_all(const location *p)
{
    th_context *ctx = th_context_new(&(th_context_options){.threads = p->threads});
    if (ctx == NULL)
        give_up(program, "out of memory");
    const inputs in = inputs_new(ctx, p->elements / COLUMNS);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        measure(&operations[i], &in, p);
    measure_adam(ctx, "adam_w", 0, p);
    measure_adam(ctx, "adam_w, clipped", 1, p);
    th_context_free(ctx);
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, program, "elementwise: times operations on elements and rows", options);
    th_context *ctx = th_context_new(&(th_context_options){.threads = (int)threads});
    if (ctx == NULL || th_error_code(ctx))
        give_up(program, ctx ? th_error_message(ctx) : "out of memory");
    const int team = th_threads(ctx);
    th_context_free(ctx);
    printf("operation,phase,place,threads,ns,bytes,limit_ns,of_limit\n");
    measure_all(&(location){"cache", L2_FLOATS, 1, triad_gbs(L2_FLOATS, 1)});
    measure_all(&(location){"memory", largest / COLUMNS * COLUMNS, team, triad_gbs(DRAM_FLOATS, team)});
    return end_with_suggestion(program, argv[0], NULL, "probe", (const char *const[]){NULL});
}

/* Times scaled dot-product attention, forward and backward, for several shapes. In float32 it measures full and causal
 * attention, plain and with options: dropout, padding, a window, a soft cap, ALiBi. In the other precisions it measures
 * only plain causal attention.
 * q, k and v are views of one projection (B, T, 3, H, D), as in a layer. Prints CSV. of_causal is the time of forward
 * and backward, divided by the time of causal attention in float32. */
#include <tapehead/tapehead.h>

#include "measure.h"
#include "options.h"
#include "precision.h"
#include "suggest.h"

static const char program[] = "attention";
static int64_t threads, max = 4096;
static double seconds = 0.5;
static const program_option options[] = {
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"seconds", "for each measurement", .real = &seconds, .low = 0, .high = 100},
    {"length", "skip shapes with longer sequences", .integer = &max, .low = 1, .high = 1e6},
    {0},
};

typedef struct {
    int64_t batch, heads, length, size;
} shape;
static const shape shapes[] = {
    {32, 4, 16, 16}, {4, 12, 64, 64}, {12, 6, 256, 64}, {4, 12, 1024, 64}, {1, 8, 4096, 64}, {3, 5, 333, 80},
};

typedef struct {
    const char *name;
    th_causal causal;
    double dropout;
    bool padded;    /* half of the keys are valid, on average */
    int64_t window; /* keys that are visible to a query; 0: all */
    double soft_cap;
    bool alibi;
} variant;
/* Plain causal attention must come first: the others are compared with it. */
static const variant variants[] = {
    {"causal", .causal = TH_CAUSAL_TOP_LEFT},
    {"causal, dropout 0.1", .causal = TH_CAUSAL_TOP_LEFT, .dropout = 0.1},
    {"causal, padded", .causal = TH_CAUSAL_TOP_LEFT, .padded = true},
    {"causal, window 256", .causal = TH_CAUSAL_TOP_LEFT, .window = 256},
    {"causal, soft cap", .causal = TH_CAUSAL_TOP_LEFT, .soft_cap = 30},
    {"causal, ALiBi", .causal = TH_CAUSAL_TOP_LEFT, .alibi = true},
    {"full", .causal = TH_CAUSAL_NONE},
    {"full, dropout 0.1", .causal = TH_CAUSAL_NONE, .dropout = 0.1},
    {"full, padded", .causal = TH_CAUSAL_NONE, .padded = true},
};

typedef struct {
    double forward, backward; /* seconds; the minimum of several runs */
} cost;

static th_tensor *head(th_tensor *packed, int64_t which) /* (B, T, 3, H, D) -> (B, H, T, D) */
{
    return th_swap_axes(th_select(packed, 2, which), 1, 2);
}

/* Returns lengths (B) from a quarter to three quarters of the full length. */
static th_tensor *lengths(th_context *ctx, const shape *s)
{
    th_tensor *valid = th_empty(ctx, TH_INT64, TH_SHAPE(s->batch));
    int64_t *length = th_data(valid);
    for (int64_t b = 0; length && b < s->batch; b++)
        length[b] = s->batch > 1 ? s->length / 4 + b * (s->length / 2) / (s->batch - 1) : s->length / 2;
    return valid;
}

static cost measure(th_context *ctx, const shape *s, const variant *v)
{
    th_tensor *packed = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(s->batch, s->length, 3, s->heads, s->size), -1, 1);
    th_tensor *dy = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(s->batch, s->heads, s->length, s->size), -1, 1);
    th_set_requires_gradient(packed, true);
    const th_mask mask = {.causal = v->causal,
                          .window = {v->window > 0, v->window - 1, -1},
                          .valid_lengths = v->padded ? lengths(ctx, s) : NULL};
    th_tensor *slopes = v->alibi ? th_uniform(ctx, TH_FLOAT32, TH_SHAPE(s->heads), 0.01, 0.5) : NULL;
    const th_attention_options attention = {
        .mask = &mask, .dropout = v->dropout, .soft_cap = v->soft_cap, .alibi = slopes};
    cost least = {1e300, 1e300};
    const double begin = now();
    for (int i = 0; i < 3 || now() - begin < seconds; i++) {
        const double start = now();
        th_tensor *y = th_scaled_dot_product_attention(head(packed, 0), head(packed, 1), head(packed, 2), &attention);
        const double middle = now();
        if (th_backward(y, &(th_backward_options){.cotangent = dy}))
            give_up(program, th_error_message(ctx));
        const double end = now();
        least.forward = middle - start < least.forward ? middle - start : least.forward;
        least.backward = end - middle < least.backward ? end - middle : least.backward;
        th_empty_gradient(packed); /* the next backward overwrites it, as in a layer */
        th_tape_clear(ctx);
    }
    th_tensor_free(mask.valid_lengths);
    th_tensor_free(slopes);
    th_tensor_free(packed);
    th_tensor_free(dy);
    return least;
}

/* Returns the rate of forward and backward together. Forward has two products of (T, D) by (D, T), backward has five.
 * Only visible pairs count: half of them if attention is causal, and only those in the window. */
static double gflops(const shape *s, const variant *v, cost c)
{
    const double length = (double)s->length,
                 beyond = v->window > 0 && v->window < s->length ? length - (double)v->window : 0;
    const double pairs =
        (double)(s->batch * s->heads) * (length * length * (v->causal ? 0.5 : 1) - beyond * beyond / 2);
    return 14 * pairs * (double)s->size / (c.forward + c.backward) * 1e-9;
}

static void print_cost(th_context *ctx, const shape *s, const variant *v, cost c, double of_causal)
{
    printf("%lld,%lld,%lld,%lld,\"%s\",%s,%d,%.4f,%.4f,", (long long)s->batch, (long long)s->heads,
           (long long)s->length, (long long)s->size, v->name, th_precision_name(th_precision_of(ctx)), th_threads(ctx),
           c.forward * 1e3, c.backward * 1e3);
    if (v->padded) /* the amount of work depends on the lengths */
        printf(",%.2f\n", of_causal);
    else
        printf("%.1f,%.2f\n", gflops(s, v, c), of_causal);
}

/* Measures every variant in float32 and the first one, plain causal attention, in every precision. */
static void print_shape(th_context *ctx, const shape *s)
{
    double causal = 0; /* seconds of both directions in float32 */
    for (int i = 0; i < PRECISIONS; i++) {
        if (th_set_precision(ctx, precisions[i]))
            give_up(program, th_error_message(ctx));
        const size_t count = precisions[i] == TH_PRECISION_FLOAT32 ? sizeof variants / sizeof *variants : 1;
        for (size_t j = 0; j < count; j++) {
            const cost c = measure(ctx, s, &variants[j]);
            if (causal == 0)
                causal = c.forward + c.backward;
            print_cost(ctx, s, &variants[j], c, (c.forward + c.backward) / causal);
        }
    }
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, program, "attention: forward and backward by shape", options);
    th_context *ctx = th_context_new(&(th_context_options){.threads = (int)threads});
    if (ctx == NULL || th_error_code(ctx))
        give_up(program, ctx ? th_error_message(ctx) : "out of memory");
    printf("batch,heads,length,size,variant,precision,threads,forward_ms,backward_ms,gflops,of_causal\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (shapes[i].length <= max)
            print_shape(ctx, &shapes[i]);
    th_context_free(ctx);
    return end_with_suggestion(program, argv[0], NULL, "elementwise", (const char *const[]){NULL});
}

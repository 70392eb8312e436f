/* Times matrix products of several shapes, with the native kernels in every precision and with OpenBLAS, on one
 * thread and on all threads. The shapes: layers of a GPT forward and backward, few rows, attention's skinny products
 * with their strides, and sizes that are not multiples of a tile. Prints CSV. (linear.c and linear.py compare forward
 * products and their errors with PyTorch's.) */
#include <tapehead/tapehead.h>

#include "measure.h"
#include "options.h"
#include "precision.h"
#include "suggest.h"

static const char program[] = "products";
static int64_t threads;
static double seconds = 0.2;
static const program_option options[] = {
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"seconds", "for each measurement", .real = &seconds, .low = 0, .high = 100},
    {0},
};

/* For a layer: x (rows, in), w (out, in), dy (rows, out). For attention: x (B, T, 3, H, D), which contains q, k and v,
 * and the weights w (B, H, T, T). */
typedef struct {
    th_context *ctx;
    th_tensor *x, *w, *dy;
} operands;

static th_tensor *forward(const operands *o) /* x wᵀ */
{
    return th_dense(o->x, o->w, NULL);
}

static th_tensor *input_gradient(const operands *o) /* dy w */
{
    return th_matmul(o->dy, o->w);
}

static th_tensor *weight_gradient(const operands *o) /* dyᵀ x */
{
    return th_matmul(th_swap_axes(o->dy, 0, 1), o->x);
}

static th_tensor *head(th_tensor *packed, int64_t which) /* (B, T, 3, H, D) -> (B, H, T, D) */
{
    return th_swap_axes(th_select(packed, 2, which), 1, 2);
}

static th_tensor *scores(const operands *o) /* q kᵀ */
{
    return th_matmul(head(o->x, 0), th_swap_axes(head(o->x, 1), -1, -2));
}

static th_tensor *mixture(const operands *o) /* weights v */
{
    return th_matmul(o->w, head(o->x, 2));
}

typedef th_tensor *product_form(const operands *o);
typedef struct {
    operands operands;
    product_form *form;
} measured;

static void run(void *what)
{
    const measured *m = what;
    if (m->form(&m->operands) == NULL)
        give_up(program, th_error_message(m->operands.ctx));
    th_tape_clear(m->operands.ctx);
}

/* Times `batch` products (m, k) (k, n); size: batch, m, n, k. */
static void print_product(const char *name, const char *form_name, product_form *form, const operands *o,
                          const char *backend, const int64_t size[4])
{
    const int64_t teams[] = {1, threads};
    measured m = {*o, form};
    for (int i = 0; i < (threads > 1 ? 2 : 1); i++) {
        if (th_set_threads(o->ctx, (int)teams[i]))
            give_up(program, th_error_message(o->ctx));
        const double time = least_seconds(run, &m, seconds);
        const double work = 2.0 * (double)size[0] * (double)size[1] * (double)size[2] * (double)size[3];
        printf("%s,%s,%lld,%lld,%lld,%lld,%s,%s,%lld,%.2f,%.1f\n", name, form_name, (long long)size[0],
               (long long)size[1], (long long)size[2], (long long)size[3], backend,
               th_precision_name(th_precision_of(o->ctx)), (long long)teams[i], time * 1e6, work / time * 1e-9);
    }
}

static th_tensor *random_tensor(th_context *ctx, th_shape shape)
{
    return th_uniform(ctx, TH_FLOAT32, shape, -1, 1);
}

static void free_operands(operands *o)
{
    th_tensor_free(o->x);
    th_tensor_free(o->w);
    th_tensor_free(o->dy);
}

static void print_layers(th_context *ctx, const char *backend)
{
    static const struct {
        const char *name;
        int64_t rows, in, out;
    } layers[] = {
        {"copyB qkv", 2048, 64, 192},
        {"char12 qkv", 3072, 384, 1152},
        {"char12 projection", 3072, 384, 384},
        {"char12 linear1", 3072, 384, 1536},
        {"char12 linear2", 3072, 1536, 384},
        {"gpt2s linear1", 256, 768, 3072},
        {"gpt2s classifier", 256, 768, 50257},
        {"gpt2l qkv", 4096, 768, 2304},
        {"gpt2l linear1", 4096, 768, 3072},
        {"gpt2l linear2", 4096, 3072, 768},
        {"few rows", 1, 768, 3072},
        {"few rows", 3, 768, 3072},
        {"few rows", 8, 768, 3072},
        {"few rows", 16, 768, 3072},
        {"odd", 997, 1009, 1013},
        {"tiny", 32, 64, 64},
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const int64_t rows = layers[i].rows, in = layers[i].in, out = layers[i].out;
        operands o = {ctx, random_tensor(ctx, TH_SHAPE(rows, in)), random_tensor(ctx, TH_SHAPE(out, in)),
                      random_tensor(ctx, TH_SHAPE(rows, out))};
        print_product(layers[i].name, "x wT", forward, &o, backend, (int64_t[]){1, rows, out, in});
        print_product(layers[i].name, "dy w", input_gradient, &o, backend, (int64_t[]){1, rows, in, out});
        print_product(layers[i].name, "dyT x", weight_gradient, &o, backend, (int64_t[]){1, out, in, rows});
        free_operands(&o);
    }
}

static void print_heads(th_context *ctx, const char *backend)
{
    static const struct {
        const char *name;
        int64_t batch, heads, length, size;
    } attentions[] = {
        {"copyA heads", 32, 4, 16, 16},   {"gpt2s heads", 4, 12, 64, 64}, {"char12 heads", 12, 6, 256, 64},
        {"gpt2l heads", 1, 12, 1024, 64}, {"odd heads", 2, 5, 333, 40},
    };
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) {
        const int64_t b = attentions[i].batch, h = attentions[i].heads, t = attentions[i].length,
                      d = attentions[i].size;
        operands o = {ctx, random_tensor(ctx, TH_SHAPE(b, t, 3, h, d)), random_tensor(ctx, TH_SHAPE(b, h, t, t)), NULL};
        print_product(attentions[i].name, "q kT", scores, &o, backend, (int64_t[]){b * h, t, t, d});
        print_product(attentions[i].name, "a v", mixture, &o, backend, (int64_t[]){b * h, t, d, t});
        free_operands(&o);
    }
}

static void print_products(const char *backend, th_precision precision)
{
    setenv("TAPEHEAD_GEMM", backend, 1);
    th_context *ctx = th_context_new(&(th_context_options){.threads = (int)threads, .precision = precision});
    if (ctx == NULL || th_error_code(ctx)) { /* OpenBLAS or the native kernels are not available */
        fprintf(stderr, "%s: skipping %s: %s\n", program, backend, ctx ? th_error_message(ctx) : "out of memory");
        th_context_free(ctx);
        return;
    }
    threads = th_threads(ctx);
    th_no_grad_begin(ctx);
    print_layers(ctx, backend);
    print_heads(ctx, backend);
    th_no_grad_end(ctx);
    th_context_free(ctx);
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, program, "products: times matrix products by shape, backend and precision", options);
    printf("product,form,batch,m,n,k,backend,precision,threads,us,gflops\n");
    for (int i = 0; i < PRECISIONS; i++)
        print_products("native", precisions[i]);
    print_products("openblas", TH_PRECISION_FLOAT32);
    return end_with_suggestion(program, argv[0], NULL, "attention", (const char *const[]){NULL});
}

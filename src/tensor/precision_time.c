/* Measures how long products take in a precision, relative to float32. */
#include <string.h>

#include "kernels/dtype.h"
#include "kernels/products/product.h"
#include "kernels/sizes.h"
#include "platform/system.h"
#include "tensor/context_struct.h"
#include "tensor/error.h"
#include "tensor/memory.h"

enum {
    WIDTH = 256,     /* of x and of y */
    ROWS = 256,      /* of x, as in training; int8 multiplies one row, as in generation */
    ROUNDS = 7,      /* both precisions alternate, and the least time of each counts */
    ROW_REPEATS = 40 /* products of one row in a round: a single one is too short to be measured */
};

/* The operands of y = x Wᵀ, and scratch memory. */
typedef struct operands {
    float *x, *y; /* (ROWS, WIDTH) */
    void *w;      /* (WIDTH, WIDTH): float32, or q8_0 for int8 */
    char *workspace;
    size_t bytes; /* of all */
} operands;

static th_product product_of(const operands *o, bool quantized)
{
    return (th_product){.m = quantized ? 1 : ROWS,
                        .n = WIDTH,
                        .k = WIDTH,
                        .a = o->x,
                        .a_row = WIDTH,
                        .a_col = 1,
                        .b = o->w,
                        .b_row = 1,
                        .b_col = WIDTH,
                        .b_storage = quantized ? TH_Q8_0 : (th_dtype)0,
                        .c = o->y,
                        .c_row = WIDTH,
                        .c_col = 1};
}

static size_t workspace_bytes(const th_machine *machine, bool quantized)
{
    const operands none = {.x = NULL};
    const th_product product = product_of(&none, quantized);
    return th_product_workspace(machine, TH_FLOAT32, &product, 1);
}

/* Allocates the operands for both machines and fills them with small numbers. Returns false without memory. */
static bool allocate_operands(th_context *ctx, operands *o, const th_machine *machine, bool quantized)
{
    const size_t first = workspace_bytes(&machine[0], quantized), second = workspace_bytes(&machine[1], quantized);
    const size_t numbers = sizeof(float) * ROWS * WIDTH, weights = sizeof(float) * WIDTH * WIDTH;
    o->bytes = 2 * numbers + weights + (first > second ? first : second) + TH_ALIGNMENT;
    o->x = th_allocate(ctx, o->bytes);
    if (o->x == NULL)
        return false;
    o->y = o->x + (size_t)ROWS * WIDTH;
    o->w = o->y + (size_t)ROWS * WIDTH;
    o->workspace = (char *)o->w + weights;
    o->workspace += (TH_ALIGNMENT - (uintptr_t)o->workspace % TH_ALIGNMENT) % TH_ALIGNMENT;
    for (int i = 0; i < ROWS * WIDTH; i++)
        o->x[i] = (float)(i * 7 % 31 - 15) / 16;
    if (!quantized) {
        memcpy(o->w, o->x, weights);
        return true;
    }
    const size_t block_bytes = th_dtype_size(TH_Q8_0); /* a scale in float16, then the numbers */
    const uint16_t scale = 0x2400;                     /* 2^-6 */
    for (size_t i = 0; i < WIDTH * WIDTH / TH_BLOCK_NUMBERS; i++) {
        char *block = (char *)o->w + i * block_bytes;
        memcpy(block, &scale, sizeof scale);
        for (size_t j = sizeof scale; j < block_bytes; j++)
            block[j] = (char)((i + j) * 7 % 100);
    }
    return true;
}

/* Returns the nanoseconds of a round of products. */
static double round_time(const th_machine *machine, const operands *o, bool quantized)
{
    const th_product product = product_of(o, quantized);
    const int64_t start = th_nanoseconds_now();
    for (int i = 0; i < (quantized ? ROW_REPEATS : 1); i++)
        th_product_run(machine, TH_FLOAT32, &product, 1, o->workspace);
    return (double)(th_nanoseconds_now() - start);
}

static double relative_time(const th_machine *machine, const operands *o, bool quantized)
{
    double least[2] = {0, 0};
    for (int i = 0; i < 2 * ROUNDS; i++) {
        const double time = round_time(&machine[i % 2], o, quantized);
        if (i < 2 || time < least[i % 2])
            least[i % 2] = time;
    }
    return least[0] > 0 && least[1] > 0 ? least[1] / least[0] : 1;
}

double th_precision_time(th_context *ctx, th_precision precision)
{
    if (ctx == NULL)
        return 0;
    th_machine machine[2] = {ctx->machine, ctx->machine};
    if (!th_machine_set_precision(&machine[0], TH_PRECISION_FLOAT32) ||
        !th_machine_set_precision(&machine[1], precision)) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "precision_time", "the precision must be " TH_PRECISIONS "; it is %d",
                (int)precision);
        return 0;
    }
    double *time = &ctx->precision_time[precision];
    if (precision == TH_PRECISION_FLOAT32 || ctx->options.shapes_only)
        return 1;
    if (*time > 0)
        return *time;
    operands o;
    const bool quantized = precision == TH_PRECISION_INT8;
    if (!allocate_operands(ctx, &o, machine, quantized)) {
        th_fail(ctx, TH_ERROR_MEMORY, "precision_time", "no memory for %zu bytes of a measurement", o.bytes);
        return 0;
    }
    *time = relative_time(machine, &o, quantized);
    th_release(ctx, o.x, o.bytes);
    return *time;
}

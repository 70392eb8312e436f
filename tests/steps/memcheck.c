/* memcheck: runs operations of odd sizes, and steps of small models, in every precision. memcheck.sh runs it under
 * valgrind. Every byte of a result decides a branch here, so that valgrind reports an uninitialized byte. */
#include <stdio.h>
#include <string.h>

#include "tapehead/models.h"

enum { B = 2, HEADS = 2, SIZES = 5, VOCABULARY = 19, LENGTH = 7 };

static unsigned sum;

/* Reads every byte of a result. */
static void read_bytes(th_tensor *t)
{
    static unsigned char bytes[1 << 18];
    const size_t size = t ? (size_t)th_numel(t) * th_dtype_size(th_dtype_of(t)) : 0;
    if (t == NULL || size > sizeof bytes || th_copy_out(t, bytes, size))
        return;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] & 1)
            sum++;
}

static th_tensor *random_leaf(th_context *ctx, th_dtype dtype, th_shape shape)
{
    return th_set_requires_gradient(th_randn(ctx, dtype, shape), true);
}

/* Runs attention. The sizes fill a register in part, or leave one column over. */
static void attend(th_context *ctx, th_dtype dtype, int64_t queries, int64_t keys, int64_t width, int64_t group)
{
    th_tensor *q = random_leaf(ctx, dtype, TH_SHAPE(B, group * HEADS, queries, width));
    th_tensor *k = random_leaf(ctx, dtype, TH_SHAPE(B, HEADS, keys, width));
    th_tensor *v = random_leaf(ctx, dtype, TH_SHAPE(B, HEADS, keys, width + 1));
    th_tensor *lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(B), (int64_t[]){keys, keys / 2});
    const th_mask masks[] = {
        {.causal = TH_CAUSAL_BOTTOM_RIGHT}, {.valid_lengths = lengths}, {.window = TH_WINDOW(3, 2)}, {0}};
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        th_tensor *lse = NULL;
        const th_attention_options options = {.mask = &masks[m], .soft_cap = m == 2 ? 3 : 0, .log_sum_exp = &lse};
        th_tensor *o = th_scaled_dot_product_attention(q, k, v, &options);
        read_bytes(o);
        read_bytes(lse);
        if (th_backward(th_sum(th_mul(o, o), TH_ALL_AXES, NULL), NULL))
            return;
        read_bytes(th_gradient(q));
        read_bytes(th_gradient(k));
        read_bytes(th_gradient(v));
        th_tape_clear(ctx);
    }
}

/* Runs y = x Wᵀ + b + residual with `rows` rows. */
static void multiply(th_context *ctx, th_dtype dtype, int64_t rows, int64_t in, int64_t out)
{
    th_tensor *x = random_leaf(ctx, dtype, TH_SHAPE(rows, in)), *w = random_leaf(ctx, dtype, TH_SHAPE(out, in));
    th_tensor *bias = random_leaf(ctx, dtype, TH_SHAPE(out)), *residual = random_leaf(ctx, dtype, TH_SHAPE(rows, out));
    th_tensor *y = th_dense(x, w, &(th_dense_options){bias, residual});
    read_bytes(y);
    th_tensor *z = th_matmul(y, w);
    read_bytes(z);
    if (th_backward(th_sum(th_gelu(z), TH_ALL_AXES, NULL), NULL))
        return;
    read_bytes(th_gradient(x));
    read_bytes(th_gradient(w));
    read_bytes(th_gradient(bias));
    th_tape_clear(ctx);
}

/* Trains for two steps. Then generates tokens with a cache. */
static void train(th_context *ctx, bool llama)
{
    const th_language_model_options gpt2 = {
        VOCABULARY, LENGTH, .width = 20, .heads = 2, .layers = 2, .dropout = 0.1, .block = {.recompute = true}};
    const th_language_model_options other = {VOCABULARY,
                                             LENGTH,
                                             .width = 24,
                                             .heads = 4,
                                             .layers = 1,
                                             .positions = TH_POSITIONS_NONE,
                                             .untied = true,
                                             .block = {.norm = TH_RMS_NORM,
                                                       .gated = true,
                                                       .activation = TH_SILU,
                                                       .no_bias = true,
                                                       .kv_heads = 2,
                                                       .scores = {.rotary = true, .qk_norm = true, .window = 4}}};
    th_module *model = th_language_model_new(ctx, llama ? &other : &gpt2);
    th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-3, .max_norm = 1});
    th_tensor *tokens = th_random_integers(ctx, TH_INT32, TH_SHAPE(B, LENGTH), 0, VOCABULARY);
    th_tensor *targets = th_random_integers(ctx, TH_INT32, TH_SHAPE(B, LENGTH), 0, VOCABULARY);
    for (int i = 0; i < 2; i++) {
        th_tensor *loss = th_language_model_loss(model, tokens, targets, NULL);
        read_bytes(loss);
        if (th_backward(loss, NULL) || th_optimizer_step(adam))
            return;
        th_tape_clear(ctx);
    }
    sum += th_module_crc32c(model);
    th_tensor *prompts = th_slice(tokens, 1, 0, 2, 1);
    th_generated text;
    if (th_generate(model, &(th_generate_options){.prompts = prompts, .max_new_tokens = 3, .temperature = 1}, &text))
        return;
    read_bytes(text.tokens);
    th_tape_clear(ctx);
}

int main(void)
{
    static const int64_t sizes[SIZES][4] = {{1, 1, 1, 1}, {1, 9, 5, 2}, {7, 3, 8, 1}, {13, 37, 17, 2}, {5, 70, 9, 1}};
    for (int p = TH_PRECISION_FLOAT32; p <= TH_PRECISION_BFLOAT16 + 1; p++) {
        const bool float64 = p > TH_PRECISION_BFLOAT16;
        const th_dtype dtype = float64 ? TH_FLOAT64 : TH_FLOAT32;
        th_context *ctx =
            th_context_new(&(th_context_options){.seed = 1,
                                                 .threads = 1,
                                                 .default_dtype = dtype,
                                                 .precision = float64 ? TH_PRECISION_FLOAT32 : (th_precision)p});
        for (int fusion = 0; fusion < 2; fusion++) {
            th_set_fusion(ctx, fusion);
            for (int i = 0; i < SIZES; i++)
                attend(ctx, dtype, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
            train(ctx, fusion);
        }
        multiply(ctx, dtype, 1, 515, 33);
        multiply(ctx, dtype, 3, 70, 17);
        multiply(ctx, dtype, 30, 65, 5);
        if (th_error_code(ctx) != TH_OK) {
            fprintf(stderr, "memcheck: %s\n", th_error_message(ctx));
            return 1;
        }
        th_context_free(ctx);
    }
    printf("%u\n", sum);
    return 0;
}

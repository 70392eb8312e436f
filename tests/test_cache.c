/* The cache of keys and values: a model that is given its tokens piece by piece gives the same bits as for the whole
 * sequence. B sequences, T tokens, V vocabulary. */
#include <math.h>
#include <string.h>

#include "memory.h"
#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
    th_set_training(ctx, false);
}

enum { B = 3, T = 9, V = 13, CAPACITY = 11 };

static const th_language_model_options models[] = {
    {.vocabulary = V, .length = 12, .width = 24, .heads = 3, .layers = 2, .dropout = 0.5},
    {.vocabulary = V,
     .length = 12,
     .width = 24,
     .heads = 4,
     .layers = 2,
     .positions = TH_POSITIONS_SINUSOIDAL,
     .block = {.post_norm = true, .kv_heads = 2, .activation = TH_RELU}},
};
enum { MODELS = sizeof models / sizeof *models };

static th_tensor *tokens_new(int64_t rows, int64_t length)
{
    int32_t token[B * T];
    for (int i = 0; i < rows * length; i++)
        token[i] = (i * 7 + i / 4) % V;
    return th_from_data(ctx, TH_INT32, TH_SHAPE(rows, length), token);
}

/* OpenBLAS's bits depend on the shape of a product; ours do not (contract 6). */
static bool same_logits(const float *a, const float *b)
{
    if (strstr(th_build_info(ctx), "gemm=native"))
        return memcmp(a, b, V * sizeof *a) == 0;
    for (int i = 0; i < V; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5F))
            return false;
    return true;
}

static void copy_out(th_tensor *t, float *to, int64_t count)
{
    no_error();
    ck_assert_int_eq(th_numel(t), count);
    ck_assert_int_eq(th_copy_out(t, to, (size_t)count * sizeof *to), TH_OK);
}

/* Logits of tokens [first, first + count) of every row of all, which start at place[b]. */
static void run_piece(th_module *model, th_cache *cache, const int32_t *all, int64_t rows, int64_t first, int64_t count,
                      th_dtype type, float *logits)
{
    int32_t token[B * T];
    int64_t place[B * T];
    for (int64_t b = 0; b < rows; b++)
        for (int64_t t = 0; t < count; t++) {
            token[b * count + t] = all[b * T + first + t];
            place[b * count + t] = first + t;
        }
    th_tensor *piece = th_from_data(ctx, TH_INT32, TH_SHAPE(rows, count), token);
    th_tensor *positions = th_cast(th_from_data(ctx, TH_INT64, TH_SHAPE(rows, count), place), type);
    th_language_model_logits_options options = {.cache = cache, .positions = first == 0 ? NULL : positions};
    copy_out(th_language_model_logits(model, piece, &options), logits, rows * count * V);
    th_tape_clear(ctx);
}

START_TEST(pieces_have_the_bits_of_the_whole)
{
    static const int64_t cuts[][T + 1] = {{1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 1, 1, 1, 1, 1}, {5, 4}, {2, 3, 1, 3}, {9}};
    th_set_fusion(ctx, _i % 2 == 0);
    th_module *model = th_language_model_new(ctx, &models[_i / 2 % MODELS]);
    th_tensor *tokens = tokens_new(B, T);
    static float whole[B * T * V], piece[B * T * V];
    th_no_grad_begin(ctx);
    copy_out(th_module_forward(model, tokens), whole, B * T * V);
    th_cache *cache = th_cache_new(model, B, CAPACITY);
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        int64_t first = 0;
        for (int i = 0; cuts[c][i]; i++) {
            const int64_t count = cuts[c][i];
            run_piece(model, cache, th_data_const(tokens), B, first, count, c % 2 ? TH_INT32 : TH_INT64, piece);
            for (int64_t b = 0; b < B; b++)
                for (int64_t t = 0; t < count; t++)
                    ck_assert_msg(same_logits(&whole[(b * T + first + t) * V], &piece[(b * count + t) * V]),
                                  "way %zu, sequence %d, token %d", c, (int)b, (int)(first + t));
            first += count;
        }
        ck_assert_int_eq(first, T);
    }
    th_no_grad_end(ctx);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("cache", setup, close_context);
    tcase_add_loop_test(tests, pieces_have_the_bits_of_the_whole, 0, 2 * MODELS);
    return run_suites();
}

/* The block formats of GGUF files, and models whose tensors have several of them. */
#include "models/core/kernels.h"
#include "tapehead/gguf.h"
#include "tapehead/tape.h"

#include "../../fixtures/gguf_blocks/blocks.h"
#include "gguf_parts.h"

#include "context.h"

static void setup(void)
{
    make_folder();
    ctx = th_context_new(&(th_context_options){.threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

#define FORMAT(code, name)                                                                                             \
    {                                                                                                                  \
        code, TH_##name, name##_blocks, sizeof name##_blocks, name##_numbers, sizeof name##_numbers / sizeof(uint32_t) \
    }
static const struct {
    uint32_t code;
    th_dtype dtype;
    const uint8_t *blocks;
    size_t bytes;
    const uint32_t *numbers;
    size_t count;
} formats[] = {FORMAT(3, Q4_1),  FORMAT(6, Q5_0),  FORMAT(7, Q5_1),  FORMAT(20, IQ4_NL), FORMAT(10, Q2_K),
               FORMAT(11, Q3_K), FORMAT(12, Q4_K), FORMAT(13, Q5_K), FORMAT(14, Q6_K),   FORMAT(23, IQ4_XS)};
enum { FORMATS = sizeof formats / sizeof *formats };

/* The package gguf computed the numbers. */
START_TEST(numbers_are_those_of_gguf)
{
    for (int i = 0; i < FORMATS; i++) {
        const size_t size = th_dtype_size(formats[i].dtype), blocks = formats[i].bytes / size;
        ck_assert_uint_eq(formats[i].bytes % size, 0);
        ck_assert_uint_eq(formats[i].count, blocks * (size_t)th_dtype_numbers(formats[i].dtype));
        th_tensor *t = th_from_data(ctx, formats[i].dtype, TH_SHAPE((int64_t)blocks), formats[i].blocks);
        const float *number = th_data_const(th_cast(t, TH_FLOAT32));
        const double *full = th_data_const(th_cast(t, TH_FLOAT64));
        no_error();
        for (size_t k = 0; k < formats[i].count; k++) {
            ck_assert_msg(memcmp(&number[k], &formats[i].numbers[k], sizeof number[k]) == 0, "%s, number %zu",
                          th_dtype_name(formats[i].dtype), k);
            ck_assert(full[k] == (double)number[k]);
        }
    }
}
END_TEST

static gguf_parts parts;
static uint8_t *elements; /* of the tensor token_embd.weight */

enum { TOKENS = 8, WIDTH = 256 };

/* Writes a file whose embedding has the format: its rows are the blocks of the fixture, again and again. */
static void write_file(int i)
{
    const th_language_model_options o = {.vocabulary = TOKENS,
                                         .length = 8,
                                         .layers = 1,
                                         .heads = 4,
                                         .width = WIDTH,
                                         .positions = TH_POSITIONS_NONE,
                                         .block = {.norm = TH_RMS_NORM,
                                                   .gated = true,
                                                   .activation = TH_SILU,
                                                   .mlp_width = 64,
                                                   .no_bias = true,
                                                   .scores = {.rotary = true, .rotary_pairing = TH_ROTARY_HALVES}}};
    th_module *model = th_language_model_new(ctx, &o);
    no_error();
    ck_assert_int_eq(
        th_language_model_export_gguf(model, in_folder("a.gguf"), &(th_gguf_export_options){.architecture = "llama"}),
        TH_OK);
    gguf_read(in_folder("a.gguf"), &parts);
    gguf_tensor *t = gguf_find_tensor(&parts, "token_embd.weight");
    t->count = TOKENS * WIDTH / (size_t)th_dtype_numbers(formats[i].dtype) * th_dtype_size(formats[i].dtype);
    t->elements = (const char *)elements;
    t->type = formats[i].code;
    for (size_t k = 0; k < t->count; k++)
        elements[k] = formats[i].blocks[k % formats[i].bytes];
    gguf_place(&parts);
    gguf_write(in_folder("b.gguf"), &parts);
}

/* Returns a model of the file. Its embedding has this type and the numbers of the blocks. */
static th_module *load(int i, th_gguf_load_options given, th_dtype dtype)
{
    th_module *model = th_language_model_from_gguf(ctx, in_folder("b.gguf"), &given);
    no_error();
    th_tensor *embedding = th_module_find_parameter(model, "embedding.weight");
    ck_assert_int_eq(th_dtype_of(embedding), dtype);
    ck_assert_int_eq(th_numel(embedding) * th_dtype_numbers(dtype), TOKENS * WIDTH);
    const uint32_t *bits = th_data_const(th_cast(embedding, TH_FLOAT32));
    for (size_t at = 0; at < TOKENS * WIDTH; at++)
        ck_assert_uint_eq(bits[at], formats[i].numbers[at % formats[i].count]);
    return model;
}

/* Returns the loss on some tokens, and the gradient of the last norm, which comes through the tied output. */
static double loss_and_gradient(th_module *model, th_tensor **gradient)
{
    static const int32_t tokens[] = {1, 7, 3, 0, 5, 2, 6};
    th_tensor *x = th_from_data(ctx, TH_INT32, TH_SHAPE(1, 6), tokens),
              *y = th_from_data(ctx, TH_INT32, TH_SHAPE(1, 6), tokens + 1);
    th_tensor *norm = th_module_find_parameter(model, "norm.weight");
    ck_assert_ptr_nonnull(th_set_requires_gradient(norm, true));
    th_tensor *loss = th_language_model_loss(model, x, y, NULL);
    no_error();
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    *gradient = th_keep(th_gradient(norm));
    return th_item(loss);
}

/* Models for training and frozen models have the numbers of the blocks in float32. Stored models have the blocks: the
 * file is mapped, and the loss and the gradient have the same bits. */
START_TEST(models_have_the_numbers)
{
    elements = calloc(TOKENS * WIDTH, 4);
    for (int i = 0; i < FORMATS; i++) {
        write_file(i);
        th_tensor *gradient[2];
        th_module_free(load(i, (th_gguf_load_options){.frozen = true}, TH_FLOAT32));
        th_module *plain = load(i, (th_gguf_load_options){.stored = false}, TH_FLOAT32);
        const size_t before = th_memory(ctx).mapped;
        th_module *stored = load(i, (th_gguf_load_options){.stored = true}, formats[i].dtype);
        ck_assert_uint_ge(th_memory(ctx).mapped - before, gguf_find_tensor(&parts, "token_embd.weight")->count);
        ck_assert(loss_and_gradient(plain, &gradient[0]) == loss_and_gradient(stored, &gradient[1]));
        ck_assert_mem_eq(th_data_const(gradient[0]), th_data_const(gradient[1]), WIDTH * sizeof(float));
        for (int k = 0; k < 2; k++)
            th_tensor_free(gradient[k]);
        th_module_free(plain);
        th_module_free(stored);
        th_tape_clear(ctx);
        gguf_free(&parts);
    }
    free(elements);
}
END_TEST

/* Each scale of a block must be finite. */
START_TEST(scales_are_finite)
{
    elements = calloc(TOKENS * WIDTH, 4);
    for (int i = 0; i < FORMATS; i++) {
        const th_block_format *f = th_block_format_of(formats[i].dtype);
        const int bytes = (int)th_dtype_size(formats[i].dtype);
        write_file(i);
        for (int k = 0; k < f->scales; k++) {
            uint8_t *high = &elements[2 * bytes + f->scale + 2 * k + 1], kept = *high;
            *high = 0x7c;
            gguf_write(in_folder("b.gguf"), &parts);
            *high = kept;
            ck_assert_ptr_null(th_language_model_from_gguf(ctx, in_folder("b.gguf"), NULL));
            expect_error(TH_ERROR_FILE, "the scale of block 2 of token_embd.weight is infinite or NaN");
        }
        gguf_free(&parts);
    }
    free(elements);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("gguf_blocks", setup, teardown);
    tcase_add_test(tests, numbers_are_those_of_gguf);
    tcase_add_test(tests, models_have_the_numbers);
    tcase_add_test(tests, scales_are_finite);
    return run_suites();
}

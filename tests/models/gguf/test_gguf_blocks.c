/* The block formats of GGUF files, and models whose tensors have several of them. */
#include "models/core/kernels.h"
#include "tapehead/gguf.h"

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
        code, #name, name##_blocks, sizeof name##_blocks, name##_numbers, sizeof name##_numbers / sizeof(uint32_t)     \
    }
static const struct {
    uint32_t code;
    const char *name;
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
        const th_block_format *f = th_block_format_find(formats[i].name);
        float number[512];
        ck_assert_ptr_nonnull(f);
        ck_assert_uint_eq(formats[i].bytes % (size_t)f->bytes, 0);
        const size_t blocks = formats[i].bytes / (size_t)f->bytes;
        ck_assert_uint_eq(formats[i].count, blocks * (size_t)f->numbers);
        th_block_format_unpack(f, (int64_t)blocks, formats[i].blocks, number);
        for (size_t k = 0; k < formats[i].count; k++)
            ck_assert_msg(memcmp(&number[k], &formats[i].numbers[k], sizeof number[k]) == 0, "%s, number %zu",
                          formats[i].name, k);
    }
    ck_assert_ptr_null(th_block_format_find("IQ2_S"));
    ck_assert_ptr_null(th_block_format_find("Q8_0"));
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
    const th_block_format *f = th_block_format_find(formats[i].name);
    t->count = (size_t)(TOKENS * WIDTH / f->numbers * f->bytes);
    t->elements = (const char *)elements;
    t->type = formats[i].code;
    for (size_t k = 0; k < t->count; k++)
        elements[k] = formats[i].blocks[k % formats[i].bytes];
    gguf_place(&parts);
    gguf_write(in_folder("b.gguf"), &parts);
}

/* Models for training, frozen and stored models have the numbers of the blocks. */
START_TEST(models_have_the_numbers)
{
    static const th_gguf_load_options given[] = {{.stored = false}, {.stored = true}, {.frozen = true}};
    elements = calloc(TOKENS * WIDTH, 4);
    for (int i = 0; i < FORMATS; i++) {
        write_file(i);
        for (int k = 0; k < 3; k++) {
            th_module *model = th_language_model_from_gguf(ctx, in_folder("b.gguf"), &given[k]);
            no_error();
            const th_tensor *embedding = th_module_find_parameter(model, "embedding.weight");
            ck_assert(th_dtype_of(embedding) == TH_FLOAT32 && th_numel(embedding) == TOKENS * WIDTH);
            const uint32_t *bits = th_data_const(embedding);
            for (size_t at = 0; at < TOKENS * WIDTH; at++)
                ck_assert_uint_eq(bits[at], formats[i].numbers[at % formats[i].count]);
            th_module_free(model);
        }
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
        const th_block_format *f = th_block_format_find(formats[i].name);
        write_file(i);
        for (int k = 0; k < f->scales; k++) {
            uint8_t *high = &elements[2 * f->bytes + f->scale + 2 * k + 1], kept = *high;
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

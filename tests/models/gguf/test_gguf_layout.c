/* Other layouts of a GGUF file than the library writes: entries in another order, other types of values, other
 * alignments. Every value is needed, or has its default; every value of a wrong type is refused by its key. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "models/gguf/file.h"
#include "tapehead/models.h"

#include "gguf_parts.h"

#include "written_models.h"

static gguf_parts parts;
static uint32_t bits; /* of the model in the file */

static const th_language_model_options qwen2 = {SIZES, .positions = TH_POSITIONS_NONE, .layers = 2,
                                                .block = {BLOCK, .eps = 1e-6, .no_output_bias = true,
                                                          .no_mlp_bias = true, .kv_heads = 2,
                                                          .scores = {HALVES, .rotary_base = 1e6}}};

/* Writes a model to a.gguf and takes the file apart. */
static void setup_file(void)
{
    setup();
    th_module *model = model_of(ctx, &qwen2);
    bits = th_module_crc32c(model);
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("a.gguf"), NULL), TH_OK);
    gguf_read(in_folder("a.gguf"), &parts);
}

static void teardown_file(void)
{
    gguf_free(&parts);
    teardown();
}

static th_module *load(void)
{
    gguf_write(in_folder("b.gguf"), &parts);
    return th_language_model_from_gguf(ctx, in_folder("b.gguf"), NULL);
}

/* Checks that the parts make the same model. */
static void expect_same_model(const char *what)
{
    th_module *model = load();
    ck_assert_msg(model != NULL, "%s: %s", what, th_error_message(ctx));
    ck_assert_msg(th_module_crc32c(model) == bits, "%s: another model", what);
    const th_language_model_options *o = th_language_model_options_of(model);
    ck_assert_msg(o->length == LENGTH && o->block.kv_heads == 2 && o->block.eps == 1e-6 &&
                      o->block.scores.rotary_base == 1e6,
                  "%s: other options", what);
    th_module_free(model);
}

/* Checks that the parts are refused, by a message with the file's name and these words. */
static void expect_refused(const char *words)
{
    ck_assert_msg(load() == NULL, "no error, instead of \"%s\"", words);
    ck_assert_ptr_nonnull(strstr(th_error_message(ctx), "b.gguf: "));
    expect_error(TH_ERROR_FILE, words);
}

/* -- the order of entries -- */

static uint64_t state = 7;

static int below(uint64_t count)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % count);
}

#define SHUFFLE(array, count)                                                                                          \
    for (uint64_t i = (count); i > 1; i--) {                                                                           \
        const int j = below(i);                                                                                        \
        const __typeof__((array)[0]) kept = (array)[j];                                                                \
        (array)[j] = (array)[i - 1];                                                                                   \
        (array)[i - 1] = kept;                                                                                         \
    }

START_TEST(entries_in_any_order)
{
    expect_same_model("the same file");
    expect_same_files(in_folder("a.gguf"), in_folder("b.gguf"));
    for (int n = 0; n < 20; n++) {
        SHUFFLE(parts.value, parts.n_values)
        if (n % 2 == 0)
            SHUFFLE(parts.tensor, parts.n_tensors)
        if (n % 3 != 0)
            SHUFFLE(parts.place, parts.n_tensors)
        gguf_place(&parts);
        expect_same_model("another order");
    }
}
END_TEST

START_TEST(other_versions_and_alignments)
{
    static const uint32_t alignments[] = {1, 2, 8, 32, 64, 4096, 1 << 20};
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        parts.version = 2 + i % 2;
        parts.alignment = alignments[i];
        gguf_set(&parts, "general.alignment", UINT32, &alignments[i], sizeof alignments[i]);
        gguf_place(&parts);
        expect_same_model("another alignment");
    }
    static const uint32_t wrong[] = {0, 3, 48, (1 << 20) + 1, 1 << 21};
    static const char *const words[] = {"is 0;", "is 3, which is not a power of two", "is 48, which", "is 1048577;",
                                        "is 2097152; it must be in [1, 1048576]"};
    parts.alignment = 32;
    gguf_place(&parts);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gguf_set(&parts, "general.alignment", UINT32, &wrong[i], sizeof wrong[i]);
        expect_refused(words[i]);
    }
}
END_TEST

START_TEST(tensors_in_wrong_places)
{
    gguf_tensor *second = gguf_find_tensor(&parts, "blk.1.attn_norm.weight");
    const uint64_t right = second->offset;
    char words[96];
    second->offset = right + 4;
    snprintf(words, sizeof words,
             "blk.1.attn_norm.weight begins at byte %llu of the elements, which is not a multiple of 32",
             (unsigned long long)(right + 4));
    expect_refused(words);
    second->offset = right - 32;
    expect_refused("overlaps the tensor before it");
    second->offset = gguf_find_tensor(&parts, "token_embd.weight")->offset;
    expect_refused("overlaps the tensor before it");
    second->offset = 1 << 30;
    expect_refused("blk.1.attn_norm.weight");
}
END_TEST

/* A file may end behind its last element, and not before. */
START_TEST(the_end_of_the_file)
{
    gguf_tensor *last = &parts.tensor[parts.n_tensors - 1];
    size_t numbers = 1, bytes;
    for (uint32_t i = 0; i < last->axes; i++)
        numbers *= last->size[i];
    ck_assert_uint_eq(last->type, 0); /* F32 */
    free(read_bytes(in_folder("a.gguf"), &bytes));
    const size_t end = bytes - last->count + numbers * sizeof(float);
    ck_assert_int_eq(truncate(in_folder("a.gguf"), (off_t)end), 0);
    ck_assert_ptr_nonnull(th_language_model_from_gguf(ctx, in_folder("a.gguf"), NULL));
    ck_assert_int_eq(truncate(in_folder("a.gguf"), (off_t)end - 1), 0);
    ck_assert_ptr_null(th_language_model_from_gguf(ctx, in_folder("a.gguf"), NULL));
    char words[96];
    snprintf(words, sizeof words, "the file is truncated: it has %zu bytes, and %s needs %zu", end - 1, last->name,
             numbers * sizeof(float));
    expect_error(TH_ERROR_FILE, words);
}
END_TEST

/* -- types of values -- */

static size_t put_integer(uint32_t kind, int64_t value, char bytes[8])
{
    memcpy(bytes, &value, 8); /* (little-endian) */
    return gguf_size_of(kind);
}

static const uint32_t integers[] = {UINT8, INT8, UINT16, INT16, UINT32, INT32, UINT64, INT64};

/* Every integer may have any integer type that holds it. */
START_TEST(integers_of_any_type)
{
    char bytes[8];
    for (size_t type = 0; type < sizeof integers / sizeof *integers; type++)
        for (uint64_t i = 0; i < parts.n_values; i++) {
            const gguf_value kept = parts.value[i];
            uint32_t value;
            if (kept.kind != UINT32)
                continue;
            memcpy(&value, kept.bytes, sizeof value);
            ck_assert_uint_lt(value, 128);
            parts.value[i].kind = integers[type];
            parts.value[i].bytes = bytes;
            parts.value[i].count = put_integer(integers[type], value, bytes);
            expect_same_model(kept.key);
            parts.value[i] = kept;
        }
}
END_TEST

/* The sign of an integer depends on its type. */
START_TEST(signs_of_integers)
{
    static const char *const words[] = {"255",        "is -1;", "65535",   "is -1;",
                                        "4294967295", "is -1;", "integer", "is -1;"};
    char bytes[8];
    for (size_t type = 0; type < sizeof integers / sizeof *integers; type++) {
        gguf_set(&parts, "qwen2.attention.head_count_kv", integers[type], bytes,
                 put_integer(integers[type], -1, bytes));
        expect_refused(words[type]);
    }
}
END_TEST

/* A real number may be a float64 or an integer. */
START_TEST(reals_of_any_type)
{
    const double eps = 1e-6, base = 1e6, infinite = INFINITY;
    const uint32_t whole = 1000000;
    gguf_set(&parts, "qwen2.attention.layer_norm_rms_epsilon", FLOAT64, &eps, sizeof eps);
    gguf_set(&parts, "qwen2.rope.freq_base", FLOAT64, &base, sizeof base);
    expect_same_model("float64");
    gguf_set(&parts, "qwen2.rope.freq_base", UINT32, &whole, sizeof whole);
    expect_same_model("an integer");
    static const float wrong[] = {INFINITY, NAN, 0, -1};
    static const char *const keys[] = {"qwen2.rope.freq_base", "qwen2.attention.layer_norm_rms_epsilon"};
    for (int k = 0; k < 2; k++) {
        const gguf_value kept = *gguf_find(&parts, keys[k]);
        for (int i = 0; i < 4; i++) {
            gguf_set(&parts, keys[k], FLOAT32, &wrong[i], sizeof wrong[i]);
            expect_refused(strchr(keys[k], '.') + 1);
        }
        gguf_set(&parts, keys[k], FLOAT64, &infinite, sizeof infinite);
        expect_refused(keys[k]);
        gguf_set(&parts, keys[k], kept.kind, kept.bytes, kept.count);
    }
    expect_same_model("the old values");
}
END_TEST

/* A float32 is the number with the fewest digits that rounds to it. */
START_TEST(reals_are_the_shortest_decimal_numbers)
{
    static const double numbers[] = {1e-5,  1e-6,      1e-12,    2.5e-7, 9.99e-6, 0.1, 0.25, 1,
                                     500.5, 123456.75, 10000.25, 3e5,    1e9,     7,   10,   1234567.0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const float value = (float)numbers[i];
        const double base = numbers[i];
        gguf_set(&parts, "qwen2.rope.freq_base", FLOAT32, &value, sizeof value);
        th_module *model = load();
        if (model == NULL) { /* outside the range of bases */
            ck_assert_int_eq(th_error_code(ctx), TH_ERROR_FILE);
            th_error_clear(ctx);
            continue;
        }
        const double read = th_language_model_options_of(model)->block.scores.rotary_base;
        ck_assert_msg(read == base, "%.17g became %.17g", base, read);
        th_module_free(model);
    }
}
END_TEST

/* A value of another type is refused by its key, unless the model does not depend on it. */
START_TEST(values_of_wrong_types)
{
    static const struct {
        uint32_t kind;
        char bytes[24];
        size_t count;
    } wrong[] = {
        {STRING, "\1\0\0\0\0\0\0\0x", 9},
        {BOOL, "\2", 1},
        {ARRAY, "\5\0\0\0\1\0\0\0\0\0\0\0\3\0\0\0", 16},
    };
    static const char *const ignored[] = {"general.file_type", "qwen2.vocab_size", "tokenizer.ggml.model"};
    for (uint64_t i = 0; i < parts.n_values; i++)
        for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
            const gguf_value kept = parts.value[i];
            bool is_read = wrong[w].kind != kept.kind;
            for (int k = 0; k < 3; k++)
                is_read &= strcmp(kept.key, ignored[k]) != 0;
            if (!is_read)
                continue;
            parts.value[i].kind = wrong[w].kind;
            parts.value[i].bytes = wrong[w].bytes;
            parts.value[i].count = wrong[w].count;
            expect_refused(kept.key);
            parts.value[i] = kept;
        }
}
END_TEST

/* Without a value the file is refused by its key, unless the value has the default of the format. */
START_TEST(values_that_are_missing)
{
    static const struct {
        const char *key, *words; /* NULL: the model is the same */
    } cases[] = {
        {"general.architecture", "the architecture \"\" is not supported"},
        {"qwen2.context_length", "qwen2.context_length is missing"},
        {"qwen2.embedding_length", "qwen2.embedding_length is missing"},
        {"qwen2.block_count", "qwen2.block_count is missing"},
        {"qwen2.feed_forward_length", "qwen2.feed_forward_length is missing"},
        {"qwen2.attention.head_count", "qwen2.attention.head_count is missing"},
        {"qwen2.attention.head_count_kv", "blk.0.attn_k"},
        {"qwen2.attention.key_length", NULL},
        {"qwen2.attention.value_length", NULL},
        {"qwen2.attention.layer_norm_rms_epsilon", "layer_norm_rms_epsilon is missing"},
        {"qwen2.rope.dimension_count", NULL},
        {"general.file_type", NULL},
        {"qwen2.vocab_size", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gguf_value *v = gguf_find(&parts, cases[i].key);
        ck_assert_msg(v != NULL, "%s", cases[i].key);
        const gguf_value kept = *v;
        gguf_remove(&parts, v);
        if (cases[i].words)
            expect_refused(cases[i].words);
        else
            expect_same_model(cases[i].key);
        gguf_set(&parts, kept.key, kept.kind, kept.bytes, kept.count);
    }
}
END_TEST

/* -- damaged headers -- */

/* No beginning of a file is a header: opening it closes the file again. */
START_TEST(beginnings_of_a_file)
{
    size_t bytes;
    char *file = read_bytes(in_folder("a.gguf"), &bytes);
    const size_t header = (size_t)(parts.tensor[0].elements - parts.file);
    const int descriptor = next_descriptor();
    th_gguf opened;
    for (size_t i = 0; i < header; i++) {
        write_bytes(in_folder("b.gguf"), file, i);
        ck_assert_msg(!th_gguf_open(&opened, ctx, "test", in_folder("b.gguf")), "%zu bytes are a file", i);
        expect_error(TH_ERROR_FILE, "b.gguf");
    }
    ck_assert(th_gguf_open(&opened, ctx, "test", in_folder("a.gguf")));
    ck_assert_int_eq(opened.n_tensors, (int64_t)parts.n_tensors);
    th_gguf_close(&opened);
    ck_assert_int_eq(next_descriptor(), descriptor);
    free(file);
}
END_TEST

/* Every key and every tensor may occur once, whatever its place among the others. */
START_TEST(entries_that_occur_twice)
{
    const uint64_t values = parts.n_values;
    for (uint64_t i = 0; i < values; i++) {
        parts.value[parts.n_values++] = parts.value[i];
        char words[200];
        snprintf(words, sizeof words, "the key \"%s\" occurs twice", parts.value[i].key);
        expect_refused(words);
        parts.n_values--;
    }
    for (uint64_t i = 0; i < parts.n_tensors; i++) {
        gguf_tensor *other = &parts.tensor[i == 0 ? 1 : 0];
        const gguf_tensor kept = *other;
        char words[200];
        strcpy(other->name, parts.tensor[i].name);
        snprintf(words, sizeof words, "the tensor %s occurs twice", parts.tensor[i].name);
        expect_refused(words);
        *other = kept;
    }
}
END_TEST

/* The bytes of every type, also of types that are not read. */
START_TEST(types_of_tensors)
{
    static const struct {
        uint32_t code, numbers, bytes;
        const char *name;
    } types[] = {{0, 1, 4, "F32"},         {1, 1, 2, "F16"},        {2, 32, 18, "Q4_0"},      {3, 32, 20, "Q4_1"},
                 {6, 32, 22, "Q5_0"},      {7, 32, 24, "Q5_1"},     {8, 32, 34, "Q8_0"},      {9, 32, 36, "Q8_1"},
                 {10, 256, 84, "Q2_K"},    {11, 256, 110, "Q3_K"},  {12, 256, 144, "Q4_K"},   {13, 256, 176, "Q5_K"},
                 {14, 256, 210, "Q6_K"},   {15, 256, 292, "Q8_K"},  {24, 1, 1, "I8"},         {25, 1, 2, "I16"},
                 {26, 1, 4, "I32"},        {27, 1, 8, "I64"},       {28, 1, 8, "F64"},        {30, 1, 2, "BF16"},
                 {16, 256, 66, "IQ2_XXS"}, {17, 256, 74, "IQ2_XS"}, {18, 256, 98, "IQ3_XXS"}, {19, 256, 50, "IQ1_S"},
                 {20, 32, 18, "IQ4_NL"},   {21, 256, 110, "IQ3_S"}, {22, 256, 82, "IQ2_S"},   {23, 256, 136, "IQ4_XS"},
                 {29, 256, 56, "IQ1_M"},   {34, 256, 54, "TQ1_0"},  {35, 256, 66, "TQ2_0"},   {39, 32, 17, "MXFP4"},
                 {40, 64, 36, "NVFP4"}};
    gguf_tensor *last = &parts.tensor[parts.n_tensors - 1];
    char words[200];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        last->type = types[i].code;
        last->axes = 1;
        last->size[0] = 1 << 20;
        snprintf(words, sizeof words, "%s needs %u from byte", last->name,
                 (1u << 20) / types[i].numbers * types[i].bytes);
        expect_refused(words);
        if (types[i].numbers == 1)
            continue;
        last->size[0]--;
        snprintf(words, sizeof words, "but rows of %s are multiples of %u numbers", types[i].name, types[i].numbers);
        expect_refused(words);
    }
    last->type = 4;
    expect_refused("has the type 4, which is not known");
    last->type = 0;
    last->size[0] = UINT64_C(1) << 62;
    expect_refused("is too large");
    last->axes = 0;
    expect_refused("has 0 axes; 1 to 4 are allowed");
}
END_TEST

/* -- memory of JSON -- */

static int64_t json_blocks;

static void *allocate_json(size_t size)
{
    json_blocks++;
    return malloc(size);
}

static void release_json(void *block)
{
    json_blocks -= block != NULL;
    free(block);
}

/* A tokenizer, and tokenizers that are refused, leave no JSON behind. */
START_TEST(tokenizers_release_their_json)
{
    char name[8 + 5];
    const uint64_t five = 5;
    memcpy(name, &five, 8);
    memcpy(name + 8, "gpt-3", 5);
    json_set_alloc_funcs(allocate_json, release_json);
    th_language_model_options o = qwen2;
    o.vocabulary = 256;
    th_tokenizer *t = th_tokenizer_bytes_new(ctx);
    ck_assert_int_eq(th_language_model_export_gguf(model_of(ctx, &o), in_folder("a.gguf"),
                                                   &(th_gguf_export_options){.tokenizer = t}),
                     TH_OK);
    th_tokenizer_free(t);
    th_tokenizer_free(th_tokenizer_from_gguf(ctx, in_folder("a.gguf")));
    no_error();
    ck_assert_int_eq(json_blocks, 0);
    gguf_free(&parts);
    gguf_read(in_folder("a.gguf"), &parts);
    const gguf_value *merges = gguf_find(&parts, "tokenizer.ggml.merges");
    if (merges) {
        gguf_remove(&parts, merges);
        gguf_write(in_folder("b.gguf"), &parts);
        expect_failure(th_tokenizer_from_gguf(ctx, in_folder("b.gguf")) == NULL, TH_ERROR_FILE, "merges");
    }
    gguf_set(&parts, "tokenizer.ggml.pre", STRING, name, sizeof name);
    gguf_write(in_folder("b.gguf"), &parts);
    expect_failure(th_tokenizer_from_gguf(ctx, in_folder("b.gguf")) == NULL, TH_ERROR_FILE,
                   "\"gpt-3\" is not supported");
    ck_assert_int_eq(json_blocks, 0);
    json_set_alloc_funcs(malloc, free);
}
END_TEST

/* -- exports without recording -- */

/* Whether operations are recorded. */
static bool records(void)
{
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), true);
    const bool recorded = th_requires_gradient(th_mul(x, x));
    no_error();
    th_tape_clear(ctx);
    return recorded;
}

/* Loading and exporting leave recording as it was, on or off. */
START_TEST(recording_is_as_before)
{
    th_module *model = model_of(ctx, &qwen2);
    for (int off = 0; off < 2; off++) {
        if (off)
            th_no_grad_begin(ctx);
        ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("c.gguf"), NULL), TH_OK);
        ck_assert_int_eq(records(), !off);
        th_module *again = th_language_model_from_gguf(ctx, in_folder("c.gguf"), NULL);
        ck_assert_ptr_nonnull(again);
        ck_assert_int_eq(records(), !off);
        th_module_free(again);
        ck_assert_ptr_nonnull(
            th_language_model_from_gguf(ctx, in_folder("c.gguf"), &(th_gguf_load_options){.stored = true}));
        ck_assert_int_eq(records(), !off);
        if (off)
            th_no_grad_end(ctx);
    }
    ck_assert(records());
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("gguf layout", setup_file, teardown_file);
    tcase_add_test(tests, entries_in_any_order);
    tcase_add_test(tests, other_versions_and_alignments);
    tcase_add_test(tests, tensors_in_wrong_places);
    tcase_add_test(tests, the_end_of_the_file);
    tcase_add_test(tests, integers_of_any_type);
    tcase_add_test(tests, signs_of_integers);
    tcase_add_test(tests, reals_of_any_type);
    tcase_add_test(tests, reals_are_the_shortest_decimal_numbers);
    tcase_add_test(tests, values_of_wrong_types);
    tcase_add_test(tests, values_that_are_missing);
    tcase_add_test(tests, beginnings_of_a_file);
    tcase_add_test(tests, entries_that_occur_twice);
    tcase_add_test(tests, types_of_tensors);
    tcase_add_test(tests, tokenizers_release_their_json);
    tcase_add_test(tests, recording_is_as_before);
    return run_suites();
}

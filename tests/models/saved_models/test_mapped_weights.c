/* Frozen and stored models from files: the bits of mapped, copied and converted weights, memory while loading, and all
 * that happens to a mapped parameter later. */
#include <string.h>
#include <unistd.h>

#include "tapehead/models.h"

#include "written_models.h"

/* Writes a model into the folder "model". */
static th_module *export_model(const struct written *w)
{
    th_module *model = model_of(ctx, &w->options);
    if (th_language_model_export(model, in_folder("model"), &(th_export_options){.family = w->family}) != TH_OK)
        ck_abort_msg("%s: %s", w->family, th_error_message(ctx));
    return model;
}

static const char *const weights = "model/model.safetensors";

/* Rewrites the folder's tensors in another type. */
static void convert_file(th_dtype dtype)
{
    th_safetensors *file = th_safetensors_open(ctx, in_folder(weights));
    th_named_tensor tensors[64];
    const int64_t n = th_safetensors_count(file);
    ck_assert_int_le(n, 64);
    for (int64_t i = 0; i < n; i++) {
        const char *name = th_safetensors_at(file, i)->name;
        tensors[i] = (th_named_tensor){name, th_cast(th_safetensors_read(file, name), dtype)};
    }
    ck_assert_int_eq(th_safetensors_write(ctx, in_folder(weights), tensors, n, NULL, 0), TH_OK);
    th_safetensors_close(file);
    no_error();
}

static th_module *from_folder(th_context *c, th_folder_load_options options)
{
    th_module *model = th_language_model_from_folder(c, in_folder("model"), &options);
    ck_assert_msg(model != NULL, "%s", th_error_message(c));
    return model;
}

static th_module *from_gguf(th_context *c, th_gguf_load_options options)
{
    th_module *model = th_language_model_from_gguf(c, in_folder("a.gguf"), &options);
    ck_assert_msg(model != NULL, "%s", th_error_message(c));
    return model;
}

static size_t mapped(void)
{
    return th_memory(ctx).mapped;
}

/* Returns how many mappings of files in the folder the process has. */
static int count_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];
    int found = 0;
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps))
        found += strstr(line, folder) != NULL;
    fclose(maps);
    return found;
}

/* Checks that two models have the same weights and the same logits, bit for bit, and frees a. */
static void expect_same(th_module *a, th_module *b, const char *what)
{
    ck_assert_msg(th_module_crc32c(a) == th_module_crc32c(b), "%s: the weights differ", what);
    expect_same_logits(a, b, what);
    th_module_free(a);
}

/* -- bits -- */

static const th_dtype types[] = {TH_FLOAT32, TH_BFLOAT16, TH_FLOAT16, TH_Q8_0, TH_Q4_0};
enum { TYPES = sizeof types / sizeof *types };

/* Checks that the folder's model as this type, mapped or not, has the bits of th_module_store. */
static void compare_folder(th_dtype type, const char *what)
{
    th_module *expected = th_language_model_from_pretrained(ctx, in_folder("model"));
    no_error();
    ck_assert_int_eq(th_module_freeze(expected, true), TH_OK);
    if (type != TH_FLOAT32)
        ck_assert_int_eq(th_module_store(expected, type), TH_OK);
    for (int copied = 0; copied < 2; copied++) {
        th_module *model =
            from_folder(ctx, (th_folder_load_options){.frozen = true, .type = type, .no_mapping = copied});
        ck_assert_int_eq(th_module_count_trainable(model), 0);
        ck_assert(!copied || mapped() == 0);
        expect_same(model, expected, what);
    }
    th_module_free(expected);
}

START_TEST(test_bits_of_folders)
{
    const struct written *w = &models[_i];
    th_module_free(export_model(w));
    for (int i = 0; i < TYPES; i++)
        compare_folder(types[i], w->family);
    /* files of other types */
    for (int i = 1; i < 3; i++) {
        convert_file(types[i]);
        for (int j = 0; j < TYPES; j++)
            compare_folder(types[j], w->family);
        th_module *stored = from_folder(ctx, (th_folder_load_options){.stored = true});
        ck_assert_int_eq(th_dtype_of(th_module_find_parameter(stored, "layers.1.linear2.weight")), types[i]);
        ck_assert(mapped() > 0);
        th_module *same = from_folder(ctx, (th_folder_load_options){.type = types[i], .no_mapping = true});
        expect_same(stored, same, w->family);
        th_module_free(same);
    }
    ck_assert_uint_eq(mapped(), 0);
}
END_TEST

START_TEST(test_bits_of_gguf)
{
    const struct written *w = &models[_i];
    th_module *model = model_of(ctx, &w->options);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    for (int i = 0; i < TYPES; i++) {
        const th_gguf_export_options options = {.type = types[i], .architecture = w->architecture};
        if (th_language_model_export_gguf(model, in_folder("a.gguf"), &options) != TH_OK)
            ck_abort_msg("%s: %s", w->family, th_error_message(ctx));
        th_module *wide = th_language_model_from_gguf(ctx, in_folder("a.gguf"), NULL);
        no_error();
        ck_assert_int_eq(th_module_freeze(wide, true), TH_OK);
        expect_same(from_gguf(ctx, (th_gguf_load_options){.frozen = true, .no_mapping = true}), wide, "frozen");
        expect_same(from_gguf(ctx, (th_gguf_load_options){.frozen = true}), wide, "frozen and mapped");
        th_module *stored = from_gguf(ctx, (th_gguf_load_options){.stored = true});
        ck_assert_msg(mapped() > 0, "%s as %s", w->family, th_dtype_name(types[i]));
        expect_same(from_gguf(ctx, (th_gguf_load_options){.stored = true, .no_mapping = true}), stored, "stored");
        th_module_free(stored);
        for (int j = 1; j < TYPES; j++) {
            th_module *other = from_gguf(ctx, (th_gguf_load_options){.type = types[j]});
            ck_assert_int_eq(th_module_store(wide, TH_FLOAT32), TH_OK);
            th_module *expected = th_language_model_from_gguf(ctx, in_folder("a.gguf"), NULL);
            ck_assert_int_eq(th_module_freeze(expected, true), TH_OK);
            ck_assert_int_eq(th_module_store(expected, types[j]), TH_OK);
            expect_same(other, expected, th_dtype_name(types[j]));
            th_module_free(expected);
        }
        th_module_free(wide);
    }
    ck_assert_uint_eq(mapped(), 0);
}
END_TEST

/* Rewrites the folder's file with `more` spaces at the end of its header. */
static void pad_header(size_t more)
{
    size_t bytes;
    char *file = read_bytes(in_folder(weights), &bytes), *longer = malloc(bytes + more);
    uint64_t header;
    memcpy(&header, file, sizeof header);
    const size_t end = sizeof header + (size_t)header;
    memcpy(longer, file, end);
    memset(longer + end, ' ', more);
    memcpy(longer + end + more, file + end, bytes - end);
    header += more;
    memcpy(longer, &header, sizeof header);
    unlink(in_folder(weights));
    write_bytes(in_folder(weights), longer, bytes + more);
    free(file);
    free(longer);
}

/* Matrices are mapped at every multiple of their elements, and copied elsewhere. If the file ends with its page, the
 * last one is copied unless it is whole cache lines. */
START_TEST(test_places_in_the_file)
{
    struct written w = models[WHOLE];
    w.options.block.mlp_width = 41; /* linear2.weight is (64, 41): 41 cache lines; gate.weight as well */
    w.options.width = 20;
    w.options.heads = 2;
    w.options.block.kv_heads = 1;
    th_module_free(export_model(&w));
    th_module *expected = th_language_model_from_pretrained(ctx, in_folder("model"));
    ck_assert_int_eq(th_module_freeze(expected, true), TH_OK);
    const long page = sysconf(_SC_PAGESIZE);
    size_t seen[3] = {0};
    for (int more = 0; more < 10; more++) {
        expect_same(from_folder(ctx, (th_folder_load_options){.frozen = true}), expected, "padded");
        th_module *model = from_folder(ctx, (th_folder_load_options){.frozen = true});
        if (more == 0 || more == 4)
            ck_assert_uint_gt(mapped(), 0);
        else if (more % 4 != 0)
            ck_assert_uint_eq(mapped(), 0);
        seen[0] = more == 0 ? mapped() : seen[0];
        th_module_free(model);
        pad_header(1);
    }
    size_t bytes;
    free(read_bytes(in_folder(weights), &bytes));
    pad_header((size_t)(page - (long)bytes % page));
    th_module *model = from_folder(ctx, (th_folder_load_options){.frozen = true});
    seen[1] = mapped();
    expect_same(model, expected, "at the end of a page");
    pad_header(64);
    model = from_folder(ctx, (th_folder_load_options){.frozen = true});
    seen[2] = mapped();
    expect_same(model, expected, "behind the end of a page");
    ck_assert_uint_le(seen[1], seen[0]);
    ck_assert_uint_eq(seen[2], seen[0]);
    th_module_free(expected);
}
END_TEST

/* -- memory -- */

static const th_language_model_options large = {.vocabulary = 8000,
                                                .length = LENGTH,
                                                .width = 128,
                                                .heads = 4,
                                                .layers = 4,
                                                .positions = TH_POSITIONS_NONE,
                                                .block = {BLOCK, .no_bias = true, .kv_heads = 2, .scores = {HALVES}}};

/* A load takes the memory of the stored weights, not of float32 ones; a conversion also takes one tensor. The forecast
 * of a shapes-only context is exact. */
START_TEST(test_memory_of_loading)
{
    const struct written w = {"llama", "llama", large};
    th_module *model = export_model(&w);
    const size_t numbers = (size_t)th_module_count(model), table = (size_t)8000 * 128 * sizeof(float);
    ck_assert_int_eq(
        th_language_model_export_gguf(model, in_folder("a.gguf"), &(th_gguf_export_options){.type = TH_Q8_0}), TH_OK);
    th_module_free(model);
    const size_t stored = numbers / 32 * 34, some = 400 << 10;
    for (int kind = 0; kind < 5; kind++) {
        test_memory own = {0};
        th_memory_usage used[2];
        for (int shapes = 0; shapes < 2; shapes++) {
            th_context *c = th_context_new(&(th_context_options){
                .threads = 1, .allocator = allocator_of(shapes ? &memory : &own), .shapes_only = shapes});
            if (kind < 2)
                from_gguf(c, (th_gguf_load_options){.stored = true, .no_mapping = kind});
            else if (kind < 4)
                from_folder(c, (th_folder_load_options){.frozen = true, .no_mapping = kind == 3});
            else
                from_folder(c, (th_folder_load_options){.type = TH_Q8_0});
            used[shapes] = th_memory(c);
            th_context_free(c);
        }
        ck_assert_msg(used[0].live == used[1].live, "%d: %zu and %zu", kind, used[0].live, used[1].live);
        ck_assert_uint_eq(used[0].mapped, used[1].mapped);
        ck_assert_uint_eq(used[0].reserved_peak, used[1].reserved_peak);
        ck_assert_uint_eq(used[0].peak, used[1].peak);
        ck_assert_uint_ge(used[0].live, kind == 2 || kind == 3 ? numbers * sizeof(float) : stored);
        const size_t limits[] = {some, stored + some, some, numbers * sizeof(float) + some, stored + table + some};
        ck_assert_msg(own.max <= limits[kind] && used[0].reserved_peak <= limits[kind], "%d: %zu, not %zu", kind,
                      own.max, limits[kind]);
        ck_assert_uint_eq(own.bytes, 0);
        ck_assert(kind == 0 || kind == 2 ? used[0].mapped > stored * 3 / 4 : used[0].mapped == 0);
    }
}
END_TEST

/* Every allocation fails in turn: the result is an error, and no memory, mapping or file is left. */
START_TEST(test_out_of_memory)
{
    const bool gguf = _i == 0;
    th_module *model = export_model(&models[_i == 2 ? 3 : 1]);
    ck_assert_int_eq(
        th_language_model_export_gguf(model, in_folder("a.gguf"), &(th_gguf_export_options){.type = TH_Q8_0}), TH_OK);
    th_module_free(model);
    const int descriptor = next_descriptor();
    for (int64_t at = 1;; at++) {
        test_memory own = {.fail_at = at};
        th_context *c = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&own)});
        if (c == NULL)
            continue;
        model =
            gguf ? th_language_model_from_gguf(c, in_folder("a.gguf"), &(th_gguf_load_options){.stored = true})
                 : th_language_model_from_folder(
                       c, in_folder("model"), &(th_folder_load_options){.frozen = true, .type = _i == 2 ? TH_Q8_0 : 0});
        ck_assert_int_eq(th_error_code(c), model ? TH_OK : TH_ERROR_MEMORY);
        if (model == NULL) {
            ck_assert_int_eq(count_mappings(), 0);
            ck_assert_uint_eq(th_memory(c).mapped, 0);
        }
        th_context_free(c);
        ck_assert_uint_eq(own.bytes, 0);
        ck_assert_int_eq(count_mappings(), 0);
        ck_assert_int_eq(next_descriptor(), descriptor);
        if (own.calls < at)
            break;
    }
}
END_TEST

/* -- the life of a mapped parameter -- */

/* Trains for a few steps. Returns the checksum of the model. */
static uint32_t train(th_module *model)
{
    th_optimizer *adam = th_adam_w_new(
        model, &(th_adam_options){.learning_rate = 0.01, .weight_decay = 0.1, .max_norm = 1, .shards = 2});
    th_tensor *tokens = tokens_of(ctx);
    for (int step = 0; step < 3; step++) {
        for (th_shard shard = th_optimizer_shards(adam); th_shard_next(&shard);) {
            th_tensor *loss = th_language_model_loss(model, tokens, tokens, NULL);
            shard.loss = th_item(loss);
            ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
        }
        ck_assert_int_eq(th_optimizer_step(adam), TH_OK);
        th_tape_clear(ctx);
    }
    th_optimizer_free(adam);
    return th_module_crc32c(model);
}

static void run_model(th_module *model)
{
    th_no_grad_begin(ctx);
    th_module_forward(model, tokens_of(ctx));
    th_no_grad_end(ctx);
    th_tape_clear(ctx);
    no_error();
}

/* A mapped model that is unfrozen trains with the bits of an ordinary one, and the file does not change. */
START_TEST(test_training)
{
    th_module_free(export_model(&models[_i]));
    size_t bytes, again;
    char *file = read_bytes(in_folder(weights), &bytes);
    th_module *model = from_folder(ctx, (th_folder_load_options){.frozen = true});
    run_model(model);
    ck_assert_uint_gt(mapped(), 0);
    ck_assert_int_eq(th_module_freeze(model, false), TH_OK);
    ck_assert_uint_eq(train(model), train(th_language_model_from_pretrained(ctx, in_folder("model"))));
    char *after = read_bytes(in_folder(weights), &again);
    ck_assert(again == bytes && memcmp(file, after, bytes) == 0);
    free(file);
    free(after);
}
END_TEST

/* Writing, converting and loading weights do what they do with other parameters. The file does not change. */
START_TEST(test_changes)
{
    th_module *model = export_model(&models[WHOLE]);
    const uint32_t first = th_module_crc32c(model);
    ck_assert_int_eq(th_weights_save(model_of(ctx, &models[WHOLE].options), in_folder("other.safetensors")), TH_OK);
    for (int change = 0; change < 5; change++) {
        th_module *changed = from_folder(ctx, (th_folder_load_options){.frozen = true});
        th_module *copy = from_folder(ctx, (th_folder_load_options){.frozen = true, .no_mapping = true});
        ck_assert_uint_eq(th_module_crc32c(changed), first);
        th_module *const both[] = {changed, copy};
        for (int i = 0; i < 2; i++) {
            th_tensor *weight = th_module_find_parameter(both[i], "layers.1.linear2.weight");
            if (change == 0)
                ck_assert_int_eq(th_fill(weight, 3), TH_OK);
            else if (change == 1)
                ck_assert_int_eq(th_copy_into(weight, th_arange(ctx, TH_FLOAT32, 0, MLP, 1)), TH_OK);
            else if (change == 2)
                ck_assert_int_eq(th_weights_load(both[i], in_folder("other.safetensors"), NULL), TH_OK);
            else if (change == 3)
                ck_assert_int_eq(th_module_store(both[i], TH_Q8_0), TH_OK);
            else
                ck_assert_int_eq(th_module_cast(both[i], TH_FLOAT64), TH_OK);
        }
        ck_assert_uint_eq(th_module_crc32c(changed), th_module_crc32c(copy));
        ck_assert_uint_ne(th_module_crc32c(changed), first);
        ck_assert(change < 3 ? mapped() > 0 : mapped() == 0);
        th_module_free(changed);
        th_module_free(copy);
        ck_assert_int_eq(count_mappings(), 0);
    }
    expect_same(from_folder(ctx, (th_folder_load_options){.frozen = true}), model, "the file");
}
END_TEST

/* A stored model becomes float32 again, and trains. */
START_TEST(test_stored_weights_become_float32)
{
    th_module *model = model_of(ctx, &models[WHOLE].options);
    ck_assert_int_eq(
        th_language_model_export_gguf(model, in_folder("a.gguf"), &(th_gguf_export_options){.type = TH_BFLOAT16}),
        TH_OK);
    th_module *stored = from_gguf(ctx, (th_gguf_load_options){.stored = true});
    run_model(stored);
    ck_assert_int_eq(th_module_freeze(stored, false), TH_ERROR_TYPE);
    th_error_clear(ctx);
    ck_assert_int_eq(th_module_store(stored, TH_FLOAT32), TH_OK);
    ck_assert_uint_eq(mapped(), 0);
    ck_assert_int_eq(th_module_freeze(stored, false), TH_OK);
    ck_assert_uint_eq(train(stored), train(th_language_model_from_gguf(ctx, in_folder("a.gguf"), NULL)));
}
END_TEST

/* The file may be replaced or removed while it is mapped. The mapping ends with the model, or with the context. */
START_TEST(test_life_of_the_mapping)
{
    th_module *model = export_model(&models[WHOLE]);
    th_module *first = from_folder(ctx, (th_folder_load_options){.frozen = true});
    ck_assert_int_gt(count_mappings(), 0);
    th_module *second = export_model(&models[WHOLE]); /* replaces the file */
    ck_assert_uint_ne(th_module_crc32c(first), th_module_crc32c(second));
    expect_same(from_folder(ctx, (th_folder_load_options){.frozen = true}), second, "the new file");
    ck_assert_int_eq(unlink(in_folder(weights)), 0);
    expect_same(first, model, "the old file");
    ck_assert_int_eq(count_mappings(), 0);
    ck_assert_uint_eq(mapped(), 0);
    th_context *other = th_context_new(&(th_context_options){.threads = 1});
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("a.gguf"), NULL), TH_OK);
    from_gguf(other, (th_gguf_load_options){.frozen = true});
    ck_assert_int_gt(count_mappings(), 0);
    th_context_free(other);
    ck_assert_int_eq(count_mappings(), 0);
}
END_TEST

START_TEST(test_checkpoints)
{
    th_module *model = export_model(&models[WHOLE]);
    th_module *first = from_folder(ctx, (th_folder_load_options){.frozen = true});
    ck_assert_int_eq(th_checkpoint_save(in_folder("a.safetensors"), &(th_checkpoint){.model = first}), TH_OK);
    ck_assert_int_eq(th_fill(th_module_find_parameter(first, "layers.0.linear1.weight"), 1), TH_OK);
    ck_assert_int_eq(th_checkpoint_load(in_folder("a.safetensors"), &(th_checkpoint){.model = first}), TH_OK);
    expect_same(first, model, "the checkpoint");
}
END_TEST

/* -- options -- */

START_TEST(test_options_of_the_model)
{
    th_module *model = export_model(&models[WHOLE]);
    th_language_model_options given;
    ck_assert_int_eq(th_pretrained_options(ctx, in_folder("model"), &given), TH_OK);
    given.dropout = 0.25;
    th_module *again = from_folder(ctx, (th_folder_load_options){.frozen = true, .model = &given});
    ck_assert_double_eq(th_language_model_options_of(again)->dropout, 0.25);
    ck_assert_uint_eq(th_module_crc32c(again), th_module_crc32c(model));
    again = from_folder(ctx, (th_folder_load_options){.model = &given});
    ck_assert_int_gt(th_module_count_trainable(again), 0);
    given.block.eps = 0.5;
    expect_failure(th_language_model_from_folder(ctx, in_folder("model"), &(th_folder_load_options){.model = &given}) ==
                       NULL,
                   TH_ERROR_ARGUMENT, "eps");
}
END_TEST

START_TEST(test_misuse)
{
    struct written w = models[WHOLE];
    w.options.block.mlp_width = 40;
    th_module *model = export_model(&w);
    ck_assert_int_eq(th_language_model_export_gguf(model, in_folder("a.gguf"), NULL), TH_OK);
    const char *const path = in_folder("model");
    expect_failure(th_language_model_from_folder(ctx, path, &(th_folder_load_options){.type = TH_Q8_0}) == NULL,
                   TH_ERROR_SHAPE, "linear2.weight is (64, 40): the last size must be a multiple of 32");
    expect_failure(th_language_model_from_folder(ctx, path, &(th_folder_load_options){.type = TH_INT32}) == NULL,
                   TH_ERROR_TYPE, "int32");
    expect_failure(th_language_model_from_folder(ctx, NULL, NULL) == NULL, TH_ERROR_ARGUMENT, "the folder is NULL");
    expect_failure(th_language_model_from_gguf(ctx, in_folder("a.gguf"), &(th_gguf_load_options){.type = TH_Q8_0}) ==
                       NULL,
                   TH_ERROR_SHAPE, "the last size must be a multiple of 32");
    expect_failure(th_language_model_from_gguf(ctx, in_folder("a.gguf"), &(th_gguf_load_options){.type = TH_FLOAT64}) ==
                       NULL,
                   TH_ERROR_TYPE, "float64");
    ck_assert_int_eq(count_mappings(), 0);
    expect_same(th_language_model_from_folder(ctx, in_folder("model"), NULL), model, "no options");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("mapped_weights", setup, teardown);
    tcase_add_loop_test(tests, test_bits_of_folders, 0, MODELS);
    tcase_add_loop_test(tests, test_bits_of_gguf, 0, MODELS);
    tcase_add_test(tests, test_places_in_the_file);
    tcase_add_test(tests, test_memory_of_loading);
    tcase_add_loop_test(tests, test_out_of_memory, 0, 3);
    tcase_add_loop_test(tests, test_training, 0, MODELS);
    tcase_add_test(tests, test_changes);
    tcase_add_test(tests, test_stored_weights_become_float32);
    tcase_add_test(tests, test_life_of_the_mapping);
    tcase_add_test(tests, test_checkpoints);
    tcase_add_test(tests, test_options_of_the_model);
    tcase_add_test(tests, test_misuse);
    return run_suites();
}

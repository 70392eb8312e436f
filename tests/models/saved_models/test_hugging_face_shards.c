/* Exported folders of transformers with several files of weights, or from stored weights: the files and their bits, the
 * removal of an older model, and errors. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tapehead/models.h"

#include "written_models.h"

static void export_to(th_module *model, const char *name, th_export_options options)
{
    if (th_language_model_export(model, in_folder(name), &options) != TH_OK)
        ck_abort_msg("%s: %s", name, th_error_message(ctx));
}

static th_module *from_folder(const char *name, th_folder_load_options options)
{
    th_module *model = th_language_model_from_folder(ctx, in_folder(name), &options);
    ck_assert_msg(model != NULL, "%s", th_error_message(ctx));
    return model;
}

static bool is_there(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

/* -- the files -- */

static const char index_file[] = "model/model.safetensors.index.json", one_file[] = "model/model.safetensors";

/* Returns the path of a shard, below the folder. */
static const char *shard_name(int number, int all)
{
    static char name[64];
    snprintf(name, sizeof name, "model/model-%05d-of-%05d.safetensors", number, all);
    return name;
}

/* Returns the index; the caller releases it. */
static json_t *read_index(void)
{
    json_t *index = json_load_file(in_folder(index_file), JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(index);
    return index;
}

/* Checks a file: it has tensors of at most `most` bytes, or a single one, and the index names it for each of them.
 * Returns the number of tensors. */
static int64_t check_shard(const json_t *names, int number, int all, int64_t most, int64_t *bytes)
{
    th_safetensors *file = th_safetensors_open(ctx, in_folder(shard_name(number, all)));
    ck_assert_msg(file != NULL, "%s", th_error_message(ctx));
    const int64_t count = th_safetensors_count(file);
    int64_t own = 0;
    ck_assert_str_eq(th_safetensors_metadata(file, "format"), "pt");
    for (int64_t i = 0; i < count; i++) {
        const th_stored_tensor *t = th_safetensors_at(file, i);
        const char *named = json_string_value(json_object_get(names, t->name));
        ck_assert_msg(named && strcmp(named, strchr(shard_name(number, all), '/') + 1) == 0, "%s", t->name);
        own += t->bytes;
    }
    ck_assert(own <= most || count == 1);
    th_safetensors_close(file);
    *bytes += own;
    return count;
}

/* Checks the index and all its files. Returns the number of files. */
static int check_files(th_module *model, int64_t most)
{
    json_t *index = read_index();
    const json_t *sums = json_object_get(index, "metadata"), *names = json_object_get(index, "weight_map");
    int all = 0;
    int64_t tensors = 0, bytes = 0;
    const char *last = json_string_value(json_object_iter_value(json_object_iter((json_t *)(uintptr_t)names)));
    ck_assert_ptr_nonnull(last);
    ck_assert_int_eq(sscanf(last, "model-%*5d-of-%5d.safetensors", &all), 1);
    for (int i = 1; i <= all; i++)
        tensors += check_shard(names, i, all, most, &bytes);
    ck_assert_int_eq((int64_t)json_object_size(names), tensors);
    ck_assert_int_eq(json_integer_value(json_object_get(sums, "total_size")), bytes);
    ck_assert_int_eq(json_integer_value(json_object_get(sums, "total_parameters")), th_module_count(model));
    json_decref(index);
    return all;
}

/* Files of any size have the same model. The weights of one tensor or more are in each file. */
START_TEST(every_size_loads)
{
    static const int64_t sizes[] = {1, 300, 20000, 65536, 100000};
    const struct written *w = &models[_i];
    th_module *model = model_of(ctx, &w->options);
    const int64_t whole = th_module_count(model) * (int64_t)sizeof(float);
    int previous = 1000;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        export_to(model, "model", (th_export_options){.family = w->family, .shard_bytes = sizes[i]});
        ck_assert(!is_there(one_file));
        const int files = check_files(model, sizes[i]);
        ck_assert_int_le(files, previous);
        ck_assert_int_ge(files, 2);
        ck_assert_int_ge(files, (int)(i == 0 ? 15 : whole / (sizes[i] > 65536 ? sizes[i] : 65536)));
        previous = files;
        th_module *again = th_language_model_from_pretrained(ctx, in_folder("model"));
        ck_assert_uint_eq(th_module_crc32c(again), th_module_crc32c(model));
        expect_same_logits(again, model, w->family);
        th_module_free(again);
    }
    export_to(model, "model", (th_export_options){.family = w->family, .shard_bytes = whole});
    ck_assert(is_there(one_file) && !is_there(index_file));
    export_to(model, "model", (th_export_options){.family = w->family, .shard_bytes = whole - 1});
    ck_assert(!is_there(one_file) && is_there(index_file));
    ck_assert_int_eq(check_files(model, whole - 1), 2);
    export_to(model, "model", (th_export_options){.family = w->family, .shard_bytes = whole / 2, .type = TH_BFLOAT16});
    ck_assert(is_there(one_file) && !is_there(index_file));
}
END_TEST

/* -- the weights of an older model -- */

static void touch(const char *name)
{
    write_bytes(in_folder(name), "other", 5);
}

/* Counts the entries of the folder "model". */
static int count_entries(void)
{
    char command[160];
    int count = -1;
    snprintf(command, sizeof command, "ls -A %s/model | wc -l", folder);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    ck_assert_int_eq(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    return count;
}

/* More files, fewer, one, and more again: only the files of the last export are there. */
START_TEST(older_weights_are_removed)
{
    static const int64_t sizes[] = {1, 100000, 30000, 0, 1, 0, 100000};
    th_module *model = NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        th_module_free(model);
        model = model_of(ctx, &models[i % 2].options);
        export_to(model, "model", (th_export_options){.family = "llama", .shard_bytes = sizes[i]});
        ck_assert_int_eq(is_there(one_file), sizes[i] == 0);
        ck_assert_int_eq(is_there(index_file), sizes[i] > 0);
        ck_assert_int_eq(count_entries(), sizes[i] == 0 ? 2 : check_files(model, sizes[i]) + 2);
        th_module *again = from_folder("model", (th_folder_load_options){0});
        ck_assert_uint_eq(th_module_crc32c(again), th_module_crc32c(model));
        th_module_free(again);
    }
}
END_TEST

/* Files with other names stay, and so do folders. A link is removed, and not the file that it leads to. */
START_TEST(other_files_stay)
{
    static const char *const others[] = {"model/model-00001-of-00002.bin",
                                         "model/model-00001-of-00002.safetensors.bak",
                                         "model/model-0001-of-00002.safetensors",
                                         "model/model.fp16-00001-of-00002.safetensors",
                                         "model/my-model-00001-of-00002.safetensors",
                                         "model/model-00001-of-00002.safetensors.unfinished",
                                         "model/pytorch_model.bin",
                                         "model/tokenizer.json",
                                         "outside"};
    enum { OTHERS = sizeof others / sizeof *others };
    th_module *model = model_of(ctx, &models[WHOLE].options);
    for (int many = 0; many < 2; many++) {
        export_to(model, "model", (th_export_options){0});
        for (int i = 0; i < OTHERS; i++)
            touch(others[i]);
        ck_assert(mkdir(in_folder("model/model-00007-of-00008.safetensors"), 0700) == 0 || many);
        ck_assert_int_eq(symlink("../outside", in_folder("model/model-00008-of-00008.safetensors")), 0);
        touch("model/model-00001-of-00008.safetensors");
        touch("model/model-00002-of-00008.safetensors.unfinished0"); /* as a killed process leaves it */
        export_to(model, "model", (th_export_options){.shard_bytes = many ? 100000 : 0});
        for (int i = 0; i < OTHERS; i++) {
            size_t bytes;
            char *text = read_bytes(in_folder(others[i]), &bytes);
            ck_assert_msg(strcmp(text, "other") == 0, "%s", others[i]);
            free(text);
        }
        ck_assert(is_there("model/model-00007-of-00008.safetensors"));
        ck_assert(!is_there("model/model-00008-of-00008.safetensors"));
        ck_assert(!is_there("model/model-00001-of-00008.safetensors"));
        ck_assert(!is_there("model/model-00002-of-00008.safetensors.unfinished0"));
        ck_assert_int_eq(count_entries(), OTHERS - 1 + 1 + (many ? check_files(model, 100000) + 2 : 2));
        th_module_free(from_folder("model", (th_folder_load_options){0}));
    }
}
END_TEST

/* Renames a file of the model, and makes a link with the old name. */
static void move_behind_link(const char *name, const char *other)
{
    char from[200], to[200];
    snprintf(from, sizeof from, "%s", in_folder(name));
    snprintf(to, sizeof to, "%s/model/%s", folder, other);
    ck_assert_int_eq(rename(from, to), 0);
    ck_assert_int_eq(symlink(other, from), 0);
}

/* An export replaces the target of a link within the folder, and the link stays. The target may have the name of a shard
 * of another model. */
START_TEST(links_within_the_folder_stay)
{
    th_module *model = model_of(ctx, &models[0].options), *new = model_of(ctx, &models[1].options);
    export_to(model, "model", (th_export_options){.shard_bytes = 100000});
    const int files = check_files(model, 100000);
    move_behind_link(index_file, "index.json");
    move_behind_link(shard_name(1, files), "model-00001-of-00099.safetensors");
    for (int round = 0; round < 2; round++) {
        export_to(round ? new : model, "model", (th_export_options){.shard_bytes = round ? 30000 : 100000});
        ck_assert(is_there("model/index.json") && is_there("model/model-00001-of-00099.safetensors") == !round);
        th_module *again = from_folder("model", (th_folder_load_options){0});
        ck_assert_uint_eq(th_module_crc32c(again), th_module_crc32c(round ? new : model));
        th_module_free(again);
    }
}
END_TEST

/* -- errors -- */

/* Copies the folder "model" to "copy". */
static void copy_model(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s/copy && cp -a %s/model %s/copy", folder, folder, folder);
    ck_assert_int_eq(system(command), 0);
}

/* Checks that "model" has the files of "copy", with the same bytes, and no others. */
static void expect_unchanged(void)
{
    char command[256];
    snprintf(command, sizeof command, "diff -r %s/copy %s/model", folder, folder);
    ck_assert_int_eq(system(command), 0);
}

/* A resource of the process that ends while files are written. */
static const struct shortage {
    bool counts_files; /* otherwise the size of a file is limited */
    rlim_t most;
    const char *file; /* the end of its name */
    int error;
} shortages[] = {
    {false, 20000, ".safetensors", EFBIG}, /* reached in a later shard: the embedding fits */
    {false, 200, "model-00001-of-00021.safetensors", EFBIG},
    {true, 12, ".safetensors", EMFILE},
};

static struct rlimit limit_of(const struct shortage *s)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(s->counts_files ? RLIMIT_NOFILE : RLIMIT_FSIZE, &limit), 0);
    return limit;
}

static void set_limit(const struct shortage *s, rlim_t most)
{
    struct rlimit limit = limit_of(s);
    limit.rlim_cur = most;
    ck_assert_int_eq(setrlimit(s->counts_files ? RLIMIT_NOFILE : RLIMIT_FSIZE, &limit), 0);
}

/* The older model stays, with the bits that it had; without one, nothing is in the folder. Then the export succeeds. */
START_TEST(an_error_while_writing_changes_nothing)
{
    const struct shortage *s = &shortages[_i];
    const struct rlimit before = limit_of(s);
    char words[128];
    signal(SIGXFSZ, SIG_IGN);
    th_module *old = model_of(ctx, &models[0].options), *new = model_of(ctx, &models[1].options);
    for (int64_t size = -1; size <= 100000; size += size < 0 ? 1 : 100000) { /* no model, one file, several */
        if (size < 0)
            ck_assert_int_eq(mkdir(in_folder("model"), 0700), 0);
        else
            export_to(old, "model", (th_export_options){.shard_bytes = size});
        copy_model();
        const int descriptor = next_descriptor();
        set_limit(s, s->most);
        const th_status status =
            th_language_model_export(new, in_folder("model"), &(th_export_options){.shard_bytes = 1});
        set_limit(s, before.rlim_cur);
        snprintf(words, sizeof words, "%s: %s", s->file, strerror(s->error));
        expect_status(status, TH_ERROR_FILE, words);
        ck_assert_int_eq(next_descriptor(), descriptor);
        expect_unchanged();
        if (size >= 0)
            expect_same_logits(from_folder("model", (th_folder_load_options){0}), old, "the older model");
    }
    export_to(new, "model", (th_export_options){.shard_bytes = 1});
    expect_same_logits(from_folder("model", (th_folder_load_options){0}), new, "the new model");
}
END_TEST

/* An error after the first change leaves a folder that is not a model. */
START_TEST(an_error_while_publishing_leaves_no_model)
{
    th_module *model = model_of(ctx, &models[0].options);
    export_to(model, "model", (th_export_options){.shard_bytes = 100000});
    ck_assert_int_eq(mkdir(in_folder(one_file), 0700), 0); /* which several files replace */
    const int entries = count_entries(), descriptor = next_descriptor();
    expect_status(th_language_model_export(model, in_folder("model"), &(th_export_options){.shard_bytes = 30000}),
                  TH_ERROR_FILE, "model.safetensors: Is a directory");
    ck_assert_int_eq(next_descriptor(), descriptor);
    ck_assert_int_eq(count_entries(), entries - 2); /* no config.json, no index, nothing unfinished */
    expect_failure(th_language_model_from_pretrained(ctx, in_folder("model")) == NULL, TH_ERROR_FILE, "config.json");
    ck_assert_int_eq(rmdir(in_folder(one_file)), 0);
    export_to(model, "model", (th_export_options){.shard_bytes = 30000});
    ck_assert_int_eq(count_entries(), check_files(model, 30000) + 2);
    ck_assert_int_eq(mkdir(in_folder("busy"), 0700), 0);
    ck_assert_int_eq(mkdir(in_folder("busy/model.safetensors.index.json"), 0700), 0);
    for (int64_t size = 0; size <= 30000; size += 30000) {
        const th_export_options options = {.shard_bytes = size};
        expect_status(th_language_model_export(model, in_folder("busy"), &options), TH_ERROR_FILE,
                      "model.safetensors.index.json: Is a directory");
        ck_assert(!is_there("busy/config.json"));
    }
}
END_TEST

START_TEST(no_memory_changes_nothing)
{
    th_module *model = model_of(ctx, &models[_i].options);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    ck_assert_int_eq(th_module_store(model, TH_Q8_0), TH_OK);
    export_to(model, "model", (th_export_options){.family = models[_i].family});
    copy_model();
    const int descriptor = next_descriptor();
    int64_t failed = 0;
    for (bool reached = true; reached; failed++) {
        memory.fail_at = memory.calls + failed + 1;
        const th_export_options options = {.family = models[_i].family, .shard_bytes = 30000, .type = TH_BFLOAT16};
        const th_status status = th_language_model_export(model, in_folder("model"), &options);
        reached = memory.calls >= memory.fail_at;
        memory.fail_at = 0;
        ck_assert_int_eq(status, reached ? TH_ERROR_MEMORY : TH_OK);
        if (reached) {
            th_error_clear(ctx);
            expect_unchanged();
        }
        ck_assert_int_eq(next_descriptor(), descriptor);
    }
    ck_assert_int_gt(failed, 3);
    check_files(model, 30000);
}
END_TEST

START_TEST(a_negative_size_is_an_error)
{
    expect_status(th_language_model_export(model_of(ctx, &models[0].options), in_folder("model"),
                                           &(th_export_options){.shard_bytes = -1}),
                  TH_ERROR_ARGUMENT, "shard_bytes must not be negative, it is -1");
    ck_assert(!is_there("model"));
}
END_TEST

/* -- stored weights -- */

static const th_dtype types[] = {TH_BFLOAT16, TH_FLOAT16, TH_Q8_0, TH_Q4_0};
enum { TYPES = sizeof types / sizeof *types };

/* A stored model is written as the same model in float32, in every type of the files; loading it gives the same
 * logits. Positions that rotate neighbors too, whose rows are reordered. */
START_TEST(stored_weights_are_exported)
{
    static const th_dtype written[] = {TH_FLOAT32, TH_BFLOAT16, TH_FLOAT16};
    const struct written *w = &models[_i / 2];
    th_language_model_options options = w->options;
    const bool neighbors = _i % 2;
    if (neighbors)
        options.block.scores.rotary_pairing = TH_ROTARY_NEIGHBORS;
    for (int i = 0; i < TYPES; i++) {
        th_module *stored = model_of(ctx, &options), *wide = th_language_model_new(ctx, &options);
        ck_assert_int_eq(th_module_freeze(stored, true), TH_OK);
        ck_assert_int_eq(th_module_store(stored, types[i]), TH_OK);
        ck_assert_int_eq(th_weights_save(stored, in_folder("weights")), TH_OK);
        ck_assert_int_eq(th_module_freeze(wide, true), TH_OK);
        ck_assert_int_eq(th_module_store(wide, types[i]), TH_OK);
        ck_assert_int_eq(th_weights_load(wide, in_folder("weights"), NULL), TH_OK);
        ck_assert_int_eq(th_module_store(wide, TH_FLOAT32), TH_OK);
        const uint32_t before = th_module_crc32c(stored);
        for (int j = 0; j < 3; j++) {
            const th_export_options given = {.family = w->family, .type = written[j], .shard_bytes = j * 50000};
            export_to(stored, "model", given);
            copy_model();
            export_to(wide, "model", given);
            expect_unchanged();
        }
        export_to(stored, "model", (th_export_options){.family = w->family});
        if (!neighbors || w->options.positions == TH_POSITIONS_LEARNED)
            expect_same_logits(from_folder("model", (th_folder_load_options){0}), stored, w->family);
        ck_assert_uint_eq(th_module_crc32c(stored), before);
        th_module_free(stored);
        th_module_free(wide);
    }
}
END_TEST

/* Weights that are stored as the type of the file keep their bits, NaN as well. */
START_TEST(stored_bits_are_written)
{
    const th_dtype type = types[_i];
    th_module *model = model_of(ctx, &models[WHOLE].options);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    ck_assert_int_eq(th_module_store(model, type), TH_OK);
    th_tensor *weight = th_module_find_parameter(model, "layers.1.linear2.weight");
    uint16_t *bits = th_data(weight);
    for (int64_t i = 0; i < th_numel(weight); i++)
        bits[i] = (uint16_t)(i * 47); /* every exponent */
    export_to(model, "model", (th_export_options){.type = type, .shard_bytes = 10000});
    const th_module *again = from_folder("model", (th_folder_load_options){.stored = true});
    const th_tensor *loaded = th_module_find_parameter(again, "layers.1.linear2.weight");
    ck_assert_int_eq(th_dtype_of(loaded), type);
    ck_assert(memcmp(th_data_const(loaded), bits, (size_t)th_numel(weight) * sizeof *bits) == 0);
}
END_TEST

/* Without a type, stored weights become float64 if the other weights are. */
START_TEST(the_type_of_the_other_weights)
{
    ck_assert_int_eq(th_set_default_dtype(ctx, TH_FLOAT64), TH_OK);
    th_module *model = model_of(ctx, &models[WHOLE].options);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    ck_assert_int_eq(th_module_store(model, TH_Q8_0), TH_OK);
    export_to(model, "model", (th_export_options){0});
    size_t bytes;
    char *config = read_bytes(in_folder("model/config.json"), &bytes);
    ck_assert_ptr_nonnull(strstr(config, "\"torch_dtype\": \"float64\""));
    free(config);
    th_safetensors *file = th_safetensors_open(ctx, in_folder(one_file));
    for (int64_t i = 0; i < th_safetensors_count(file); i++)
        ck_assert_str_eq(th_safetensors_at(file, i)->type, "F64");
    th_safetensors_close(file);
    th_module *again = th_language_model_from_pretrained(ctx, in_folder("model"));
    ck_assert_int_eq(th_module_store(model, TH_FLOAT64), TH_OK);
    ck_assert_uint_eq(th_module_crc32c(again), th_module_crc32c(model));
}
END_TEST

/* One tensor is converted at a time. */
START_TEST(memory_of_an_export)
{
    th_language_model_options options = models[WHOLE].options;
    options.vocabulary = 4000;
    options.layers = 6;
    th_module *model = model_of(ctx, &options);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    ck_assert_int_eq(th_module_store(model, TH_Q8_0), TH_OK);
    export_to(model, "model", (th_export_options){0}); /* takes the memory that the context keeps */
    const size_t table = (size_t)4000 * E * sizeof(float), before = th_memory(ctx).live;
    th_memory_reset_peak(ctx);
    export_to(model, "model", (th_export_options){.type = TH_FLOAT16});
    ck_assert_uint_le(th_memory(ctx).peak - before, table * 3 / 2 + (200 << 10));
    ck_assert_uint_eq(th_memory(ctx).live, before);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("hugging_face_shards", setup, teardown);
    tcase_add_loop_test(tests, every_size_loads, 0, MODELS);
    tcase_add_test(tests, older_weights_are_removed);
    tcase_add_test(tests, other_files_stay);
    tcase_add_test(tests, links_within_the_folder_stay);
    tcase_add_loop_test(tests, an_error_while_writing_changes_nothing, 0, sizeof shortages / sizeof *shortages);
    tcase_add_test(tests, an_error_while_publishing_leaves_no_model);
    tcase_add_loop_test(tests, no_memory_changes_nothing, 0, MODELS);
    tcase_add_test(tests, a_negative_size_is_an_error);
    tcase_add_loop_test(tests, stored_weights_are_exported, 0, 2 * MODELS);
    tcase_add_loop_test(tests, stored_bits_are_written, 0, 2);
    tcase_add_test(tests, the_type_of_the_other_weights);
    tcase_add_test(tests, memory_of_an_export);
    return run_suites();
}

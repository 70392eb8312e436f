/* Files of programs (tapehead/files.h), and files that belong together: after a failure all of them are the old ones. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tapehead/models.h"

#include "folder.h"

#include "context.h"

static void setup(void)
{
    make_folder();
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

/* -- single files -- */

START_TEST(test_read)
{
    th_text text = {0};
    const char *path = in_folder("file");
    write_bytes(path, "a\0bc", 4);
    ck_assert_int_eq(th_file_read(ctx, path, 100, &text), TH_OK);
    ck_assert(text.count == 4 && memcmp(text.bytes, "a\0bc", 5) == 0);
    ck_assert_int_eq(th_file_read(ctx, path, 3, &text), TH_OK);
    ck_assert(text.count == 7 && memcmp(text.bytes, "a\0bca\0b", 8) == 0);
    ck_assert_int_eq(th_file_read(ctx, path, 0, &text), TH_OK);
    write_bytes(path, "", 0);
    ck_assert_int_eq(th_file_read(ctx, path, 100, &text), TH_OK);
    ck_assert_uint_eq(text.count, 7);
    th_text_free(&text);
    ck_assert_int_eq(th_file_read(ctx, path, 100, &text), TH_OK); /* an empty file is an empty text */
    ck_assert(text.count == 0 && text.bytes[0] == 0);
    th_text_free(&text);
}
END_TEST

/* Neither a pipe without a writer nor a device without an end makes the call wait. */
START_TEST(test_read_of_other_things)
{
    th_text text = {0};
    const int descriptor = next_descriptor();
    ck_assert_int_eq(mkfifo(in_folder("pipe"), 0600), 0);
    ck_assert_int_eq(symlink("/dev/zero", in_folder("zero")), 0);
    static const char *const names[] = {"pipe", "zero", "."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        expect_status(th_file_read(ctx, in_folder(names[i]), 100, &text), TH_ERROR_FILE, "it is not a regular file");
    expect_status(th_file_read(ctx, in_folder("none"), 100, &text), TH_ERROR_FILE, "none: No such file");
    expect_status(th_file_read(ctx, NULL, 100, &text), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_file_read(ctx, in_folder("none"), 100, NULL), TH_ERROR_ARGUMENT, "the text is NULL");
    expect_status(th_file_read(NULL, in_folder("none"), 100, &text), TH_ERROR_ARGUMENT, "the context is NULL");
    ck_assert(text.bytes == NULL);
    ck_assert_int_eq(next_descriptor(), descriptor);
}
END_TEST

static void expect_content(const char *path, const char *content)
{
    size_t count;
    char *bytes = read_bytes(path, &count);
    ck_assert_msg(count == strlen(content) && memcmp(bytes, content, count) == 0, "%s has %s", path, bytes);
    free(bytes);
}

START_TEST(test_write)
{
    const char *path = in_folder("file");
    ck_assert_int_eq(th_file_write(ctx, path, "old", 3), TH_OK);
    ck_assert_int_eq(chmod(path, 0604), 0);
    ck_assert_int_eq(th_file_write(ctx, path, "newer", 5), TH_OK);
    expect_content(path, "newer");
    struct stat status;
    ck_assert(stat(path, &status) == 0 && (status.st_mode & 0777) == 0604);
    ck_assert_int_eq(th_file_write(ctx, path, NULL, 0), TH_OK);
    expect_content(path, "");
    ck_assert_int_eq(count_files(), 1);
    expect_status(th_file_write(ctx, in_folder("none/file"), "x", 1), TH_ERROR_FILE, "No such file");
    expect_status(th_file_write(ctx, path, NULL, 1), TH_ERROR_ARGUMENT, "the bytes are NULL");
    expect_status(th_file_write(ctx, NULL, "x", 1), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_file_write(NULL, path, "x", 1), TH_ERROR_ARGUMENT, "the context is NULL");
}
END_TEST

/* A link out of the folder is replaced, and a pipe that nobody reads is an error at once. */
START_TEST(test_write_over_other_things)
{
    struct stat status;
    const char *path = in_folder("inner/file");
    ck_assert_int_eq(mkdir(in_folder("inner"), 0700), 0);
    write_bytes(in_folder("victim"), "precious", 8);
    ck_assert_int_eq(symlink("../victim", path), 0);
    ck_assert_int_eq(th_file_write(ctx, path, "new", 3), TH_OK);
    ck_assert(lstat(path, &status) == 0 && S_ISREG(status.st_mode));
    expect_content(in_folder("victim"), "precious");
    const char *pipe = in_folder("pipe");
    ck_assert_int_eq(mkfifo(pipe, 0600), 0);
    expect_status(th_file_write(ctx, pipe, "x", 1), TH_ERROR_FILE, "pipe: ");
    ck_assert(lstat(pipe, &status) == 0 && S_ISFIFO(status.st_mode));
}
END_TEST

/* -- files that belong together -- */

/* Returns a number that depends on the names and the bytes of all files in a folder. */
static uint64_t content_of(const char *path)
{
    uint64_t sum = 0;
    DIR *directory = opendir(path);
    ck_assert_ptr_nonnull(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char file[512];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        size_t count;
        char *bytes = read_bytes(file, &count);
        uint64_t hash = 14695981039346656037u; /* FNV-1a; the sum does not depend on the order of the files */
        for (const char *c = entry->d_name; *c; c++)
            hash = (hash ^ (unsigned char)*c) * 1099511628211u;
        for (size_t i = 0; i < count; i++)
            hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
        sum += hash;
        free(bytes);
    }
    closedir(directory);
    return sum;
}

static th_module *model_of(int64_t width)
{
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = 5, .length = 6, .width = width, .heads = 1, .layers = 1});
    no_error();
    return model;
}

/* The largest size of a file. A full disk stops a program in the same way. */
static void limit_files(rlim_t bytes)
{
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Replaces what `first` wrote, while files can have ever more bytes. Until it succeeds, nothing changes, and a new folder
 * is not left. */
static void expect_all_or_nothing(th_status (*first)(const char *path), th_status (*next)(const char *path))
{
    const char *old = in_folder("old"), *fresh = in_folder("fresh");
    int failures = 0;
    ck_assert_int_eq(first(old), TH_OK);
    const uint64_t before = content_of(old);
    th_status status = TH_ERROR_FILE;
    for (rlim_t bytes = 0; status != TH_OK; bytes += 16 + bytes / 8) {
        limit_files(bytes);
        status = next(old);
        const th_status status_of_fresh = status == TH_OK ? TH_ERROR_FILE : (th_error_clear(ctx), next(fresh));
        limit_files(RLIM_INFINITY);
        if (status == TH_OK)
            break;
        expect_status(status_of_fresh, TH_ERROR_FILE, "File too large");
        ck_assert_msg(content_of(old) == before, "a file of at most %llu bytes", (unsigned long long)bytes);
        ck_assert_int_eq(access(fresh, F_OK), -1);
        failures++;
    }
    ck_assert_int_gt(failures, 5);
    ck_assert(content_of(old) != before);
}

static th_status export_narrow(const char *path)
{
    return th_language_model_export(model_of(4), path, NULL);
}

static th_status export_with_tokenizer(const char *path)
{
    const th_export_file files[] = {{"chat_template.jinja", "text", 4}, {"notes", NULL, 0}};
    return th_language_model_export(
        model_of(8), path,
        &(th_export_options){.tokenizer = th_tokenizer_characters_new(ctx, "abc", 3), .files = files, .n_files = 2});
}

static th_status save_adapter(const char *path, double alpha)
{
    th_module *model = model_of(4);
    ck_assert_int_eq(th_lora_attach(model, &(th_lora_options){.rank = 1, .alpha = alpha}), TH_OK);
    return th_lora_save(model, path, NULL);
}

static th_status save_first_adapter(const char *path)
{
    return save_adapter(path, 1);
}

static th_status save_next_adapter(const char *path)
{
    return save_adapter(path, 2);
}

START_TEST(test_small_disk)
{
    if (_i == 0)
        expect_all_or_nothing(export_narrow, export_with_tokenizer);
    else
        expect_all_or_nothing(save_first_adapter, save_next_adapter);
}
END_TEST

/* The tokenizer and other files become parts of the folder; the last one of a name counts. */
START_TEST(test_exported_files)
{
    const th_export_file files[] = {
        {"chat_template.jinja", "a\0b", 3}, {"tokenizer_config.json", "{}", 2}, {"notes", NULL, 0}, {"none", NULL, 0}};
    const th_export_options options = {
        .tokenizer = th_tokenizer_characters_new(ctx, "abc", 3), .files = files, .n_files = 4};
    ck_assert_int_eq(mkdir(in_folder("model"), 0700), 0);
    write_bytes(in_folder("model/notes"), "old", 3);
    ck_assert_int_eq(th_language_model_export(model_of(4), in_folder("model"), &options), TH_OK);
    expect_content(in_folder("model/tokenizer_config.json"), "{}");
    size_t count;
    char *bytes = read_bytes(in_folder("model/chat_template.jinja"), &count);
    ck_assert(count == 3 && memcmp(bytes, "a\0b", 3) == 0);
    free(bytes);
    ck_assert_int_eq(access(in_folder("model/notes"), F_OK), -1);
    ck_assert_int_eq(th_tokenizer_size(th_tokenizer_load(ctx, in_folder("model"))), 3);
    ck_assert_ptr_nonnull(th_language_model_from_pretrained(ctx, in_folder("model")));
    no_error();
}
END_TEST

static void refused(const th_export_options *options, const char *words)
{
    expect_status(th_language_model_export(model_of(4), in_folder("refused"), options), TH_ERROR_ARGUMENT, words);
    ck_assert_int_eq(access(in_folder("refused"), F_OK), -1);
}

START_TEST(test_refused_files)
{
    static const char *const names[] = {
        "", NULL, "a/b", "..", ".hidden", "config.json", "model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        refused(&(th_export_options){.files = &(th_export_file){names[i], "x", 1}, .n_files = 1},
                "files[0] cannot have");
    refused(&(th_export_options){.n_files = 1}, "files is NULL");
    refused(&(th_export_options){.tokenizer = th_tokenizer_bytes_new(ctx)}, "256 tokens, the model only 5");
    refused(&(th_export_options){.family = "typo"}, "unknown family");
}
END_TEST

/* A folder that has the name of a file is found before anything is replaced. */
START_TEST(test_folder_in_the_way)
{
    const char *path = in_folder("model");
    const th_export_file files[] = {{"notes", "new", 3}, {"folder", _i ? NULL : "x", 1}};
    ck_assert_int_eq(export_narrow(path), TH_OK);
    const uint64_t before = content_of(path);
    ck_assert_int_eq(mkdir(in_folder("model/folder"), 0700), 0);
    expect_status(th_language_model_export(model_of(8), path, &(th_export_options){.files = files, .n_files = 2}),
                  TH_ERROR_FILE, "folder: Is a directory");
    ck_assert_int_eq(rmdir(in_folder("model/folder")), 0);
    ck_assert(content_of(path) == before);
}
END_TEST

int main(void)
{
    TCase *single = new_suite("files", setup, teardown), *sets = new_suite("sets of files", setup, teardown);
    tcase_add_test(single, test_read);
    tcase_add_test(single, test_read_of_other_things);
    tcase_add_test(single, test_write);
    tcase_add_test(single, test_write_over_other_things);
    tcase_add_loop_test(sets, test_small_disk, 0, 2);
    tcase_add_test(sets, test_exported_files);
    tcase_add_test(sets, test_refused_files);
    tcase_add_loop_test(sets, test_folder_in_the_way, 0, 2);
    return run_suites();
}

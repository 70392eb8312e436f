/* Messages never control a terminal, for any bytes in the names of a file, a path or a program. The test takes files
 * of every format, replaces each string in turn by one with control and format characters, and loads the file. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "tensor/visible.h"

#include "context.h"
#include "folder.h"

/* An OSC sequence, a C1 control, DEL, direction controls, a line separator, an Arabic letter mark, a tag. */
#define EVIL                                                                                                           \
    "\x1b]0;o\x07\xc2\x9b"                                                                                             \
    "5m\x7f\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8\xd8\x9c\xf3\xa0\x81\x81\r\n"
#define EVIL_JSON "\\u001b]0;o\\u0007\\u009b5m\\u007f\\u202e\\u2066\\u2028\\u061c\\udb40\\udc41\\r\\n"

static int escaped; /* number of messages with an escape */

static void setup(void)
{
    make_folder();
    ctx = th_context_new(&(th_context_options){.threads = 1, .seed = 1});
    escaped = 0;
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

/* Returns true if a message has a raw control or format character. The list differs from the library's. */
static bool has_raw(const char *message)
{
    static const char *const sequences[] = {
        "\xc2\xad",     "\xd8\x9c",     "\xe2\x80\x8b", "\xe2\x80\x8e", "\xe2\x80\x8f",    "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaa", "\xe2\x80\xae", "\xe2\x81\xa0", "\xe2\x81\xa6",    "\xe2\x81\xa9",
        "\xef\xbb\xbf", "\xef\xb8\x8f", "\xef\xbf\xb9", "\xe1\xa0\x8e", "\xf3\xa0\x81\x81"};
    for (const unsigned char *c = (const unsigned char *)message; *c; c++)
        if (*c < 0x20 || *c == 0x7f || (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0))
            return true;
    for (size_t i = 0; i < sizeof sequences / sizeof *sequences; i++)
        if (strstr(message, sequences[i]))
            return true;
    return false;
}

static void check_line(const char *line, void *user)
{
    (void)user;
    ck_assert_msg(!has_raw(line), "a raw control or format character in: %s", line);
    escaped += strstr(line, "\\u001b") != NULL;
}

/* Checks and clears the pending error, if any. */
static void check_message(void)
{
    check_line(th_error_message(ctx), NULL);
    th_error_clear(ctx);
}

/* -- the escapes -- */

START_TEST(invisible_characters_are_escaped)
{
    static const struct {
        uint32_t first, last;
        bool visible;
    } ranges[] = {
        {0, 0x1f, false},         {0x20, 0x7e, true},        {0x7f, 0x9f, false},       {0xa0, 0xac, true},
        {0xad, 0xad, false},      {0xae, 0x34e, true},       {0x61c, 0x61c, false},     {0x61d, 0x115e, true},
        {0x2010, 0x2027, true},   {0x200b, 0x200f, false},   {0x2028, 0x202e, false},   {0x202f, 0x205f, true},
        {0x2060, 0x206f, false},  {0x4e00, 0x9fff, true},    {0xfeff, 0xfeff, false},   {0xfffc, 0xfffd, true},
        {0x1f600, 0x1f64f, true}, {0xe0001, 0xe007f, false}, {0x10ffff, 0x10ffff, true}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        for (uint32_t code = ranges[i].first; code <= ranges[i].last; code++)
            ck_assert_msg(code == 0x34f || th_is_visible(code) == ranges[i].visible, "U+%04X", (unsigned)code);
    char text[64] = "a: ";
    th_append_visible(text, sizeof text, "\xc3\xa9\x1b\t\n\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81\xff\xe2\x80");
    ck_assert_str_eq(text, "a: \xc3\xa9\\u001b\\t\\n\\u009b\\u202e\\U000e0041\\xff\\xe2\\x80");
    char small[8] = "";
    th_append_visible(small, sizeof small, "ab\x1b\x1b"); /* an escape is never cut */
    ck_assert_str_eq(small, "ab");
    char quoted[TH_QUOTED];
    ck_assert_str_eq(th_quote(EVIL, quoted),
                     "\\u001b]0;o\\a\\u009b5m\\u007f\\u202e\\u2066\\u2028\\u061c\\U000e0041...");
    for (int bytes = 0; bytes < 80; bytes++) { /* a character is never cut */
        char long_text[100] = "";
        for (int i = 0; i < bytes; i++)
            strcat(long_text, "x");
        strcat(long_text, "\xe2\x82\xac\x1b\xe2\x82\xac");
        th_quote(long_text, quoted);
        ck_assert_uint_le(strlen(quoted), 63);
        ck_assert_ptr_null(strstr(quoted, "\\x"));
    }
}
END_TEST

/* -- paths and names of the program -- */

START_TEST(paths_are_escaped_in_messages)
{
    const char *path = in_folder("none/" EVIL);
    th_tensor *t = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 2));
    (void)!th_npy_write(t, path);
    check_message();
    th_npy_read(ctx, path);
    check_message();
    (void)!th_picture_heatmaps(t, path, NULL);
    check_message();
    th_json_log_open(ctx, path, NULL);
    check_message();
    th_json_log_series(ctx, path, "a");
    check_message();
    th_event_log_open(ctx, path, NULL);
    check_message();
    th_safetensors_open(ctx, path);
    check_message();
    (void)!th_safetensors_write(ctx, path, &(th_named_tensor){EVIL, t}, 1, NULL, 0);
    check_message();
    th_tokenizer_load(ctx, path);
    check_message();
    th_token_file_open(ctx, path, NULL);
    check_message();
    th_token_writer_open(ctx, path, 10);
    check_message();
    th_language_model_from_pretrained(ctx, path);
    check_message();
    ck_assert_int_eq(escaped, 12);
    th_module *m = th_dense_new(ctx, 2, 2, NULL);
    th_module_add_parameter(m, EVIL ".x", TH_SHAPE(1));
    check_message();
    (void)!th_weights_save(m, path);
    check_message();
    ck_assert_int_eq(escaped, 14);
}
END_TEST

/* -- files -- */

/* The bytes of a file, and which of them are JSON. */
typedef struct sample_file {
    char *bytes;
    size_t count, begin, end;
} sample_file;

/* Reads a JSON file, or a safetensors file. The caller frees the bytes. */
static sample_file json_template(const char *path)
{
    sample_file t = {0};
    t.bytes = read_bytes(path, &t.count);
    t.end = t.count;
    return t;
}

static sample_file safetensors_template(const char *path)
{
    sample_file t = json_template(path);
    uint64_t header;
    memcpy(&header, t.bytes, sizeof header);
    t.begin = 8;
    t.end = 8 + header;
    return t;
}

/* Writes the sample_file to a file, with the bytes from `from` to `to` replaced. */
static void write_replaced(const char *path, const sample_file *t, size_t from, size_t to, const char *by)
{
    const size_t inserted = strlen(by), all = t->count - (to - from) + inserted;
    const uint64_t header = t->end - t->begin - (to - from) + inserted;
    char *made = malloc(all);
    memcpy(made, t->bytes, from);
    memcpy(made + from, by, inserted);
    memcpy(made + from + inserted, t->bytes + to, t->count - to);
    if (t->begin == 8)
        memcpy(made, &header, sizeof header);
    write_bytes(path, made, all);
    free(made);
}

/* Replaces each string of the sample_file in turn, and calls load for the file at path. The new strings are control
 * characters as JSON escapes, as raw bytes, and as JSON escapes after the old string. */
static void replace_each_string(const char *path, const sample_file *t, int max, void (*load)(const char *path))
{
    for (size_t from = t->begin; from < t->end && max > 0; from++) {
        if (t->bytes[from] != '"')
            continue;
        size_t to = ++from;
        for (; t->bytes[to] != '"'; to++)
            to += t->bytes[to] == '\\';
        const char *const by[] = {EVIL_JSON, EVIL, EVIL_JSON};
        for (int i = 0; i < 3; i++) {
            write_replaced(path, t, i == 2 ? to : from, to, by[i]);
            load(path);
        }
        from = to;
        max--;
    }
}

/* Writes a safetensors file with this text as its header, and some numbers. */
static void write_safetensors(const char *path, const char *text)
{
    const uint64_t length = strlen(text);
    char *made = calloc(1, 8 + length + 24);
    memcpy(made, &length, 8);
    memcpy(made + 8, text, length);
    write_bytes(path, made, 8 + length + 24);
    free(made);
}

static void load_safetensors(const char *path)
{
    th_safetensors *file = th_safetensors_open(ctx, path);
    check_message();
    for (int64_t i = 0; i < th_safetensors_count(file); i++) {
        const char *name = th_safetensors_at(file, i)->name;
        th_tensor *other = th_zeros(ctx, TH_INT32, TH_SHAPE(5));
        th_safetensors_read(file, name);
        check_message();
        (void)!th_safetensors_read_into(file, name, other);
        check_message();
    }
    th_safetensors_read(file, EVIL);
    check_message();
    th_safetensors_close(file);
    th_module *m = th_dense_new(ctx, 2, 2, NULL);
    (void)!th_weights_load(m, path, &(th_weights_options){.report = check_line});
    check_message();
    (void)!th_checkpoint_load(path, &(th_checkpoint){.model = m, .report = check_line});
    check_message();
    free(th_checkpoint_configuration(ctx, path));
    check_message();
    th_module_free(m);
    th_tape_clear(ctx);
}

START_TEST(names_in_safetensors_are_escaped)
{
    static const char header[] = "{\"__metadata__\":{\"k\":\"v\",\"k2\":\"v\"},"
                                 "\"weight\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                                 "\"bias\":{\"dtype\":\"F8_E4M3\",\"shape\":[8],\"data_offsets\":[16,24]}}";
    char path[100];
    strcpy(path, in_folder("a.safetensors"));
    write_safetensors(path, header);
    sample_file t = safetensors_template(path);
    replace_each_string(path, &t, INT_MAX, load_safetensors);
    free(t.bytes);
    ck_assert_int_gt(escaped, 40);
#define EVIL_ENTRY(size, offsets)                                                                                      \
    "\"" EVIL_JSON "\":{\"dtype\":\"F32\",\"shape\":[" size "],\"data_offsets\":[" offsets "]}"
    write_safetensors(path, "{" EVIL_ENTRY("6", "0,24") "," EVIL_ENTRY("0", "24,24") "}");
    th_safetensors_open(ctx, path);
    expect_error(TH_ERROR_FILE, "the key \"\\u001b]0;o\\a\\u009b");
}
END_TEST

START_TEST(names_in_checkpoints_are_escaped)
{
    const char *path = in_folder("run.safetensors");
    th_module *m = th_dense_new(ctx, 2, 2, NULL);
    th_optimizer *o = th_adam_w_new(m, &(th_adam_options){.learning_rate = 0.1});
    int64_t position = 7;
    const th_checkpoint_number number = {.name = "position", .integer = &position};
    const th_checkpoint saved = {
        .model = m, .optimizer = o, .configuration = "{\"a\": \"b\"}", .numbers = &number, .n_numbers = 1};
    ck_assert_int_eq(th_checkpoint_save(path, &saved), TH_OK);
    char source_path[100];
    strcpy(source_path, path);
    sample_file t = safetensors_template(source_path);
    for (size_t at = t.begin; at < t.end; at++) { /* every quote, also inside the state, which is a string */
        if (t.bytes[at] != '"')
            continue;
        write_replaced(source_path, &t, at + 1, at + 1, "\\u001b\\u202e");
        th_checkpoint c = saved;
        c.report = check_line;
        (void)!th_checkpoint_load(source_path, &c);
        check_message();
        load_safetensors(source_path);
    }
    free(t.bytes);
    ck_assert_int_gt(escaped, 20);
}
END_TEST

static void load_index(const char *path)
{
    th_safetensors_close(th_safetensors_open(ctx, path));
    check_message();
}

START_TEST(names_in_an_index_are_escaped)
{
    static const char index[] = "{\"metadata\": {\"total_size\": 16, \"format\": \"pt\"}, \"weight_map\": "
                                "{\"weight\": \"model-1.safetensors\", \"bias\": \"model-1.safetensors\"}}";
    const char *header = "{\"weight\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                         "\"bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}}";
    char path[100];
    strcpy(path, in_folder("model.safetensors.index.json"));
    write_safetensors(in_folder("model-1.safetensors"), header);
    write_bytes(path, index, sizeof index - 1);
    sample_file t = json_template(path);
    replace_each_string(path, &t, INT_MAX, load_index);
    free(t.bytes);
    ck_assert_int_ge(escaped, 6);
    write_safetensors(in_folder(EVIL), "{\"x\":1}"); /* a damaged file with such a name; the index contains the name */
    const char *shard = "{\"weight_map\": {\"weight\": \"" EVIL_JSON "\"}}";
    write_bytes(path, shard, strlen(shard));
    load_index(path);
    ck_assert_int_ge(escaped, 7);
}
END_TEST

static void load_pretrained(const char *path)
{
    (void)path;
    th_language_model_options options;
    int64_t token;
    th_module_free(th_language_model_from_pretrained(ctx, folder));
    check_message();
    (void)!th_pretrained_options(ctx, folder, &options);
    check_message();
    (void)!th_pretrained_end_token(ctx, folder, &token);
    check_message();
}

START_TEST(names_in_config_are_escaped)
{
    static const char *const models[] = {"gpt2", "llama"};
    for (int i = 0; i < 2; i++) {
        char source_path[256], config_path[100], weights_path[100];
        strcpy(config_path, in_folder("config.json"));
        strcpy(weights_path, in_folder("model.safetensors"));
        snprintf(source_path, sizeof source_path, FIXTURES "/hugging_face/%s/config.json", models[i]);
        sample_file config = json_template(source_path);
        snprintf(source_path, sizeof source_path, FIXTURES "/hugging_face/%s/model.safetensors", models[i]);
        sample_file weights = safetensors_template(source_path);
        write_bytes(weights_path, weights.bytes, weights.count);
        replace_each_string(config_path, &config, INT_MAX, load_pretrained);
        write_bytes(config_path, config.bytes, config.count);
        replace_each_string(weights_path, &weights, 20, load_pretrained);
        free(config.bytes);
        free(weights.bytes);
    }
    ck_assert_int_gt(escaped, 20);
}
END_TEST

static void load_tokenizer(const char *path)
{
    th_token_list tokens = {0};
    th_tokenizer *t = th_tokenizer_load(ctx, path);
    check_message();
    if (t)
        (void)!th_tokenizer_encode(t, "a\x1b" EVIL, sizeof EVIL + 1, &tokens);
    check_message();
    th_token_list_free(&tokens);
    th_tokenizer_free(t);
}

START_TEST(names_in_tokenizers_are_escaped)
{
    static const char json[] =
        "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [{\"id\": 4, \"content\": "
        "\"<s>\", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": "
        "true}], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
        "\"Split\", \"pattern\": {\"Regex\": \"\\\\s+|[^\\\\s]+\"}, \"behavior\": \"Isolated\", \"invert\": false}, "
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": false}]}, "
        "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\", "
        "\"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [], \"special_tokens\": "
        "{\"<s>\": {\"id\": \"<s>\", \"ids\": [4], \"tokens\": [\"<s>\"]}}}, \"decoder\": {\"type\": \"ByteLevel\"}, "
        "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": null, "
        "\"end_of_word_suffix\": \"\", \"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false, "
        "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"aba\": 3}, \"merges\": [\"a b\", \"ab a\"]}}";
    char path[100];
    strcpy(path, in_folder("tokenizer.json"));
    write_bytes(path, json, sizeof json - 1);
    sample_file t = json_template(path);
    replace_each_string(path, &t, INT_MAX, load_tokenizer);
    free(t.bytes);
    ck_assert_int_gt(escaped, 20);
    remove(path);
    escaped = 0;
    write_bytes(in_folder("vocab.json"), "{\"a\": 0, \"b\": 1}", 16);
    write_bytes(in_folder("merges.txt"), "#version: 0.2\na " EVIL "\n", 14 + 2 + sizeof EVIL);
    load_tokenizer(folder);
    ck_assert_int_gt(escaped, 0);
}
END_TEST

/* Formats without names: messages contain their bytes escaped, or not at all. */
START_TEST(bytes_of_other_formats_are_escaped)
{
    const char *path = in_folder("file");
    static const char *const headers[] = {
        "{'descr': '" EVIL "', 'fortran_order': False, 'shape': (2,), }\n",
        "{'descr': '<f4', '" EVIL "': False, 'shape': (2,), }\n",
        "{'descr': '<f4', 'fortran_order': " EVIL ", 'shape': (2,), }\n",
        EVIL,
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        char bytes[300] = "\x93NUMPY\x01\0";
        const size_t length = strlen(headers[i]);
        bytes[8] = (char)length;
        memcpy(bytes + 10, headers[i], length);
        write_bytes(path, bytes, 10 + length + 8);
        th_npy_read(ctx, path);
        ck_assert_int_eq(th_error_code(ctx), TH_ERROR_FILE);
        check_message();
    }
    char bytes[200];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (EVIL)[i % (sizeof EVIL - 1)];
    write_bytes(path, bytes, sizeof bytes);
    th_token_file_open(ctx, path, NULL);
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_FILE);
    check_message();
    th_json_log_series(ctx, path, EVIL);
    check_message();
    th_json_log_open(ctx, path, &(th_log_options){.resume = true});
    check_message();
    static const char repeated[] = "{\"step\": 1, \"\\u001b\": 1, \"\\u001b\": 2}\n";
    write_bytes(path, repeated, sizeof repeated - 1);
    th_json_log_series(ctx, path, "a");
    check_message();
    ck_assert_int_gt(escaped, 0);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("messages", setup, teardown);
    tcase_add_test(tests, invisible_characters_are_escaped);
    tcase_add_test(tests, paths_are_escaped_in_messages);
    tcase_add_test(tests, names_in_safetensors_are_escaped);
    tcase_add_test(tests, names_in_checkpoints_are_escaped);
    tcase_add_test(tests, names_in_an_index_are_escaped);
    tcase_add_test(tests, names_in_config_are_escaped);
    tcase_add_test(tests, names_in_tokenizers_are_escaped);
    tcase_add_test(tests, bytes_of_other_formats_are_escaped);
    return run_suites();
}

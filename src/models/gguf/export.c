/* Writes a language model as a GGUF file. The model's options decide about the architecture: the first one whose
 * values, read again, give the same options. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/core/modules.h"
#include "models/core/tensors.h"
#include "models/families/family.h"
#include "models/families/options.h"
#include "models/gguf/encoder.h"
#include "models/gguf/export.h"
#include "models/gguf/options.h"
#include "models/gguf/tokenizer.h"
#include "tapehead/gguf.h"
#include "tapehead/tape.h"

static const char operation[] = "language_model_export_gguf";

/* -- the architecture -- */

/* Writes the header of a file that has only the options, in memory. */
static bool write_options(const th_gguf_architecture *a, const th_language_model_options *model, char **text,
                          size_t *bytes)
{
    FILE *file = open_memstream(text, bytes);
    if (file == NULL)
        return false;
    th_gguf_writer w = {.file = file};
    fwrite("GGUF\3\0\0\0", 1, 8, file);
    th_gguf_write_uint64(file, 0);
    th_gguf_write_uint64(file, 0);
    th_gguf_write_options(&w, a, model);
    const bool written = fclose(file) == 0 && *text;
    if (written)
        memcpy(*text + 16, &w.values, sizeof w.values);
    return written;
}

/* Copies what tensors say, and values do not. */
static void copy_from_tensors(const th_gguf_architecture *a, const th_language_model_options *model,
                              th_language_model_options *read)
{
    const th_rotary_scaling *scaling = &model->block.scores.rotary_scaling;
    read->untied = model->untied;
    if (a->attention_biases) {
        read->block.no_attention_bias = model->block.no_attention_bias;
        read->block.no_output_bias = model->block.no_output_bias;
    }
    if (a->mlp_biases)
        read->block.no_mlp_bias = model->block.no_mlp_bias;
    if (a->attention_biases || a->mlp_biases)
        read->block.no_bias = model->block.no_bias;
    if (read->block.scores.rotary && th_gguf_has_factors(a, scaling))
        read->block.scores.rotary_scaling = *scaling;
    if (a->encoder)
        th_gguf_copy_encoder(model, read);
    read->block.scores.rotary_pairing = read->other_scores.rotary_pairing = TH_ROTARY_HALVES;
}

/* Removes differences that vanish in float32, the type of real numbers in the file. Returns the number of the
 * others. */
static int remove_rounding_differences(th_option_difference difference[TH_MAX_OPTIONS], int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if ((float)difference[i].a != (float)difference[i].b)
            difference[kept++] = difference[i];
    return kept;
}

/* Compares the model with what a file of the architecture would say. Returns the number of differences; -1 if the
 * values could not be read, -2 without memory. */
static int count_differences(int i, const th_language_model_options *model,
                             th_option_difference difference[TH_MAX_OPTIONS])
{
    const th_gguf_architecture *a = &th_gguf_architectures[i];
    char *text = NULL;
    size_t bytes = 0;
    th_gguf file;
    th_language_model_options read;
    th_context *ctx = th_context_new(&(th_context_options){.shapes_only = true});
    int found = -2;
    if (ctx && write_options(a, model, &text, &bytes) &&
        th_gguf_open_bytes(&file, ctx, operation, "the values", text, bytes)) {
        found = -1;
        if (th_gguf_read_options(&file, a, &read) == TH_OK) {
            th_language_model_options expected = read;
            copy_from_tensors(a, model, &expected);
            expected = th_normal_options(&expected);
            found = remove_rounding_differences(difference, th_options_compare(model, &expected, difference));
            th_options_release(ctx, &read);
        }
        th_gguf_close(&file);
    }
    if (ctx && th_error_code(ctx) == TH_ERROR_MEMORY)
        found = -2;
    th_context_free(ctx);
    free(text);
    return found;
}

static const char *name_of_architecture(int i)
{
    return th_gguf_architectures[i].name;
}

static const th_family *family_of_architecture(int i)
{
    return th_family_find(th_gguf_architectures[i].family);
}

/* Returns the number of the architecture of that name, or -1. */
static int find_architecture(const char *name)
{
    for (int i = 0; name && i < TH_GGUF_ARCHITECTURES; i++)
        if (strcmp(name, th_gguf_architectures[i].name) == 0)
            return i;
    return -1;
}

const th_gguf_architecture *th_gguf_choose_architecture(th_context *ctx, const char *asker,
                                                        const th_language_model_options *options, const char *only)
{
    static const th_candidates architectures = {
        "architecture", "GGUF", TH_GGUF_ARCHITECTURES, name_of_architecture, family_of_architecture, count_differences};
    const int chosen = th_first_candidate(ctx, asker, &architectures, options, find_architecture(only));
    return chosen < 0 ? NULL : &th_gguf_architectures[chosen];
}

/* -- checks -- */

th_status th_gguf_check_target(th_context *ctx, const char *asker, const char *path, const char *architecture)
{
    if (path == NULL || strlen(path) + 32 > TH_MAX_PATH)
        return th_fail(ctx, TH_ERROR_ARGUMENT, asker, path ? "the path is too long" : "the path is NULL");
    if (architecture && find_architecture(architecture) < 0) {
        char list[160];
        th_gguf_list_architectures(list, sizeof list);
        return th_fail(ctx, TH_ERROR_ARGUMENT, asker, "unknown architecture \"%.60s\"; %s are supported", architecture,
                       list);
    }
    if (th_is_shapes_only(ctx))
        return th_fail(ctx, TH_ERROR_STATE, asker, "a shapes-only context has no values");
    return TH_OK;
}

static th_status check_given(th_context *ctx, const th_language_model_options *m, const th_gguf_export_options *given)
{
    if (given->type != TH_FLOAT32 && !th_can_round_to(given->type))
        return th_fail(ctx, TH_ERROR_TYPE, operation,
                       "the type is %s; float32, float16, bfloat16, q8_0 and q4_0 are allowed",
                       th_dtype_name(given->type));
    if (given->has_end_token && (given->end_token < 0 || given->end_token >= m->vocabulary))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "end token %lld is outside the vocabulary of %lld",
                       (long long)given->end_token, (long long)m->vocabulary);
    if (given->has_begin_token && (given->begin_token < -1 || given->begin_token >= m->vocabulary))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "begin token %lld is outside the vocabulary of %lld",
                       (long long)given->begin_token, (long long)m->vocabulary);
    if (given->sentence && th_gguf_check_sentence(ctx, operation, given->sentence) != TH_OK)
        return th_error_code(ctx);
    if (given->tokenizer && !th_gguf_tokenizer_check(ctx, operation, given->tokenizer, m->vocabulary))
        return th_error_code(ctx);
    return TH_OK;
}

/* -- the file -- */

th_status th_gguf_publish(const th_gguf_export *e, const char *path, const char *values, size_t bytes, int64_t n_values)
{
    th_atomic_file f;
    errno = 0;
    bool written = th_atomic_begin(&f, path);
    if (written) {
        errno = 0;
        th_gguf_write_all(e, f.file, values, bytes, n_values);
        written = th_atomic_end(&f, !ferror(f.file) && !th_failed(e->ctx));
    }
    const int error_number = errno;
    if (th_failed(e->ctx) || written)
        return th_error_code(e->ctx);
    return th_fail(e->ctx, TH_ERROR_FILE, e->operation, "%.300s: %s", path, strerror(error_number));
}

/* -- the public function -- */

/* Writes the texts of the source. */
static void write_source_texts(th_gguf_writer *w, const th_gguf *source, bool named)
{
    for (int64_t i = 0; i < source->n_values; i++) {
        const th_gguf_value *v = &source->value[i];
        if (v->kind == TH_GGUF_STRING && strncmp(v->key, "general.", 8) == 0 &&
            strcmp(v->key, "general.architecture") != 0 && !(named && strcmp(v->key, "general.name") == 0))
            th_gguf_put_text(w, v->key, v->bytes, (size_t)v->count);
    }
}

/* Writes the tokens of the source that the tokenizer does not write. An illegal token is pending as an error. */
static void write_source_tokens(th_gguf_writer *w, const th_gguf *source, int64_t vocabulary, const th_tokenizer *t)
{
    static const char *const tokens[] = {TH_GGUF_UNKNOWN_TOKEN, TH_GGUF_PADDING_TOKEN, TH_GGUF_MASK_TOKEN,
                                         TH_GGUF_SEPARATOR_TOKEN};
    if (t && t->pieces.used)
        return;
    for (size_t i = t && !t->byte_level ? 1 : 0; i < sizeof tokens / sizeof *tokens; i++) {
        int64_t token = -1;
        if (th_gguf_integer(source, tokens[i], 0, vocabulary - 1, &token) && token >= 0)
            th_gguf_put_uint32(w, tokens[i], (uint32_t)token);
    }
}

/* Writes the values. source: NULL for none. Returns false if out of memory. */
static bool write_values(th_gguf_writer *w, const th_gguf_export *e, const th_gguf_export_options *given,
                         const th_gguf *source)
{
    th_gguf_write_options(w, e->architecture, e->options);
    th_gguf_write_pooling(w, e->architecture, e->options, given->sentence);
    th_gguf_put_uint32(w, "general.file_type", th_gguf_file_type(given->type));
    if (given->type == TH_Q8_0 || given->type == TH_Q4_0)
        th_gguf_put_uint32(w, "general.quantization_version", 2);
    if (given->name)
        th_gguf_put_text(w, "general.name", given->name, strlen(given->name));
    if (source) {
        write_source_texts(w, source, given->name != NULL);
        write_source_tokens(w, source, e->options->vocabulary, given->tokenizer);
    }
    const int64_t end = given->has_end_token ? given->end_token : -1;
    const bool written = th_gguf_write_tokenizer(w, given->tokenizer, e->options->vocabulary,
                                                 given->has_begin_token ? given->begin_token : end, end);
    if (given->chat_template)
        th_gguf_put_text(w, "tokenizer.chat_template", given->chat_template, strlen(given->chat_template));
    return written;
}

/* Makes the values in memory, which the caller frees. Sets *count to their number. */
static th_status make_values(const th_gguf_export *e, const th_gguf_export_options *given, char **values, size_t *bytes,
                             int64_t *count)
{
    th_context *ctx = e->ctx;
    th_gguf source;
    if (given->source && !th_gguf_open(&source, ctx, operation, given->source))
        return th_error_code(ctx);
    FILE *memory = open_memstream(values, bytes);
    th_gguf_writer w = {.file = memory};
    const bool made = memory && write_values(&w, e, given, given->source ? &source : NULL);
    *count = w.values;
    if (memory == NULL || fclose(memory) != 0 || *values == NULL || !made)
        (void)th_fail_memory(ctx, operation, *bytes); /* the error is pending */
    if (given->source)
        th_gguf_close(&source);
    return th_error_code(ctx);
}

/* Writes the whole file. */
static th_status write_file(const th_gguf_export *e, const char *path, const th_gguf_export_options *given)
{
    char *values = NULL;
    size_t bytes = 0;
    int64_t count = 0;
    if (make_values(e, given, &values, &bytes, &count) != TH_OK) {
        free(values);
        return th_error_code(e->ctx);
    }
    const th_status status = th_gguf_publish(e, path, values, bytes, count);
    free(values);
    return status;
}

th_status th_language_model_export_gguf(th_module *model, const char *path, const th_gguf_export_options *options)
{
    const th_gguf_export_options given = options ? *options : (th_gguf_export_options){0};
    if (!th_module_usable(model, operation))
        return model ? th_error_code(model->ctx) : TH_ERROR_ARGUMENT;
    th_context *ctx = model->ctx;
    const th_language_model_options *m = th_require_language_model(model, operation);
    if (m == NULL)
        return th_error_code(ctx);
    if (th_gguf_check_target(ctx, operation, path, given.architecture) != TH_OK || check_given(ctx, m, &given) != TH_OK)
        return th_error_code(ctx);
    const th_language_model_options normal = th_normal_options(m);
    th_gguf_export e = {.ctx = ctx, .operation = operation, .options = &normal, .type = given.type};
    e.architecture = th_gguf_choose_architecture(ctx, operation, m, given.architecture);
    if (e.architecture == NULL)
        return th_error_code(ctx);
    const th_family family = th_gguf_family(e.architecture);
    th_scope_begin(ctx, NULL);
    th_no_grad_begin(ctx);
    if (th_gguf_list(&e, model, &family) == TH_OK) {
        (void)(write_file(&e, path, &given) == TH_OK); /* the error is pending */
        th_gguf_list_free(&e);
    }
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
    return th_error_code(ctx);
}

/* Reads and writes what encoders have beside other models. */
#include "models/gguf/encoder.h"

#include <stdio.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/gguf/folder.h"
#include "models/gguf/options.h"
#include "models/text/characters.h"

static const char labels_key[] = "classifier.output_labels", pooling_key[] = "pooling_type";
static const char head_name[] = "cls.weight", output_name[] = "cls.output.weight", types_name[] = "token_types.weight";

/* llama.cpp's numbers of kinds of pooling. */
enum { POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST, POOLING_HEAD, POOLING_NUMBERS };

static const th_tensor_name head_tensors[] = {TH_HEAD_TRANSFORM("cls"), TH_HEAD_OUTPUT("cls.output"), {0}};
const th_family_head th_gguf_heads[] = {
    {"bert", {.kind = TH_HEAD_SEQUENCE, .transform = true, .activation = TH_TANH}, head_tensors, NULL, NULL}, {0}};

/* -- the head -- */

/* Copies the strings of an array, each with a NUL. Sets names[i] to string i. */
static void copy_strings(const th_gguf *file, const th_gguf_value *array, char *copy, const char **names)
{
    const char *at = array->bytes;
    for (uint64_t i = 0; i < array->count; i++) {
        size_t bytes;
        const char *text = th_gguf_next_string(&at, &bytes);
        if (th_valid_bytes(text, bytes) < bytes || memchr(text, 0, bytes))
            th_gguf_refuse(file, "label %llu is not UTF-8, or has a NUL character", (unsigned long long)i);
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
        names[i] = copy;
        copy += bytes + 1;
    }
}

/* Returns the names of labels; NULL with the error pending. */
static const char *const *read_names(const th_gguf *file, const th_gguf_value *array)
{
    const char *at = array->bytes;
    size_t bytes = (size_t)array->count * (sizeof(char *) + 1); /* all strings are in memory, so this cannot overflow */
    for (uint64_t i = 0; i < array->count; i++) {
        size_t text_bytes;
        th_gguf_next_string(&at, &text_bytes);
        bytes += text_bytes;
    }
    const char **names = th_allocate(file->ctx, bytes);
    if (names == NULL) {
        (void)th_fail_memory(file->ctx, file->operation, bytes);
        return NULL;
    }
    copy_strings(file, array, (char *)(names + array->count), names);
    const char *const *copy =
        th_failed(file->ctx) ? NULL : th_label_names_copy(file->ctx, file->operation, names, (int64_t)array->count);
    th_release(file->ctx, names, bytes);
    return copy;
}

static void read_head(const th_gguf *file, const th_gguf_architecture *a, const th_gguf_tensor *output,
                      th_head_options *head)
{
    char key[TH_GGUF_LONGEST_KEY];
    *head = th_gguf_heads[0].options;
    head->labels = output->shape.size[0];
    head->transform = th_gguf_find_tensor(file, head_name) != NULL;
    const th_gguf_value *names = th_gguf_array(file, th_gguf_key(a, labels_key, key), TH_GGUF_STRING);
    if (names && (int64_t)names->count != head->labels)
        th_gguf_refuse(file, "%s has %llu labels, but %s has %lld rows", key, (unsigned long long)names->count,
                       output_name, (long long)head->labels);
    else if (names)
        head->label_names = read_names(file, names);
}

/* -- options -- */

void th_gguf_read_encoder(const th_gguf *file, const th_gguf_architecture *a, th_language_model_options *o)
{
    const th_gguf_tensor *types = th_gguf_find_tensor(file, types_name);
    const th_gguf_tensor *output = th_gguf_find_tensor(file, output_name);
    char key[TH_GGUF_LONGEST_KEY];
    bool causal = false;
    th_gguf_flag(file, th_gguf_key(a, "attention.causal", key), &causal);
    if (causal)
        th_gguf_refuse(file, "%s is true", key);
    o->token_types = types ? types->shape.size[0] : 0;
    o->untied = o->classifier_bias = o->classifier_transform = false;
    o->no_classifier = output == NULL;
    if (output)
        read_head(file, a, output, &o->head);
}

void th_gguf_copy_encoder(const th_language_model_options *model, th_language_model_options *read)
{
    read->first_position = model->first_position; /* the rows before it are not written */
    read->token_types = model->token_types;
    if (model->head.kind != TH_HEAD_SEQUENCE)
        return;
    read->no_classifier = false;
    read->head = th_gguf_heads[0].options;
    read->head.labels = model->head.labels;
    read->head.transform = model->head.transform;
}

static void write_labels(th_gguf_writer *w, const th_gguf_architecture *a, const th_head_options *head)
{
    char key[TH_GGUF_LONGEST_KEY], usual[32];
    th_gguf_put_array(w, th_gguf_key(a, labels_key, key), TH_GGUF_STRING, (uint64_t)head->labels);
    for (int64_t i = 0; i < head->labels; i++) {
        snprintf(usual, sizeof usual, "LABEL_%lld", (long long)i);
        const char *name = head->label_names ? head->label_names[i] : usual;
        th_gguf_write_string(w->file, name, strlen(name));
    }
}

void th_gguf_write_encoder(th_gguf_writer *w, const th_gguf_architecture *a, const th_language_model_options *o)
{
    char key[TH_GGUF_LONGEST_KEY];
    th_gguf_put_flag(w, th_gguf_key(a, "attention.causal", key), false);
    th_gguf_put_uint32(w, "tokenizer.ggml.token_type_count", o->token_types > 0 ? (uint32_t)o->token_types : 1);
    if (o->head.kind != TH_HEAD_NONE)
        write_labels(w, a, &o->head);
}

/* -- pooling -- */

/* Returns llama.cpp's number of a kind of pooling; POOLING_NONE if it lacks that kind. */
static uint32_t number_of_pooling(th_pooling_kind kind)
{
    return kind == TH_POOL_MEAN   ? POOLING_MEAN
           : kind == TH_POOL_CLS  ? POOLING_CLS
           : kind == TH_POOL_LAST ? POOLING_LAST
                                  : POOLING_NONE;
}

static void read_sentence(const th_gguf *file, const th_gguf_architecture *a, th_sentence_options *options)
{
    static const th_pooling_kind kinds[] = {
        [POOLING_MEAN] = TH_POOL_MEAN, [POOLING_CLS] = TH_POOL_CLS, [POOLING_LAST] = TH_POOL_LAST};
    char key[TH_GGUF_LONGEST_KEY], length_key[TH_GGUF_LONGEST_KEY];
    int64_t number = POOLING_NONE;
    *options = (th_sentence_options){.normalize = true};
    th_gguf_integer(file, th_gguf_key(a, "context_length", length_key), 1, INT32_MAX, &options->length);
    if (!th_gguf_integer(file, th_gguf_key(a, pooling_key, key), 0, POOLING_NUMBERS - 1, &number))
        return;
    if (number == POOLING_NONE || number == POOLING_HEAD)
        th_gguf_refuse(file, "it has no pooling of sentence embeddings: %s is %s", key,
                       number == POOLING_HEAD ? "4, a classifier" : "0 or missing");
    else
        options->pooling = kinds[number];
}

th_status th_gguf_read_sentence(th_context *ctx, const char *operation, const char *path, th_sentence_options *options)
{
    th_gguf file;
    if (!th_gguf_open(&file, ctx, operation, path))
        return th_error_code(ctx);
    const th_gguf_architecture *a = th_gguf_architecture_of(&file);
    if (a)
        read_sentence(&file, a, options);
    th_gguf_close(&file);
    return th_error_code(ctx);
}

th_status th_gguf_check_sentence(th_context *ctx, const char *operation, const th_sentence_options *s)
{
    if (s->dense)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "a GGUF file has no dense layer behind the pooling");
    if (s->prompt[0])
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "a GGUF file has no prompt");
    if (number_of_pooling(s->pooling) == POOLING_NONE)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "a GGUF file has only the poolings cls, mean and lasttoken");
    return TH_OK;
}

void th_gguf_write_pooling(th_gguf_writer *w, const th_gguf_architecture *a, const th_language_model_options *options,
                           const th_sentence_options *sentence)
{
    char key[TH_GGUF_LONGEST_KEY];
    if (options->head.kind != TH_HEAD_NONE)
        th_gguf_put_uint32(w, th_gguf_key(a, pooling_key, key), POOLING_HEAD);
    else if (sentence)
        th_gguf_put_uint32(w, th_gguf_key(a, pooling_key, key), number_of_pooling(sentence->pooling));
}

/* WordPiece without tokenizer.json: the parts that BERT's tokenizer.json has, and vocab.txt, which has a token in each
 * line. */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/text/json/readers.h"

json_t *th_bert_normalizer_json(bool lower, bool chinese, json_t *accents)
{
    return json_pack("{s:s, s:b, s:b, s:o, s:b}", "type", "BertNormalizer", "clean_text", 1, "handle_chinese_chars",
                     (int)chinese, "strip_accents", accents, "lowercase", (int)lower);
}

json_t *th_word_piece_json(json_t *unknown)
{
    return json_pack("{s:s, s:o, s:s, s:i}", "type", "WordPiece", "unk_token", unknown, "continuing_subword_prefix",
                     "##", "max_input_chars_per_word", 100);
}

json_t *th_word_piece_decoder_json(void)
{
    return json_pack("{s:s, s:s, s:b}", "type", "WordPiece", "prefix", "##", "cleanup", 1);
}

/* Returns [CLS] text [SEP]; null if the vocabulary lacks one of them. */
static json_t *template_json(const json_t *vocab)
{
    const json_t *cls = json_object_get(vocab, "[CLS]"), *sep = json_object_get(vocab, "[SEP]");
    if (cls == NULL || sep == NULL)
        return json_null();
    return json_pack("{s:s, s:[s, I], s:[s, I]}", "type", "BertProcessing", "sep", "[SEP]", json_integer_value(sep),
                     "cls", "[CLS]", json_integer_value(cls));
}

json_t *th_special_token_json(int id, const char *content)
{
    return json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", content, "single_word", 0, "lstrip", 0,
                     "rstrip", 0, "normalized", 0, "special", 1);
}

th_tokenizer *th_word_piece_new(const th_json_source *source, const th_bert_text *text, json_t *vocab, json_t *added)
{
    json_t *model = th_word_piece_json(json_string("[UNK]")), *file = NULL;
    if (model && vocab && added && json_object_set(model, "vocab", vocab) == 0)
        file = json_pack("{s:s, s:O, s:o, s:{s:s}, s:o, s:o, s:O}", "version", "1.0", "added_tokens", added,
                         "normalizer", th_bert_normalizer_json(text->lower, text->chinese, json_incref(text->accents)),
                         "pre_tokenizer", "type", "BertPreTokenizer", "post_processor", template_json(vocab), "decoder",
                         th_word_piece_decoder_json(), "model", model);
    th_tokenizer *t = file ? th_tokenizer_of_json(source, file, NULL) : NULL;
    json_decref(model);
    json_decref(file);
    if (t == NULL && !th_failed(source->ctx))
        (void)th_fail_memory(source->ctx, source->operation, sizeof(void *));
    return t;
}

/* -- vocab.txt -- */

static bool read_flag(const th_json_source *source, const json_t *config, const char *key, bool *value)
{
    const json_t *member = json_object_get(config, key);
    return member == NULL || json_is_null(member) || th_json_boolean(source, config, key, value);
}

/* Reads a tokenizer_config.json. Returns false with the error pending. */
static bool read_settings(const th_json_source *source, th_bert_text *s)
{
    static const th_json_limits limits = {.bytes = 1 << 20, .depth = 8, .memory = 16 << 20};
    size_t memory;
    json_t *config = th_json_read_file(source, &limits, &memory);
    if (config == NULL)
        return false;
    const json_t *split = json_object_get(config, "never_split"), *accents = json_object_get(config, "strip_accents");
    bool read = read_flag(source, config, "do_lower_case", &s->lower) &&
                read_flag(source, config, "tokenize_chinese_chars", &s->chinese);
    if (split && json_array_size(split) > 0)
        th_fail(source->ctx, TH_ERROR_FILE, source->operation,
                "%.300s: its never_split is not supported and must be null", source->name);
    if (json_is_boolean(accents))
        s->accents = json_boolean(json_is_true(accents));
    read = read && !th_failed(source->ctx);
    th_json_release(source->ctx, config, memory);
    return read;
}

/* Adds the token of a line, and to `added` if it is special. Returns false if out of memory, or with the error pending. */
static bool add_line(const th_json_source *source, json_t *vocab, json_t *added, const char *line)
{
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    const int id = (int)json_object_size(vocab);
    char quoted[TH_QUOTED];
    if (json_object_get(vocab, line)) {
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: the token '%s' is in two lines", source->name,
                th_quote(line, quoted));
        return false;
    }
    bool made = json_object_set_new(vocab, line, json_integer(id)) == 0;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (made && strcmp(line, specials[i]) == 0)
            made = json_array_append_new(added, th_special_token_json(id, line)) == 0;
    if (!made && !th_failed(source->ctx) && !th_is_utf8(line))
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: line %d is not UTF-8", source->name, id + 1);
    return made;
}

static bool add_lines(const th_json_source *source, json_t *vocab, json_t *added)
{
    char *text = th_read_text_file(source);
    bool made = text != NULL;
    for (char *line = text, *next; made && *line; line = next) {
        char *end = line + strcspn(line, "\n");
        next = *end ? end + 1 : end;
        if (end > line && *end && end[-1] == '\r')
            end--;
        *end = 0;
        made = add_line(source, vocab, added, line);
    }
    free(text);
    return made;
}

th_tokenizer *th_word_piece_load(th_context *ctx, const char *operation, const char *path, const char *config_path)
{
    const th_json_source source = {ctx, operation, path}, config = {ctx, operation, config_path};
    th_bert_text text = {.lower = true, .chinese = true, .accents = json_null()};
    json_t *vocab = json_object(), *added = json_array();
    const bool read =
        (config_path == NULL || read_settings(&config, &text)) && vocab && added && add_lines(&source, vocab, added);
    th_tokenizer *t = read ? th_word_piece_new(&source, &text, vocab, added) : NULL;
    json_decref(text.accents);
    json_decref(vocab);
    json_decref(added);
    if (t == NULL && !th_failed(ctx))
        (void)th_fail_memory(ctx, operation, sizeof(void *));
    return t;
}

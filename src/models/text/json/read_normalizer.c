/* Reads the "normalizer" of tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/text/json/base64.h"
#include "models/text/json/readers.h"
#include "models/text/normalizer.h"

static th_status refuse(const th_json_source *source, const char *sentence)
{
    return th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: its normalizer %s", source->name, sentence);
}

/* Adds a step without parameters. */
static th_normalizer_step *add_step(th_normalizer *n, const th_json_source *source, th_normalizer_kind kind)
{
    if (n->steps == TH_MAX_NORMALIZERS) {
        refuse(source, "has more than 16 steps");
        return NULL;
    }
    n->step[n->steps] = (th_normalizer_step){.kind = kind};
    return &n->step[n->steps++];
}

static th_status add_form(th_normalizer *n, const th_json_source *source, th_form form)
{
    th_normalizer_step *step = add_step(n, source, TH_NORMALIZE_FORM);
    if (step == NULL)
        return th_error_code(source->ctx);
    step->form = th_normal_form_new(form);
    return step->form ? TH_OK : th_fail_memory(source->ctx, source->operation, sizeof(void *));
}

static th_status add_strip(th_normalizer *n, const th_json_source *source, const json_t *value)
{
    th_normalizer_step *step = add_step(n, source, TH_NORMALIZE_STRIP);
    return step && th_json_boolean(source, value, "strip_left", &step->left) &&
                   th_json_boolean(source, value, "strip_right", &step->right)
               ? TH_OK
               : th_error_code(source->ctx);
}

static th_status add_prepend(th_normalizer *n, const th_json_source *source, const json_t *value)
{
    th_normalizer_step *step = add_step(n, source, TH_NORMALIZE_PREPEND);
    return step ? th_read_text(source, value, "prepend", &step->replace.content, &step->replace.content_bytes)
                : th_error_code(source->ctx);
}

static th_status add_replace(th_normalizer *n, const th_json_source *source, const json_t *value)
{
    th_normalizer_step *step = add_step(n, source, TH_NORMALIZE_REPLACE);
    return step ? th_read_replacement(source, value, "normalizer", &step->replace) : th_error_code(source->ctx);
}

/* Reads SentencePiece's compiled map. */
static th_status add_map(th_normalizer *n, const th_json_source *source, const json_t *value)
{
    const char *text, *reason = "is not base64";
    size_t bytes;
    bool valid;
    th_normalizer_step *step = add_step(n, source, TH_NORMALIZE_MAP);
    if (step == NULL || !th_json_string(source, value, "precompiled_charsmap", &text))
        return th_error_code(source->ctx);
    unsigned char *compiled = th_base64_decode(text, strlen(text), &bytes, &valid);
    if (compiled)
        step->map = th_character_map_new(compiled, bytes, &reason);
    free(compiled);
    if (step->map)
        return TH_OK;
    if (reason == NULL || valid != (compiled != NULL))
        return th_fail_memory(source->ctx, source->operation, strlen(text));
    return th_fail(source->ctx, TH_ERROR_FILE, source->operation,
                   "%.300s: the precompiled_charsmap of its normalizer %s", source->name, reason);
}

/* Reads BERT's normalizer as several steps. Without strip_accents, lower case decides. */
static th_status add_bert(th_normalizer *n, const th_json_source *source, const json_t *value)
{
    bool clean, chinese, lower, accents;
    const json_t *given = json_object_get(value, "strip_accents");
    if (!th_json_boolean(source, value, "clean_text", &clean) ||
        !th_json_boolean(source, value, "handle_chinese_chars", &chinese) ||
        !th_json_boolean(source, value, "lowercase", &lower))
        return th_error_code(source->ctx);
    accents = lower;
    if (given && !json_is_null(given) && !th_json_boolean(source, value, "strip_accents", &accents))
        return th_error_code(source->ctx);
    const bool added =
        (!clean || add_step(n, source, TH_NORMALIZE_CLEAN)) &&
        (!chinese || add_step(n, source, TH_NORMALIZE_CHINESE)) &&
        (!accents || (add_form(n, source, TH_FORM_D) == TH_OK && add_step(n, source, TH_NORMALIZE_MARKS))) &&
        (!lower || add_step(n, source, TH_NORMALIZE_LOWER));
    return added ? TH_OK : th_error_code(source->ctx);
}

static th_status read_step(th_normalizer *n, const th_json_source *source, const json_t *value, bool within)
{
    static const char *const forms[] = {
        [TH_FORM_C] = "NFC", [TH_FORM_D] = "NFD", [TH_FORM_KC] = "NFKC", [TH_FORM_KD] = "NFKD"};
    const char *type;
    if (!json_is_object(value))
        return refuse(source, "is not an object");
    if (!th_json_string(source, value, "type", &type))
        return th_error_code(source->ctx);
    for (int form = 0; form < 4; form++)
        if (strcmp(type, forms[form]) == 0)
            return add_form(n, source, (th_form)form);
    if (strcmp(type, "Lowercase") == 0)
        return add_step(n, source, TH_NORMALIZE_LOWER) ? TH_OK : th_error_code(source->ctx);
    if (strcmp(type, "StripAccents") == 0)
        return add_step(n, source, TH_NORMALIZE_ACCENTS) ? TH_OK : th_error_code(source->ctx);
    if (strcmp(type, "Nmt") == 0)
        return add_step(n, source, TH_NORMALIZE_NMT) ? TH_OK : th_error_code(source->ctx);
    if (strcmp(type, "BertNormalizer") == 0)
        return add_bert(n, source, value);
    if (strcmp(type, "Strip") == 0)
        return add_strip(n, source, value);
    if (strcmp(type, "Prepend") == 0)
        return add_prepend(n, source, value);
    if (strcmp(type, "Replace") == 0)
        return add_replace(n, source, value);
    if (strcmp(type, "Precompiled") == 0)
        return add_map(n, source, value);
    if (strcmp(type, "Sequence") == 0 && !within) {
        const json_t *parts = json_object_get(value, "normalizers"), *each;
        size_t i;
        if (!json_is_array(parts))
            return refuse(source, "is a Sequence without a list \"normalizers\"");
        json_array_foreach (parts, i, each) {
            if (read_step(n, source, each, true))
                return th_error_code(source->ctx);
        }
        return TH_OK;
    }
    char quoted[TH_QUOTED];
    return th_fail(
        source->ctx, TH_ERROR_FILE, source->operation,
        "%.300s: its normalizer '%s' is not supported; NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, "
        "Prepend, Replace, Precompiled, Nmt, BertNormalizer and a Sequence of them are",
        source->name, th_quote(type, quoted));
}

th_status th_normalizer_read(th_normalizer *n, const th_json_source *source, const json_t *value)
{
    return json_is_null(value) ? TH_OK : read_step(n, source, value, false);
}

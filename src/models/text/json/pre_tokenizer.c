/* The "pre_tokenizer" of tokenizer.json: how a text is split into words, and whether merges work on bytes or on
 * characters. Unsupported types are rejected by name. */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/files/json.h"
#include "models/text/bert.h"
#include "models/text/json/readers.h"
#include "models/text/tokenizer.h"

typedef struct pre_tokenizer_reading {
    th_tokenizer *tokenizer;
    const th_json_source *source;
    bool byte_level; /* a ByteLevel was read, which must be the last part */
} pre_tokenizer_reading;

static th_status refuse(const pre_tokenizer_reading *p, const char *sentence)
{
    return th_fail(p->tokenizer->ctx, TH_ERROR_FILE, p->source->operation, "%.300s: %s", p->source->name, sentence);
}

static th_status add_stage(const pre_tokenizer_reading *p, th_split_stage stage)
{
    th_text_split *split = &p->tokenizer->split;
    if (split->stages == TH_MAX_STAGES)
        return refuse(p, "it splits more than 16 times");
    split->stage[split->stages++] = stage;
    return TH_OK;
}

static th_status add_pattern(const pre_tokenizer_reading *p, const char *expression, size_t count,
                             th_split_behavior behavior, bool inverted)
{
    char reason[TH_PATTERN_REASON], quoted[TH_QUOTED];
    th_pattern *pattern = th_pattern_new(expression, count, reason);
    if (pattern == NULL && reason[0] == 0)
        return th_fail_memory(p->tokenizer->ctx, p->source->operation, count);
    if (pattern == NULL)
        return th_fail(p->tokenizer->ctx, TH_ERROR_FILE, p->source->operation,
                       "%.300s: the pattern '%s' cannot be used: %s", p->source->name, th_quote(expression, quoted),
                       reason);
    const th_status status =
        add_stage(p, (th_split_stage){.pattern = pattern, .behavior = behavior, .inverted = inverted});
    if (status)
        th_pattern_free(pattern);
    return status;
}

/* Sets *flag to a boolean member, or to `default_value` if the member is missing. */
static bool read_flag(const pre_tokenizer_reading *p, const json_t *value, const char *key, bool default_value,
                      bool *flag)
{
    *flag = default_value;
    return json_object_get(value, key) == NULL || th_json_boolean(p->source, value, key, flag);
}

static th_status read_byte_level(pre_tokenizer_reading *p, const json_t *value)
{
    bool prefix_space, use_regex, trim_offsets; /* trim_offsets is ignored: it changes no tokens, only offsets */
    if (!th_json_boolean(p->source, value, "add_prefix_space", &prefix_space) ||
        !read_flag(p, value, "use_regex", true, &use_regex) ||
        !read_flag(p, value, "trim_offsets", true, &trim_offsets))
        return th_error_code(p->tokenizer->ctx);
    if (prefix_space && p->tokenizer->split.stages > 0)
        return refuse(p, "a ByteLevel with add_prefix_space follows another part, and would change every piece");
    p->tokenizer->prefix_space = prefix_space;
    p->tokenizer->byte_level = p->byte_level = true;
    return use_regex ? add_pattern(p, th_gpt2_pattern, strlen(th_gpt2_pattern), TH_SPLIT_ISOLATED, false) : TH_OK;
}

/* Reads the behavior of a part that splits. */
static bool read_behavior(const pre_tokenizer_reading *p, const json_t *value, th_split_behavior *behavior)
{
    static const char *const behaviors[] = {
        [TH_SPLIT_ISOLATED] = "Isolated",     [TH_SPLIT_REMOVED] = "Removed",
        [TH_SPLIT_CONTIGUOUS] = "Contiguous", [TH_SPLIT_PREVIOUS] = "MergedWithPrevious",
        [TH_SPLIT_NEXT] = "MergedWithNext",
    };
    const char *name;
    if (!th_json_string(p->source, value, "behavior", &name))
        return false;
    for (size_t kind = 0; kind < sizeof behaviors / sizeof *behaviors; kind++)
        if (strcmp(name, behaviors[kind]) == 0) {
            *behavior = (th_split_behavior)kind;
            return true;
        }
    refuse(p, "the behavior of a Split or a Punctuation must be Isolated, Removed, Contiguous, MergedWithPrevious or "
              "MergedWithNext");
    return false;
}

static th_status read_split(pre_tokenizer_reading *p, const json_t *value)
{
    th_split_behavior behavior;
    const char *text;
    bool invert;
    const json_t *pattern = json_object_get(value, "pattern");
    if (!read_behavior(p, value, &behavior) || !read_flag(p, value, "invert", false, &invert))
        return th_error_code(p->tokenizer->ctx);
    if (json_object_size(pattern) != 1)
        return refuse(p, "the pattern of a Split is neither a Regex nor a String");
    if (json_object_get(pattern, "Regex"))
        return th_json_string(p->source, pattern, "Regex", &text) ? add_pattern(p, text, strlen(text), behavior, invert)
                                                                  : th_error_code(p->tokenizer->ctx);
    if (!th_json_string(p->source, pattern, "String", &text))
        return th_error_code(p->tokenizer->ctx);
    char expression[2 * TH_MAX_PATTERN];
    size_t count = 0;
    for (const char *c = text; *c && count + 2 < sizeof expression; c++) {
        if (strchr("\\^$.[]|()?*+{}-&", *c))
            expression[count++] = '\\';
        expression[count++] = *c;
    }
    expression[count] = 0; /* for the message of a pattern that cannot be used */
    return add_pattern(p, expression, count, behavior, invert);
}

static th_status read_digits(pre_tokenizer_reading *p, const json_t *value)
{
    bool individual;
    if (!read_flag(p, value, "individual_digits", false, &individual))
        return th_error_code(p->tokenizer->ctx);
    const char *expression = individual ? "\\p{N}" : "\\p{N}+";
    return add_pattern(p, expression, strlen(expression), TH_SPLIT_ISOLATED, false);
}

/* Keeps words, and other characters between spaces. tokenizers computes this \w without Oniguruma, and so counts the
 * two characters that join others. */
static th_status read_whitespace(const pre_tokenizer_reading *p)
{
    static const char expression[] = "[\\w\\x{200C}\\x{200D}]+|[^\\w\\s\\x{200C}\\x{200D}]+";
    return add_pattern(p, expression, strlen(expression), TH_SPLIT_REMOVED, true);
}

/* Keeps words, and each sign of punctuation. */
static th_status read_bert(const pre_tokenizer_reading *p)
{
    char pattern[TH_BERT_PATTERN];
    const size_t bytes = th_bert_pattern(pattern);
    return add_pattern(p, pattern, bytes, TH_SPLIT_REMOVED, true);
}

static th_status read_punctuation(const pre_tokenizer_reading *p, const json_t *value)
{
    char pattern[TH_BERT_PATTERN];
    th_split_behavior behavior = TH_SPLIT_ISOLATED; /* older files do not name it */
    if (json_object_get(value, "behavior") && !read_behavior(p, value, &behavior))
        return th_error_code(p->tokenizer->ctx);
    const size_t bytes = th_bert_punctuation_pattern(pattern);
    return add_pattern(p, pattern, bytes, behavior, false);
}

static th_status read_metaspace(pre_tokenizer_reading *p, const json_t *value)
{
    th_metaspace metaspace;
    if (!th_read_metaspace(p->source, value, &metaspace))
        return th_error_code(p->tokenizer->ctx);
    th_split_stage stage = {
        .prepend = metaspace.prepend, .splits = metaspace.splits, .buffer = calloc(1, sizeof(th_text))};
    if (stage.buffer == NULL)
        return th_fail_memory(p->tokenizer->ctx, p->source->operation, sizeof(th_text));
    memcpy(stage.space, metaspace.space, sizeof stage.space);
    const th_status status = add_stage(p, stage);
    if (status)
        free(stage.buffer);
    return status;
}

static th_status read_part(pre_tokenizer_reading *p, const json_t *value, bool within)
{
    const char *type;
    if (!json_is_object(value))
        return refuse(p, "its pre_tokenizer is not an object");
    if (!th_json_string(p->source, value, "type", &type))
        return th_error_code(p->tokenizer->ctx);
    if (p->byte_level)
        return refuse(p, "a pre_tokenizer follows ByteLevel, which must be last");
    if (strcmp(type, "ByteLevel") == 0)
        return read_byte_level(p, value);
    if (strcmp(type, "Split") == 0)
        return read_split(p, value);
    if (strcmp(type, "Digits") == 0)
        return read_digits(p, value);
    if (strcmp(type, "Whitespace") == 0)
        return read_whitespace(p);
    if (strcmp(type, "BertPreTokenizer") == 0)
        return read_bert(p);
    if (strcmp(type, "Punctuation") == 0)
        return read_punctuation(p, value);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_pattern(p, "\\s+", 3, TH_SPLIT_REMOVED, false);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(p, value);
    if (strcmp(type, "Sequence") == 0 && !within) {
        const json_t *parts = json_object_get(value, "pretokenizers"), *element;
        size_t i;
        if (!json_is_array(parts))
            return refuse(p, "its pre_tokenizer is a Sequence without a list \"pretokenizers\"");
        json_array_foreach (parts, i, element) {
            if (read_part(p, element, true))
                return th_error_code(p->tokenizer->ctx);
        }
        return TH_OK;
    }
    char quoted[TH_QUOTED];
    return th_fail(p->tokenizer->ctx, TH_ERROR_FILE, p->source->operation,
                   "%.300s: its pre_tokenizer '%s' is not supported; ByteLevel, Metaspace, Split, Digits, "
                   "Whitespace, WhitespaceSplit, BertPreTokenizer, Punctuation and a Sequence of them are",
                   p->source->name, th_quote(type, quoted));
}

th_status th_tokenizer_set_pre_tokenizer(th_tokenizer *t, const th_json_source *source, json_t *value)
{
    pre_tokenizer_reading p = {.tokenizer = t, .source = source};
    t->pre_tokenizer = json_incref(value);
    return json_is_null(value) ? TH_OK : read_part(&p, value, false);
}

json_t *th_byte_level_json(bool use_regex)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     (int)use_regex);
}

bool th_tokenizer_set_own_parts(th_tokenizer *t, const char *operation, json_t *pre_tokenizer, json_t *decoder)
{
    const th_json_source source = {t->ctx, operation, "the new tokenizer"};
    t->decoder_json = decoder;
    t->truncation_json = json_null();
    t->padding_json = json_null();
    t->normalizer_json = json_null();
    t->post_processor = json_null();
    const bool set = pre_tokenizer && decoder && th_tokenizer_set_pre_tokenizer(t, &source, pre_tokenizer) == TH_OK;
    json_decref(pre_tokenizer);
    return set;
}

bool th_tokenizer_splits_as_gpt2(const th_tokenizer *t)
{
    const json_t *type = json_object_get(t->pre_tokenizer, "type");
    return type && strcmp(json_string_value(type), "ByteLevel") == 0 && t->split.stages == 1 && !t->prefix_space;
}

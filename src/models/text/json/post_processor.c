/* The "post_processor" of tokenizer.json: tokens around a text, and around a pair of texts (pair_template.h). */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/files/json.h"
#include "models/text/tokenizer.h"

typedef struct post_processor_reading {
    th_tokenizer *tokenizer;
    const th_json_source *source;
    bool template; /* a template was read */
} post_processor_reading;

static th_status refuse(const post_processor_reading *p, const char *sentence)
{
    return th_fail(p->tokenizer->ctx, TH_ERROR_FILE, p->source->operation, "%.300s: its post_processor %s",
                   p->source->name, sentence);
}

/* Appends the ids of a special token of the template. */
static th_status append_special(const post_processor_reading *p, const json_t *specials, const char *name,
                                int32_t **tokens, size_t *count)
{
    const json_t *ids = json_object_get(json_object_get(specials, name), "ids"), *id;
    size_t i;
    if (!json_is_array(ids) || *count + json_array_size(ids) > 64)
        return refuse(p, "names a special token without ids (or with more than 64)");
    int32_t *grown = realloc(*tokens, (*count + json_array_size(ids) + 1) * sizeof *grown);
    if (grown == NULL)
        return th_fail_memory(p->tokenizer->ctx, p->source->operation, json_array_size(ids) * sizeof *grown);
    *tokens = grown;
    json_array_foreach (ids, i, id) {
        if (!json_is_integer(id) || !th_vocabulary_has(&p->tokenizer->vocabulary, json_integer_value(id)))
            return refuse(p, "has an id that is not in the vocabulary");
        grown[(*count)++] = (int32_t)json_integer_value(id);
    }
    return TH_OK;
}

static th_status read_template(post_processor_reading *p, const json_t *value)
{
    const json_t *single = json_object_get(value, "single"), *specials = json_object_get(value, "special_tokens"),
                 *element;
    th_template *template = &p->tokenizer->template;
    bool text = false;
    size_t i;
    if (p->template)
        return refuse(p, "has two templates");
    p->template = true;
    if (!json_is_array(single) || !json_is_object(specials))
        return refuse(p, "has a TemplateProcessing without \"single\" or \"special_tokens\"");
    json_array_foreach (single, i, element) {
        const json_t *special = json_object_get(element, "SpecialToken"),
                     *sequence = json_object_get(element, "Sequence");
        const char *name;
        if (!th_json_string(p->source, special ? special : sequence, "id", &name))
            return th_error_code(p->tokenizer->ctx);
        if (special == NULL) {
            if (strcmp(name, "A") != 0 || text)
                return refuse(p, "has a \"single\" template in which the text A does not appear exactly once");
            text = true;
        } else if (append_special(p, specials, name, text ? &template->after : &template->before,
                                  text ? &template->n_after : &template->n_before)) {
            return th_error_code(p->tokenizer->ctx);
        }
    }
    if (!text)
        return refuse(p, "has a \"single\" template without the text");
    return th_pair_template_read(&template->pair, json_object_get(value, "pair"), specials,
                                 (int64_t)p->tokenizer->vocabulary.size)
               ? TH_OK
               : th_fail_memory(p->tokenizer->ctx, p->source->operation, sizeof *template);
}

/* Appends the token of ["[CLS]", 101]. */
static th_status append_bert_token(const post_processor_reading *p, const json_t *pair, int32_t **tokens, size_t *count)
{
    const json_t *id = json_array_get(pair, 1);
    if (!json_is_integer(id) || !th_vocabulary_has(&p->tokenizer->vocabulary, json_integer_value(id)))
        return refuse(p, "has a \"cls\" or \"sep\" whose id is not in the vocabulary");
    *tokens = malloc(sizeof **tokens);
    if (*tokens == NULL)
        return th_fail_memory(p->tokenizer->ctx, p->source->operation, sizeof **tokens);
    (*tokens)[(*count)++] = (int32_t)json_integer_value(id);
    return TH_OK;
}

static th_status read_bert(post_processor_reading *p, const json_t *value, bool roberta)
{
    th_template *template = &p->tokenizer->template;
    if (p->template)
        return refuse(p, "has two templates");
    p->template = true;
    if (append_bert_token(p, json_object_get(value, "cls"), &template->before, &template->n_before) ||
        append_bert_token(p, json_object_get(value, "sep"), &template->after, &template->n_after))
        return th_error_code(p->tokenizer->ctx);
    return th_pair_template_set(&template->pair, template->before[0], template->after[0], roberta)
               ? TH_OK
               : th_fail_memory(p->tokenizer->ctx, p->source->operation, sizeof *template);
}

static th_status read_part(post_processor_reading *p, const json_t *value, bool within)
{
    const char *type;
    if (!json_is_object(value))
        return refuse(p, "is not an object");
    if (!th_json_string(p->source, value, "type", &type))
        return th_error_code(p->tokenizer->ctx);
    if (strcmp(type, "ByteLevel") == 0) /* it changes only the offsets of tokens in the text, which are not used here */
        return TH_OK;
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(p, value);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return read_bert(p, value, type[0] == 'R');
    if (strcmp(type, "Sequence") == 0 && !within) {
        const json_t *parts = json_object_get(value, "processors"), *element;
        size_t i;
        if (!json_is_array(parts))
            return refuse(p, "is a Sequence without a list \"processors\"");
        json_array_foreach (parts, i, element) {
            if (read_part(p, element, true))
                return th_error_code(p->tokenizer->ctx);
        }
        return TH_OK;
    }
    return refuse(p, "is of a type that is not supported; ByteLevel, TemplateProcessing, "
                     "BertProcessing, RobertaProcessing and a Sequence of them are");
}

th_status th_tokenizer_set_post_processor(th_tokenizer *t, const th_json_source *source, json_t *value)
{
    post_processor_reading p = {.tokenizer = t, .source = source};
    t->post_processor = json_incref(value);
    return json_is_null(value) ? TH_OK : read_part(&p, value, false);
}

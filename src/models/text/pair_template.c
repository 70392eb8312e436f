/* The tokens around a pair of texts: see pair_template.h. */
#include "models/text/pair_template.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 }; /* tokens in a place */

void th_pair_template_release(th_pair_template *t)
{
    for (int i = 0; i < TH_PAIR_PLACES; i++) {
        free(t->token[i]);
        free(t->type[i]);
    }
    *t = (th_pair_template){.given = false};
}

static bool add_token(th_pair_template *t, int place, int64_t token, int64_t type)
{
    if (t->token[place] == NULL) {
        t->token[place] = malloc(MOST * sizeof *t->token[place]);
        t->type[place] = malloc(MOST * sizeof *t->type[place]);
    }
    if (t->token[place] == NULL || t->type[place] == NULL)
        return false;
    t->token[place][t->count[place]] = (int32_t)token;
    t->type[place][t->count[place]++] = (int32_t)type;
    return true;
}

bool th_pair_template_set(th_pair_template *t, int32_t cls, int32_t sep, bool roberta)
{
    const int32_t second = roberta ? 0 : 1;
    t->text_type[1] = second;
    t->given = add_token(t, TH_PAIR_BEFORE, cls, 0) && add_token(t, TH_PAIR_BETWEEN, sep, 0) &&
               (!roberta || add_token(t, TH_PAIR_BETWEEN, sep, 0)) && add_token(t, TH_PAIR_AFTER, sep, second);
    return t->given;
}

/* -- TemplateProcessing -- */

typedef struct pair_reading {
    th_pair_template *template;
    const json_t *specials;
    int64_t vocabulary;
    int place;
    bool valid;
} pair_reading;

static bool read_type(const json_t *element, int64_t *type)
{
    const json_t *value = json_object_get(element, "type_id");
    *type = json_is_integer(value) ? json_integer_value(value) : -1;
    return *type >= 0 && *type <= INT32_MAX;
}

/* Reads a text, "A" or "B". It ends a place. */
static void read_text(pair_reading *r, const json_t *sequence)
{
    const char *name = json_string_value(json_object_get(sequence, "id"));
    int64_t type;
    if (name == NULL || r->place == TH_PAIR_AFTER || strcmp(name, r->place == TH_PAIR_BEFORE ? "A" : "B") != 0 ||
        !read_type(sequence, &type)) {
        r->valid = false;
        return;
    }
    r->template->text_type[r->place++] = (int32_t)type;
}

/* Returns false if memory runs out. */
static bool read_special(pair_reading *r, const json_t *special)
{
    const char *name = json_string_value(json_object_get(special, "id"));
    const json_t *ids = name ? json_object_get(json_object_get(r->specials, name), "ids") : NULL, *id;
    int64_t type;
    size_t i;
    if (!json_is_array(ids) || !read_type(special, &type) ||
        r->template->count[r->place] + json_array_size(ids) > MOST) {
        r->valid = false;
        return true;
    }
    json_array_foreach (ids, i, id) {
        const int64_t token = json_is_integer(id) ? json_integer_value(id) : -1;
        if (token < 0 || token >= r->vocabulary)
            r->valid = false;
        else if (!add_token(r->template, r->place, token, type))
            return false;
    }
    return true;
}

bool th_pair_template_read(th_pair_template *t, const json_t *pair, const json_t *specials, int64_t vocabulary)
{
    pair_reading r = {t, specials, vocabulary, TH_PAIR_BEFORE, json_is_array(pair)};
    const json_t *element;
    size_t i;
    json_array_foreach (pair, i, element) {
        const json_t *special = json_object_get(element, "SpecialToken"), *text = json_object_get(element, "Sequence");
        if (text)
            read_text(&r, text);
        else if (!read_special(&r, special))
            return false;
        if (!r.valid)
            break;
    }
    t->given = r.valid && r.place == TH_PAIR_AFTER;
    if (!t->given)
        th_pair_template_release(t);
    return true;
}

/* Writes config.json from the same table that reads it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "models/families/config.h"
#include "models/families/family.h"
#include "models/families/fields.h"
#include "models/families/writer.h"

/* Returns the shortest number x for which x / divisor is the value; the value times the divisor without such a number. */
static double undo_division(double value, double divisor)
{
    for (int digits = 1; digits <= 17; digits++) {
        char text[40];
        snprintf(text, sizeof text, "%.*g", digits, value * divisor);
        const double x = strtod(text, NULL);
        if (x / divisor == value)
            return x;
    }
    return value * divisor;
}

static void put_field(th_writer *w, const th_family_field *f, const th_language_model_options *o)
{
    const void *member = (const char *)o + f->member;
    switch (f->kind) {
    case TH_FIELD_SIZE:
        th_put_integer(w, f->key, *(const int64_t *)member);
        break;
    case TH_FIELD_NUMBER:
        if (f->optional && *(const double *)member == 0)
            th_put_null(w, f->key);
        else
            th_put_number(w, f->key, *(const double *)member);
        break;
    case TH_FIELD_RATE:
        th_put_number(w, f->key, *(const double *)member);
        break;
    case TH_FIELD_FLAG:
        th_put_flag(w, f->key, *(const bool *)member);
        break;
    case TH_FIELD_NOT:
        th_put_flag(w, f->key, !*(const bool *)member);
        break;
    case TH_FIELD_ACTIVATION:
        th_put_text(w, f->key, th_activation_name(*(const th_activation *)member, f->name));
        break;
    case TH_FIELD_INVERSE_ROOT: {
        const double scale = *(const double *)member, root = fmin(1 / (scale * scale), TH_CONFIG_MAX_SIZE);
        th_put_integer(w, f->key, (int64_t)fmax(1, nearbyint(root)));
        break;
    }
    case TH_FIELD_ROOT_OF_LAYERS:
        th_put_number(w, f->key, undo_division(*(const double *)member, sqrt((double)o->layers)));
        break;
    case TH_FIELD_PART_OF_WIDTH:
        th_put_integer(w, f->key, (int64_t)fmax(1, nearbyint((double)o->width / *(const double *)member)));
        break;
    case TH_FIELD_AFTER_TOKEN:
        th_put_integer(w, f->key, *(const int64_t *)member - 1);
        break;
    case TH_FIELD_SCALED:
        th_put_flag(w, f->key, *(const double *)member != 1);
        break;
    case TH_FIELD_FALSE:
    case TH_FIELD_TRUE:
    case TH_FIELD_NAME:
    case TH_FIELD_FIXED:
    case TH_FIELD_NULL: /* these are the defaults */
        break;
    }
}

/* Returns max_position_embeddings, which is the length before scaling if the scaling is dynamic. */
static int64_t positions_of(const th_language_model_options *m)
{
    const th_rotary_scaling *scaling = &m->block.scores.rotary_scaling;
    if (scaling->kind != TH_ROTARY_DYNAMIC && m->other_layers)
        scaling = &m->other_scores.rotary_scaling;
    return scaling->kind == TH_ROTARY_DYNAMIC ? scaling->original_length : m->length;
}

static void put_token(th_writer *w, const char *key, int64_t token)
{
    if (token >= 0)
        th_put_integer(w, key, token);
    else
        th_put_null(w, key);
}

static const char *architecture_of(const th_family *family, const th_family_head *head,
                                   const th_language_model_options *o)
{
    if (head)
        return head->architecture;
    return o->no_classifier && family->encoder_architecture ? family->encoder_architecture : family->architecture;
}

void th_foreign_config_write(FILE *file, const th_family *family, const th_language_model_options *options,
                             int64_t begin_token, int64_t end_token, const char *type)
{
    th_writer w = {.file = file};
    th_language_model_options o = th_normal_options(options);
    o.length = positions_of(&o) + o.first_position;
    const th_family_head *head = th_family_head_find(family, o.head.kind);
    th_put_key(&w, "architectures");
    fprintf(file, "[\"%s\"]", architecture_of(family, head, &o));
    th_put_text(&w, "model_type", family->model_type);
    for (const th_family_field *f = family->fields; f->key; f++)
        put_field(&w, f, &o);
    th_layers_write(&w, family, &o);
    if (head)
        th_head_write(&w, head, &o.head);
    put_token(&w, "bos_token_id", begin_token);
    put_token(&w, "eos_token_id", end_token);
    if (o.first_position == 0)
        th_put_null(&w, "pad_token_id"); /* a default may be outside the vocabulary */
    th_put_text(&w, "torch_dtype", type);
    fputs("\n}\n", file);
}

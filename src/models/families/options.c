/* Normal options, and their comparison by two tables of members. A new option of the model needs one line here. */
#include "models/families/options.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"

const th_language_model_options *th_require_language_model(const th_module *model, const char *operation)
{
    const th_language_model_options *options = th_language_model_options_of(model);
    if (options == NULL)
        th_fail(model->ctx, TH_ERROR_ARGUMENT, operation, "the module is a %s, not a language model", model->type);
    return options;
}

const th_score_options *th_scores_of_layer(const th_language_model_options *options, int64_t i)
{
    return options->other_layers && options->other_layers[i] ? &options->other_scores : &options->block.scores;
}

/* -- normal options -- */

static void normalize_scores(th_score_options *s, const th_transformer_block_options *block)
{
    if (!s->rotary) {
        s->rotary_pairing = TH_ROTARY_HALVES;
        s->rotary_base = 0;
        s->rotary_width = 0;
        s->rotary_scaling = (th_rotary_scaling){0};
    } else {
        if (s->rotary_base == 0)
            s->rotary_base = 10000;
        if (s->rotary_width == 0)
            s->rotary_width = block->head_width;
    }
    const bool has_norms = s->qk_norm || s->qk_norm_whole;
    s->qk_norm_unit_offset = has_norms && (s->qk_norm_unit_offset || block->unit_offset);
    s->qk_norm_no_weight &= has_norms;
    if (!has_norms)
        s->qk_norm_eps = 0;
    else if (s->qk_norm_eps == 0)
        s->qk_norm_eps = 1e-5;
}

static void normalize_head(th_head_options *head)
{
    if (head->kind == TH_HEAD_NONE)
        *head = (th_head_options){0};
    if (head->kind == TH_HEAD_SPANS)
        head->labels = 2;
    if (head->kind != TH_HEAD_SEQUENCE)
        head->pooling = TH_POOL_CLS;
    if (!head->transform)
        head->activation = TH_GELU_TANH;
}

th_language_model_options th_normal_options(const th_language_model_options *options)
{
    th_language_model_options o = *options;
    th_transformer_block_options *b = &o.block;
    b->no_attention_bias |= b->no_bias;
    b->no_output_bias |= b->no_attention_bias;
    b->no_mlp_bias |= b->no_bias;
    b->no_bias &= b->norm == TH_LAYER_NORM; /* RMS norms have no bias */
    if (b->scale == 0 && b->head_width > 0)
        b->scale = 1 / sqrt((double)b->head_width);
    if (o.embedding_scale == 0)
        o.embedding_scale = 1;
    if (o.logit_divisor == 0)
        o.logit_divisor = 1;
    if (b->branch_scale == 0)
        b->branch_scale = 1;
    normalize_head(&o.head);
    normalize_scores(&b->scores, b);
    normalize_scores(&o.other_scores, b);
    return o;
}

/* -- comparison -- */

typedef struct member {
    th_module_option option;
    size_t flag; /* of a flag: if that differs, this member is not reported; its own offset: none */
} member;

#define MODEL_OF(flag, kind, member)                                                                                   \
    {                                                                                                                  \
        TH_MODULE_##kind(th_language_model_options, member), offsetof(th_language_model_options, flag)                 \
    }
#define MODEL(kind, member) MODEL_OF(member, kind, member)
static const member of_model[] = {
    MODEL(INTEGER, heads),
    MODEL(CHOICE, positions),
    MODEL(INTEGER, first_position),
    MODEL(FLAG, untied),
    MODEL(FLAG, classifier_bias),
    MODEL(FLAG, classifier_transform),
    MODEL(FLAG, no_classifier),
    MODEL(CHOICE, head.kind),
    MODEL(INTEGER, head.labels),
    MODEL(CHOICE, head.pooling),
    MODEL(FLAG, head.transform),
    MODEL(CHOICE, head.activation),
    MODEL(FLAG, head.norm),
    MODEL(FLAG, bidirectional),
    MODEL(INTEGER, token_types),
    MODEL(FLAG, input_norm),
    MODEL(INTEGER, relative_buckets),
    MODEL(INTEGER, relative_distance),
    MODEL(REAL, embedding_scale),
    MODEL(INTEGER, bigram_rows),
    MODEL(FLAG, embedding_norm),
    MODEL(REAL, logit_divisor),
    MODEL(REAL, logit_soft_cap),
    MODEL(FLAG, scale_by_layer),
    MODEL(FLAG, block.no_mlp),
    MODEL(FLAG, block.gated),
    MODEL(FLAG, block.post_norm),
    MODEL(FLAG, block.output_norm),
    MODEL(FLAG, block.no_input_norm),
    MODEL(FLAG, block.parallel),
    MODEL(FLAG, block.shared_norm),
    MODEL(REAL, block.branch_scale),
    MODEL(CHOICE, block.activation),
    MODEL(CHOICE, block.norm),
    MODEL(FLAG, block.unit_offset),
    MODEL(FLAG, block.no_bias),
    MODEL_OF(block.no_bias, FLAG, block.no_attention_bias),
    MODEL_OF(block.no_attention_bias, FLAG, block.no_output_bias),
    MODEL_OF(block.no_bias, FLAG, block.no_mlp_bias),
    MODEL(INTEGER, block.kv_heads),
    MODEL(INTEGER, block.head_width),
    MODEL(REAL, block.scale),
    MODEL(REAL, block.eps),
    MODEL(FLAG, block.value_residual),
    MODEL(FLAG, block.embedding_skip),
    MODEL(FLAG, block.no_first_norm),
};

#define SCORES_OF(flag, kind, member)                                                                                  \
    {                                                                                                                  \
        TH_MODULE_##kind(th_score_options, member), offsetof(th_score_options, flag)                                   \
    }
#define SCORES(kind, member) SCORES_OF(member, kind, member)
#define ROTARY_OPTION(kind, member) SCORES_OF(rotary, kind, member)
static const member of_scores[] = {
    SCORES(FLAG, rotary),
    TH_ROTARY_OPTIONS(ROTARY_OPTION),
    SCORES(FLAG, alibi),
    SCORES(FLAG, qk_norm),
    SCORES(FLAG, qk_norm_whole),
    SCORES_OF(qk_norm, FLAG, qk_norm_unit_offset),
    SCORES_OF(qk_norm, FLAG, qk_norm_no_weight),
    SCORES_OF(qk_norm, REAL, qk_norm_eps),
    SCORES(REAL, soft_cap),
    SCORES(INTEGER, window),
};
enum { OF_MODEL = sizeof of_model / sizeof *of_model, OF_SCORES = sizeof of_scores / sizeof *of_scores };
_Static_assert(OF_MODEL + OF_SCORES + 2 <= TH_MAX_OPTIONS, "a list of differences has room for all members");
_Static_assert(sizeof(th_norm) == sizeof(int) && sizeof(th_rotary_pairing) == sizeof(int),
               "enumerations are read as int");

static double option_value(const void *options, const member *m)
{
    const char *at = (const char *)options + m->option.offset;
    int choice;
    switch (m->option.kind) {
    case TH_OPTION_FLAG:
        return *(const bool *)at;
    case TH_OPTION_CHOICE:
        memcpy(&choice, at, sizeof choice);
        return choice;
    case TH_OPTION_INTEGER:
        return (double)*(const int64_t *)at;
    case TH_OPTION_REAL:
        break;
    }
    return *(const double *)at;
}

static bool have_same_flag(const void *a, const void *b, const member *m)
{
    return m->flag == m->option.offset || *((const bool *)a + m->flag) == *((const bool *)b + m->flag);
}

static void add_difference(th_option_difference *list, int *count, const char *before, const char *name, double a,
                           double b)
{
    th_option_difference *d = &list[(*count)++];
    snprintf(d->name, sizeof d->name, "%s.%s", before, name);
    d->a = a;
    d->b = b;
}

/* Compares one member in all layers; adds the first difference. */
static void compare_scores(const th_language_model_options *a, const th_language_model_options *b, const member *m,
                           th_option_difference *list, int *count)
{
    for (int64_t i = 0; i < a->layers; i++) {
        const th_score_options *of_a = th_scores_of_layer(a, i);
        const th_score_options *of_b = th_scores_of_layer(b, i);
        const double x = option_value(of_a, m), y = option_value(of_b, m);
        if (x == y || !have_same_flag(of_a, of_b, m))
            continue;
        add_difference(list, count, of_a == &a->other_scores ? ".other_scores" : ".block.scores", m->option.name, x, y);
        return;
    }
}

/* Compares the factors of LongRoPE, which are arrays of the same length. */
static void compare_factors(const th_language_model_options *a, const th_language_model_options *b,
                            th_option_difference *list, int *count)
{
    for (int64_t i = 0; i < a->layers; i++) {
        const th_score_options *of_a = th_scores_of_layer(a, i);
        const char *before = of_a == &a->other_scores ? ".other_scores" : ".block.scores";
        const th_rotary_scaling *x = &of_a->rotary_scaling, *y = &th_scores_of_layer(b, i)->rotary_scaling;
        for (int64_t j = 0; j < x->n_factors && j < y->n_factors; j++) {
            if (x->short_factor[j] != y->short_factor[j])
                add_difference(list, count, before, "rotary_scaling.short_factor", x->short_factor[j],
                               y->short_factor[j]);
            else if (x->long_factor[j] != y->long_factor[j])
                add_difference(list, count, before, "rotary_scaling.long_factor", x->long_factor[j], y->long_factor[j]);
            else
                continue;
            return;
        }
    }
}

int th_options_compare(const th_language_model_options *a, const th_language_model_options *b,
                       th_option_difference difference[TH_MAX_OPTIONS])
{
    int count = 0;
    for (int i = 0; i < OF_MODEL; i++) {
        const double x = option_value(a, &of_model[i]), y = option_value(b, &of_model[i]);
        if (x != y && have_same_flag(a, b, &of_model[i]))
            add_difference(difference, &count, "", of_model[i].option.name, x, y);
    }
    for (int i = 0; i < OF_SCORES; i++)
        compare_scores(a, b, &of_scores[i], difference, &count);
    compare_factors(a, b, difference, &count);
    return count;
}

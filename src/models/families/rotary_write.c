/* Writes rotary positions, and names the kinds of their scaling. Each setting is written twice: where transformers 5
 * expects it, and where 4 does. */
#include <math.h>
#include <string.h>

#include "models/families/family.h"
#include "models/families/writer.h"

/* In the order of the enumeration. */
static const char *const rotary_scalings[] = {"default", "linear", "llama3", "dynamic", "yarn", "longrope"};

const char *th_rotary_scaling_name(th_rotary_scaling_kind kind)
{
    return rotary_scalings[kind];
}

bool th_rotary_scaling_find(const char *name, th_rotary_scaling_kind *kind)
{
    for (int i = TH_ROTARY_UNSCALED; i <= TH_ROTARY_LONGROPE; i++)
        if (strcmp(rotary_scalings[i], name) == 0) {
            *kind = (th_rotary_scaling_kind)i;
            return true;
        }
    return false;
}

/* Writes "key": number after `before`. */
static void put_inner(th_writer *w, const char *before, const char *key, double value)
{
    fprintf(w->file, "%s\"%s\": ", before, key);
    th_put_value(w, value);
}

/* As put_inner, unless the value is 0, which is the default. */
static void put_given(th_writer *w, const char *key, double value)
{
    if (value != 0)
        put_inner(w, ", ", key, value);
}

/* Writes , "key": [numbers] */
static void put_factors(th_writer *w, const char *key, const double *factors, int64_t count)
{
    fprintf(w->file, ", \"%s\": [", key);
    for (int64_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", w->file);
        th_put_value(w, factors[i]);
    }
    fputc(']', w->file);
}

static void put_scaling(th_writer *w, const th_rotary_scaling *scaling)
{
    fprintf(w->file, "\"rope_type\": \"%s\"", rotary_scalings[scaling->kind]);
    if (scaling->kind == TH_ROTARY_UNSCALED)
        return;
    put_inner(w, ", ", "factor", scaling->factor);
    if (scaling->kind == TH_ROTARY_LINEAR || scaling->kind == TH_ROTARY_DYNAMIC)
        return;
    if (scaling->kind == TH_ROTARY_LLAMA3) {
        put_inner(w, ", ", "low_freq_factor", scaling->low_freq_factor);
        put_inner(w, ", ", "high_freq_factor", scaling->high_freq_factor);
    } else {
        put_given(w, "attention_factor", scaling->attention_factor);
    }
    if (scaling->kind == TH_ROTARY_YARN) {
        put_given(w, "beta_fast", scaling->beta_fast);
        put_given(w, "beta_slow", scaling->beta_slow);
        put_given(w, "mscale", scaling->mscale);
        put_given(w, "mscale_all_dim", scaling->mscale_all_dim);
        fprintf(w->file, ", \"truncate\": %s", scaling->no_truncate ? "false" : "true");
    }
    if (scaling->kind == TH_ROTARY_LONGROPE) {
        put_factors(w, "short_factor", scaling->short_factor, scaling->n_factors);
        put_factors(w, "long_factor", scaling->long_factor, scaling->n_factors);
    }
    fprintf(w->file, ", \"original_max_position_embeddings\": %lld", (long long)scaling->original_length);
}

/* Returns the smallest factor of head_width whose product, cut to an integer, is the rotated width. */
static double rotated_fraction(const th_score_options *scores, int64_t head_width)
{
    if (scores->rotary_width == 0 || head_width == 0)
        return 1;
    const double fraction = (double)scores->rotary_width / (double)head_width;
    return (int64_t)((double)head_width * fraction) < scores->rotary_width ? nextafter(fraction, 2) : fraction;
}

/* Writes the object of one kind of layer. */
static void put_parameters(th_writer *w, const th_family *family, int64_t head_width, const th_score_options *scores)
{
    put_inner(w, "{", "rope_theta", scores->rotary_base);
    if (family->rotary.rotated_fraction_key)
        put_inner(w, ", ", "partial_rotary_factor", rotated_fraction(scores, head_width));
    fputs(", ", w->file);
    put_scaling(w, &scores->rotary_scaling);
    fputs("}", w->file);
}

static void put_rope_parameters(th_writer *w, const th_family *family, int64_t head_width, const th_score_options *full,
                                const th_score_options *window)
{
    th_put_key(w, "rope_parameters");
    if (family->rotary.window_base_key == NULL) {
        put_parameters(w, family, head_width, full);
        return;
    }
    fputs("{\"full_attention\": ", w->file);
    put_parameters(w, family, head_width, full);
    fputs(", \"sliding_attention\": ", w->file);
    put_parameters(w, family, head_width, window);
    fputs("}", w->file);
}

void th_rotary_write(th_writer *w, const th_family *family, int64_t head_width, const th_score_options *full,
                     const th_score_options *window)
{
    const th_family_rotary *f = &family->rotary;
    put_rope_parameters(w, family, head_width, full, window);
    if (full->rotary_scaling.kind != TH_ROTARY_UNSCALED && !f->in_parameters_only) {
        th_put_key(w, "rope_scaling");
        fputs("{", w->file);
        put_scaling(w, &full->rotary_scaling);
        fputs("}", w->file);
        if (f->original_length > 0)
            th_put_integer(w, "original_max_position_embeddings", full->rotary_scaling.original_length);
    }
    th_put_number(w, f->base_key ? f->base_key : "rope_theta", full->rotary_base);
    if (f->window_base_key)
        th_put_number(w, f->window_base_key, window->rotary_base);
    if (f->rotated_fraction_key)
        th_put_number(w, f->rotated_fraction_key, rotated_fraction(full, head_width));
}

/* Writes the attention of each layer: layer_types and the fields around it, and rotary positions. */
#include "models/families/family.h"
#include "models/families/fields.h"
#include "models/families/writer.h"

/* Returns the scores of the first layer with rotary positions, and with or without a window, or NULL. */
static const th_score_options *find_rotary_scores(const th_language_model_options *o, bool window)
{
    for (int64_t i = 0; i < o->layers; i++) {
        const th_score_options *scores = th_scores_of_layer(o, i);
        if (scores->rotary && (scores->window > 0) == window)
            return scores;
    }
    return NULL;
}

static int64_t window_in_use(const th_language_model_options *o)
{
    for (int64_t i = 0; i < o->layers; i++)
        if (th_scores_of_layer(o, i)->window > 0)
            return th_scores_of_layer(o, i)->window;
    return 0;
}

/* Returns the first layer from which on all have a window; `layers` if the last layer has no window. */
static int64_t first_layer_with_window(const th_language_model_options *o)
{
    int64_t first = o->layers;
    while (first > 0 && th_scores_of_layer(o, first - 1)->window > 0)
        first--;
    return first;
}

static void put_types(th_writer *w, const th_language_model_options *o)
{
    th_put_key(w, "layer_types");
    for (int64_t i = 0; i < o->layers; i++)
        fprintf(w->file, "%s\"%s_attention\"", i ? ", " : "[",
                th_scores_of_layer(o, i)->window > 0 ? "sliding" : "full");
    fputs("]", w->file);
}

static void put_no_rope(th_writer *w, const th_language_model_options *o)
{
    th_put_key(w, "no_rope_layers");
    for (int64_t i = 0; i < o->layers; i++)
        fprintf(w->file, "%s%d", i ? ", " : "[", th_scores_of_layer(o, i)->rotary);
    fputs("]", w->file);
}

static void put_windows(th_writer *w, const th_family *family, const th_language_model_options *o)
{
    const th_family_layers *f = &family->layers;
    const int64_t window = window_in_use(o);
    if (f->windows == TH_NO_WINDOWS)
        return;
    if (f->span_key)
        th_put_integer(w, f->span_key, window > 0 ? 2 * (window - 1) : f->window);
    else if (window > 0)
        th_put_integer(w, "sliding_window", window);
    else if (f->full_every > 0) /* transformers makes the mask even if no layer uses it */
        th_put_integer(w, "sliding_window", o->length);
    else
        th_put_null(w, "sliding_window");
    if (f->has_switch)
        th_put_flag(w, "use_sliding_window", window > 0);
    if (f->window_from > 0)
        th_put_integer(w, "max_window_layers", first_layer_with_window(o));
    if (f->windows == TH_WINDOW_BY_LAYER)
        put_types(w, o);
    if (f->rotary_except > 0)
        put_no_rope(w, o);
}

static th_score_options usual_scores(const th_family *family, bool window)
{
    return (th_score_options){.rotary_base = th_rotary_usual_base(family, window)};
}

void th_layers_write(th_writer *w, const th_family *family, const th_language_model_options *options)
{
    put_windows(w, family, options);
    if (!family->options.block.scores.rotary)
        return;
    const th_score_options *full = find_rotary_scores(options, false), *window = find_rotary_scores(options, true);
    const bool separate = family->rotary.window_base_key != NULL;
    const th_score_options usual_full = usual_scores(family, false), usual_window = usual_scores(family, true);
    if (full == NULL)
        full = separate || window == NULL ? &usual_full : window;
    if (window == NULL)
        window = &usual_window;
    th_rotary_write(w, family, options->block.head_width, full, window);
}

/* Reads which layers have a window, and which have no rotary positions. A model may have two kinds of layers. */
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/family.h"
#include "models/families/fields.h"

typedef struct layer_kind {
    bool window, rotary;
} layer_kind;

/* What config.json says about the layers. */
typedef struct layer_settings {
    int64_t window;               /* 0: none */
    const json_t *types, *rotary; /* layer_types and no_rope_layers; NULL: not given */
    int64_t full_every, window_from, rotary_except;
} layer_settings;

/* -- the fields -- */

static int64_t read_window(const th_config *c, const th_family_layers *f)
{
    static const char key[] = "sliding_window";
    if (f->span_key) /* half of the keys are on each side */
        return th_config_integer(c, f->span_key, 1, f->window) / 2 + 1;
    if (f->windows == TH_NO_WINDOWS) {
        if (th_config_is_given(c, key))
            th_config_refuse(c, "\"%s\" is given, but such a model does not have it", key);
        return 0;
    }
    const bool none = json_is_null(json_object_get(c->object, key));
    const int64_t window = th_config_integer(c, key, 1, none ? 0 : f->window);
    return f->has_switch && !th_config_flag(c, "use_sliding_window", false) ? 0 : window;
}

/* Returns a list with at least `layers` entries; NULL if it is missing. */
static const json_t *read_list(const th_config *c, const char *key, size_t layers, bool longer)
{
    if (!th_config_is_given(c, key))
        return NULL;
    const json_t *list = json_object_get(c->object, key);
    if (json_is_array(list) && (json_array_size(list) == layers || (longer && json_array_size(list) > layers)))
        return list;
    th_config_refuse(c, "\"%s\" is not a list with an entry for each layer", key);
    return NULL;
}

static layer_settings read_settings(const th_config *c, const th_family *family, int64_t layers)
{
    const th_family_layers *f = &family->layers;
    layer_settings p = {.window = read_window(c, f), .full_every = f->full_every, .window_from = f->window_from};
    if (th_config_is_given(c, "attention_chunk_size"))
        th_config_refuse(c, "\"%s\" is given, but such a model does not have it", "attention_chunk_size");
    p.types = read_list(c, "layer_types", (size_t)layers, false);
    if (f->full_key)
        p.full_every = th_config_integer(c, f->full_key, 1, f->full_every);
    if (f->window_from > 0)
        p.window_from = th_config_integer(c, "max_window_layers", 0, f->window_from);
    if (f->rotary_except > 0) {
        p.rotary = read_list(c, "no_rope_layers", (size_t)layers, true);
        p.rotary_except = th_config_integer(c, "no_rope_layer_interval", 1, f->rotary_except);
    }
    return p;
}

/* -- one layer -- */

static bool has_rotary(const th_config *c, const layer_settings *p, int64_t i)
{
    if (p->rotary == NULL)
        return p->rotary_except == 0 || (i + 1) % p->rotary_except != 0;
    const json_t *entry = json_array_get(p->rotary, (size_t)i);
    const json_int_t value = json_is_boolean(entry) ? json_is_true(entry) : json_integer_value(entry);
    if ((!json_is_integer(entry) && !json_is_boolean(entry)) || value < 0 || value > 1)
        th_config_refuse(c, "\"%s\" has an entry that is neither 0 nor 1", "no_rope_layers");
    return value == 1;
}

/* Whether layer i has a window if layer_types does not say it. */
static bool has_usual_window(const th_family_layers *f, const layer_settings *p, bool rotary, int64_t i)
{
    if (p->window == 0 && f->full_every == 0)
        return false;
    return f->windows == TH_WINDOW_IN_ALL_LAYERS || (f->full_every > 0 && (i + !f->full_first) % p->full_every != 0) ||
           (f->window_from > 0 && i >= p->window_from) || (f->rotary_except > 0 && !rotary);
}

static bool has_window(const th_config *c, const th_family_layers *f, const layer_settings *p, bool rotary, int64_t i)
{
    const bool usual = has_usual_window(f, p, rotary, i);
    if (p->types == NULL)
        return usual;
    const char *type = json_string_value(json_array_get(p->types, (size_t)i));
    const bool window = type && strcmp(type, "sliding_attention") == 0;
    if (!window && (type == NULL || strcmp(type, "full_attention") != 0))
        th_config_refuse(c, "\"%s\" has an entry that is neither full_attention nor sliding_attention", "layer_types");
    if (f->windows != TH_WINDOW_BY_LAYER && window != usual)
        th_config_refuse(c, "\"%s\" contradicts sliding_window", "layer_types");
    return window;
}

static layer_kind kind_of_layer(const th_config *c, const th_family_layers *f, const layer_settings *p, int64_t i)
{
    const bool rotary = has_rotary(c, p, i);
    const layer_kind k = {.rotary = rotary, .window = has_window(c, f, p, rotary, i)};
    if (k.window && p->window == 0)
        th_config_refuse(c, "layers have a window, but \"%s\" is null or switched off", "sliding_window");
    return k;
}

/* -- all layers -- */

static th_score_options read_scores(const th_config *c, const th_family *family, const layer_settings *p,
                                    const th_language_model_options *options, layer_kind k)
{
    th_score_options scores = options->block.scores;
    scores.rotary &= k.rotary;
    scores.window = k.window ? p->window : 0;
    if (scores.rotary)
        th_rotary_read(c, family, options, k.window, &scores);
    return scores;
}

/* Marks layer i as one of the others. Returns false without memory. */
static bool mark_other_layer(const th_config *c, th_language_model_options *options, int64_t i)
{
    th_context *ctx = c->source.ctx;
    const size_t bytes = (size_t)options->layers * sizeof(bool);
    bool *flags = (bool *)(uintptr_t)options->other_layers;
    if (flags == NULL) {
        flags = th_allocate(ctx, bytes);
        if (flags == NULL) {
            (void)th_fail_memory(ctx, c->source.operation, bytes);
            return false;
        }
        memset(flags, 0, bytes);
        options->other_layers = flags;
    }
    flags[i] = true;
    return true;
}

void th_layers_read(const th_config *c, const th_family *family, th_language_model_options *options)
{
    const layer_settings p = read_settings(c, family, options->layers);
    const layer_kind first = kind_of_layer(c, &family->layers, &p, 0);
    layer_kind other = first;
    for (int64_t i = 1; i < options->layers && !th_failed(c->source.ctx); i++) {
        const layer_kind k = kind_of_layer(c, &family->layers, &p, i);
        if (k.window == first.window && k.rotary == first.rotary)
            continue;
        if (options->other_layers && (k.window != other.window || k.rotary != other.rotary))
            th_config_refuse(c, "the layers have more than two kinds of attention%s", "");
        other = k;
        if (!mark_other_layer(c, options, i))
            return;
    }
    if (th_failed(c->source.ctx))
        return;
    if (options->other_layers)
        options->other_scores = read_scores(c, family, &p, options, other);
    options->block.scores = read_scores(c, family, &p, options, first);
}

void th_layers_release(th_context *ctx, th_language_model_options *options)
{
    th_score_options_release(ctx, &options->block.scores);
    th_score_options_release(ctx, &options->other_scores);
    th_release(ctx, (void *)(uintptr_t)options->other_layers, (size_t)options->layers * sizeof(bool));
    options->other_layers = NULL;
}

/* Reads rotary positions: rope_scaling with rope_theta beside it (transformers 4), or everything in rope_parameters
 * (5). Families whose layers with a window have another base have one rope_parameters for each kind of layer. */
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/family.h"
#include "models/families/fields.h"

static const char original_key[] = "original_max_position_embeddings";

double th_rotary_usual_base(const th_family *family, bool window)
{
    const th_family_rotary *r = &family->rotary;
    return window && r->window_base_key ? r->window_base : r->base > 0 ? r->base : 10000;
}

/* What the functions below read. */
typedef struct rotary {
    const th_config *file;
    th_config settings; /* the object with the scaling; may have no fields */
    const th_family *family;
    int64_t length; /* max_position_embeddings */
    double base;
    int64_t width; /* of the rotated part of a head */
} rotary;

/* -- the object with the scaling -- */

static void refuse_inner_objects(const th_config *c, const json_t *object)
{
    json_t *iterated = (json_t *)(uintptr_t)object;
    for (void *i = json_object_iter(iterated); i; i = json_object_iter_next(iterated, i))
        if (json_is_object(json_object_iter_value(i)))
            th_config_refuse(c, "rotary positions for one kind of layer (\"%s\") are not supported",
                             json_object_iter_key(i));
}

/* Checks that rope_parameters has a member for each kind of layer, and nothing else. */
static void check_kinds(const th_config *c, const json_t *parameters)
{
    json_t *iterated = (json_t *)(uintptr_t)parameters;
    for (void *i = json_object_iter(iterated); i; i = json_object_iter_next(iterated, i)) {
        const char *key = json_object_iter_key(i);
        const json_t *value = json_object_iter_value(i);
        if ((strcmp(key, "full_attention") != 0 && strcmp(key, "sliding_attention") != 0) ||
            (!json_is_object(value) && !json_is_null(value)))
            th_config_refuse(c, "\"%s\" in rope_parameters is not an object for one kind of layer", key);
    }
}

/* Returns the object for layers without a window if both objects are given, which must not contradict each other. */
static const json_t *object_without_window(const th_config *c, const json_t *full, const json_t *scaling)
{
    if (full == NULL || scaling == NULL)
        return full ? full : scaling;
    json_t *iterated = (json_t *)(uintptr_t)scaling;
    for (void *i = json_object_iter(iterated); i; i = json_object_iter_next(iterated, i))
        if (!json_equal(json_object_iter_value(i), json_object_get(full, json_object_iter_key(i))))
            th_config_refuse(c, "\"%s\" differs between rope_scaling and rope_parameters", json_object_iter_key(i));
    return full;
}

static const json_t *find_scaling_object(const th_config *c, const th_family *family, bool window)
{
    const json_t *parameters = th_config_object(c, "rope_parameters"), *scaling = th_config_object(c, "rope_scaling");
    const json_t *object = scaling ? scaling : parameters;
    if (family->rotary.window_base_key) {
        check_kinds(c, parameters);
        const json_t *kind = json_object_get(parameters, window ? "sliding_attention" : "full_attention");
        kind = json_is_object(kind) ? kind : NULL;
        object = window ? kind : object_without_window(c, kind, scaling);
    }
    refuse_inner_objects(c, object);
    return object;
}

/* -- base and width -- */

static double read_base(const rotary *r, bool window)
{
    const th_family_rotary *f = &r->family->rotary;
    const char *key = f->window_base_key && window ? f->window_base_key : f->base_key ? f->base_key : "rope_theta";
    const th_range range = TH_BASE_RANGE;
    const double usual = th_config_number_in(r->file, key, range, th_rotary_usual_base(r->family, window));
    const double base = th_config_number_in(&r->settings, "rope_theta", range, usual);
    if (f->base_key && th_config_number(r->file, "rope_theta", base) != base)
        th_config_refuse(r->file, "\"%s\" contradicts the base of rotary positions", "rope_theta");
    return base;
}

/* Returns the number of elements of a head that are rotated. */
static int64_t read_width(const rotary *r, int64_t head_width)
{
    static const char key[] = "partial_rotary_factor";
    const th_family_rotary *f = &r->family->rotary;
    const th_range range = TH_PART_RANGE;
    const double usual =
        f->rotated_fraction_key ? th_config_number_in(r->file, f->rotated_fraction_key, range, f->rotated_fraction) : 1;
    const double fraction = th_config_number_in(&r->settings, key, range, usual);
    const double outer_fraction = th_config_number(r->file, key, fraction);
    if (f->rotated_fraction_key == NULL && (fraction != 1 || outer_fraction != 1))
        th_config_refuse(r->file, "\"%s\" is not 1", key);
    if (f->rotated_fraction_key && strcmp(f->rotated_fraction_key, key) != 0 && outer_fraction != fraction)
        th_config_refuse(r->file, "\"%s\" is given twice with different values", key);
    if (!th_in_range(range, fraction))
        return head_width;
    const int64_t width = (int64_t)((double)head_width * fraction);
    if (f->rotated_fraction_key && (width == 0 || width % 2 != 0))
        th_config_fail(r->file,
                       "\"%s\" is %g, which selects %lld of %lld elements of a head; rotary positions need a positive "
                       "and even number",
                       key, fraction, (long long)width, (long long)head_width);
    else if (width % 2 != 0)
        th_config_fail(r->file,
                       "\"head_dim\", or hidden_size divided by num_attention_heads, is %lld; rotary positions need an "
                       "even number",
                       (long long)width);
    return width;
}

/* -- scaling -- */

/* Returns the length before scaling. It is a member of the scaling or of the file. transformers reads both, and its
 * versions differ in which one they prefer. */
static int64_t original_length(const rotary *r)
{
    const int64_t fixed_length = r->family->rotary.original_length;
    const int64_t default_length =
        th_config_integer(r->file, original_key, 1, fixed_length > 0 ? fixed_length : r->length);
    const int64_t length = th_config_integer(&r->settings, original_key, 1, default_length);
    if ((fixed_length > 0 || th_config_is_given(r->file, original_key)) && length != default_length)
        th_config_refuse(r->file, "\"%s\" appears twice with different values", original_key);
    if (r->family->rotary.window_base_key && th_config_is_given(r->file, original_key))
        th_config_refuse(r->file, "\"%s\" is not a member of rope_parameters", original_key);
    return length;
}

/* Returns the length that the model was first trained with. transformers takes it from another field for dynamic
 * scaling, and ignores the one of the other kinds. */
static int64_t length_before_dynamic(const rotary *r)
{
    if (original_length(r) != r->length)
        th_config_refuse(r->file, "\"%s\" differs from max_position_embeddings, which dynamic scaling uses",
                         original_key);
    return r->length;
}

static double scaling_number(const th_config *c, const char *key, double default_value)
{
    return th_config_number_in(c, key, (th_range)TH_SCALING_RANGE, default_value);
}

/* Returns 0 for a field that is missing or 0, which transformers replaces by a default. */
static double number_or_zero(const th_config *c, const char *key)
{
    return th_config_number(c, key, 0) == 0 ? 0 : scaling_number(c, key, 0);
}

/* Whether the field is a list of one number for each pair. */
static bool has_factors(const rotary *r, const char *key)
{
    const json_t *array = json_object_get(r->settings.object, key);
    bool usable = json_is_array(array) && json_array_size(array) == (size_t)(r->width / 2);
    for (size_t i = 0; i < json_array_size(array); i++)
        usable &= json_is_number(json_array_get(array, i)) != 0;
    if (!usable)
        th_config_refuse(r->file, "\"%s\" is not a list of one number for each pair of a head", key);
    return usable;
}

static void read_factors(const rotary *r, const char *key, double *factors)
{
    const th_range range = TH_SCALING_RANGE;
    for (int64_t i = 0; i < r->width / 2; i++) {
        factors[i] = json_number_value(json_array_get(json_object_get(r->settings.object, key), (size_t)i));
        if (!th_in_range(range, factors[i]))
            th_config_fail(r->file, "\"%s\"[%lld] is %g; it must be in [%g, %g]", key, (long long)i, factors[i],
                           range.low, range.high);
    }
}

/* Reads the factors of LongRoPE into memory that th_score_options_release releases. */
static void read_longrope(const rotary *r, th_rotary_scaling *scaling)
{
    const int64_t pairs = r->width / 2;
    th_context *ctx = r->file->source.ctx;
    scaling->attention_factor = scaling_number(&r->settings, "attention_factor", 0);
    if (!has_factors(r, "short_factor") || !has_factors(r, "long_factor") || pairs == 0)
        return;
    const size_t bytes = 2 * (size_t)pairs * sizeof(double);
    double *factors = th_allocate(ctx, bytes);
    if (factors == NULL) {
        (void)th_fail_memory(ctx, r->file->source.operation, bytes);
        return;
    }
    read_factors(r, "short_factor", factors);
    read_factors(r, "long_factor", factors + pairs);
    scaling->short_factor = factors;
    scaling->long_factor = factors + pairs;
    scaling->n_factors = pairs;
}

static void read_yarn(const th_config *settings, th_rotary_scaling *scaling)
{
    scaling->attention_factor = scaling_number(settings, "attention_factor", 0);
    scaling->beta_fast = number_or_zero(settings, "beta_fast");
    scaling->beta_slow = number_or_zero(settings, "beta_slow");
    scaling->mscale = number_or_zero(settings, "mscale");
    scaling->mscale_all_dim = number_or_zero(settings, "mscale_all_dim");
    scaling->no_truncate = !th_config_flag(settings, "truncate", true);
}

/* Returns the factor of yarn and longrope if it is missing: how often the original length fits the model's. */
static double missing_factor(const rotary *r, const th_rotary_scaling *scaling)
{
    const bool has_ratio = scaling->kind == TH_ROTARY_YARN || scaling->kind == TH_ROTARY_LONGROPE;
    return has_ratio ? (double)r->length / (double)scaling->original_length : 0;
}

static th_rotary_scaling_kind read_kind(const rotary *r)
{
    th_rotary_scaling_kind kind = TH_ROTARY_UNSCALED;
    const char *type = th_config_string(&r->settings, "rope_type", th_config_string(&r->settings, "type", "default"));
    if (r->family->rotary.has_longrope_aliases) {
        if (strcmp(type, "su") == 0 || strcmp(type, "yarn") == 0)
            return TH_ROTARY_LONGROPE;
        if (strcmp(type, "default") != 0 && strcmp(type, "longrope") != 0)
            th_config_refuse(r->file, "rope_type \"%s\" is not supported; default and longrope are", type);
    }
    if (!th_rotary_scaling_find(type, &kind))
        th_config_refuse(r->file,
                         "rope_type \"%s\" is not supported; default, linear, llama3, dynamic, yarn and longrope are",
                         type);
    return kind;
}

static th_rotary_scaling read_scaling(const rotary *r)
{
    th_rotary_scaling scaling = {.kind = read_kind(r)};
    if (scaling.kind == TH_ROTARY_UNSCALED)
        return scaling;
    if (scaling.kind == TH_ROTARY_DYNAMIC)
        scaling.original_length = length_before_dynamic(r);
    else if (scaling.kind != TH_ROTARY_LINEAR)
        scaling.original_length = original_length(r);
    scaling.factor = scaling_number(&r->settings, "factor", missing_factor(r, &scaling));
    if (scaling.kind == TH_ROTARY_LLAMA3) {
        scaling.low_freq_factor = scaling_number(&r->settings, "low_freq_factor", 0);
        scaling.high_freq_factor = scaling_number(&r->settings, "high_freq_factor", 0);
    }
    if (scaling.kind == TH_ROTARY_YARN)
        read_yarn(&r->settings, &scaling);
    if (scaling.kind == TH_ROTARY_LONGROPE)
        read_longrope(r, &scaling);
    char reason[TH_ROTARY_REASON];
    if (!th_rotary_scaling_usable(&scaling, r->base, r->width, reason))
        th_config_refuse(r->file, "rotary positions: %s", reason);
    return scaling;
}

void th_rotary_read(const th_config *c, const th_family *family, const th_language_model_options *options, bool window,
                    th_score_options *scores)
{
    rotary r = {.file = c, .family = family, .length = options->length};
    r.settings = (th_config){c->source, find_scaling_object(c, family, window)};
    r.base = read_base(&r, window);
    r.width = read_width(&r, options->block.head_width);
    scores->rotary_base = r.base;
    scores->rotary_width = r.width == options->block.head_width ? 0 : r.width;
    scores->rotary_scaling = read_scaling(&r);
}

/* Reads rotary positions, their scaling, and the layers that differ. */
#include <math.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/fields.h"
#include "models/gguf/options.h"

typedef struct positions {
    const th_gguf *file;
    const th_gguf_architecture *architecture;
    const th_language_model_options *options;
    int64_t pairs; /* of a head */
} positions;

/* Returns a number of the scaling of rotary positions. */
static double scaling_number(const positions *p, const char *name, double default_value)
{
    char key[TH_GGUF_LONGEST_KEY];
    double value = default_value;
    th_gguf_real(p->file, th_gguf_key(p->architecture, name, key), (th_range)TH_SCALING_RANGE, &value);
    return value;
}

/* Returns a base of rotary positions. */
static double read_base(const positions *p, const char *name, double default_value)
{
    const th_range range = TH_BASE_RANGE;
    char key[TH_GGUF_LONGEST_KEY];
    double value = default_value;
    if (th_gguf_real(p->file, th_gguf_key(p->architecture, name, key), range, &value) && value == 0)
        th_gguf_refuse(p->file, "\"%s\" is 0; it must be in [%g, %g]", key, range.low, range.high);
    return value;
}

static int64_t read_size(const positions *p, const char *name, int64_t low, int64_t default_value)
{
    char key[TH_GGUF_LONGEST_KEY];
    int64_t value = default_value;
    th_gguf_integer(p->file, th_gguf_key(p->architecture, name, key), low, TH_CONFIG_MAX_SIZE, &value);
    return value;
}

/* -- tensors of factors -- */

bool th_gguf_has_factors(const th_gguf_architecture *a, const th_rotary_scaling *s)
{
    if (a->factors == TH_GGUF_TWO_FACTORS)
        return s->kind == TH_ROTARY_LONGROPE;
    if (a->factors == TH_GGUF_NO_FACTORS)
        return false;
    if (s->kind != TH_ROTARY_LONGROPE)
        return s->kind == TH_ROTARY_LLAMA3;
    for (int64_t i = 0; i < s->n_factors; i++)
        if (s->short_factor[i] != s->long_factor[i])
            return false;
    return th_rotary_attention_factor(s) == 1;
}

/* Copies the factors, which must be in the range of all numbers of the scaling. */
static void copy_factors(const positions *p, const char *name, const float *values, double *factor)
{
    const th_range range = TH_SCALING_RANGE;
    for (int64_t i = 0; i < p->pairs; i++) {
        factor[i] = (double)values[i];
        if (!th_in_range(range, factor[i]))
            th_gguf_refuse(p->file, "%s[%lld] is %g; it must be in [%g, %g]", name, (long long)i, factor[i], range.low,
                           range.high);
    }
}

/* Reads one factor for each pair. */
static void read_factors(const positions *p, const char *name, double *factor)
{
    th_gguf_tensor *t = th_gguf_find_tensor(p->file, name);
    if (t == NULL || t->type->dtype != TH_FLOAT32 || !t->type->readable || t->shape.ndim != 1 ||
        t->shape.size[0] != p->pairs) {
        th_gguf_refuse(p->file, "%s is %s; %lld numbers of F32 are needed", name, t ? "different" : "missing",
                       (long long)p->pairs);
        return;
    }
    t->users++;
    float *values = th_allocate(p->file->ctx, (size_t)t->bytes);
    if (values == NULL)
        (void)th_fail_memory(p->file->ctx, p->file->operation, (size_t)t->bytes);
    else if (th_gguf_read(p->file, t, values) == TH_OK)
        copy_factors(p, name, values, factor);
    th_release(p->file->ctx, values, (size_t)t->bytes);
}

/* Reads the factors of LongRoPE. Llama 3's factors are the same for every length. */
static void read_longrope(const positions *p, th_rotary_scaling *s)
{
    const bool same_factors = p->architecture->factors == TH_GGUF_ONE_FACTOR;
    const size_t bytes = 2 * (size_t)p->pairs * sizeof(double);
    double *factors = p->pairs > 0 ? th_allocate(p->file->ctx, bytes) : NULL;
    if (factors == NULL) {
        if (p->pairs > 0)
            (void)th_fail_memory(p->file->ctx, p->file->operation, bytes);
        return;
    }
    s->kind = TH_ROTARY_LONGROPE;
    s->original_length =
        same_factors ? p->options->length : read_size(p, "rope.scaling.original_context_length", 1, p->options->length);
    s->factor = (double)p->options->length / (double)s->original_length;
    s->attention_factor = same_factors ? 1 : scaling_number(p, "rope.scaling.attn_factor", 1);
    s->n_factors = p->pairs;
    s->short_factor = factors;
    s->long_factor = factors + p->pairs;
    memset(factors, 0, bytes);
    read_factors(p, same_factors ? TH_GGUF_FREQUENCIES : TH_GGUF_SHORT, factors);
    read_factors(p, same_factors ? TH_GGUF_FREQUENCIES : TH_GGUF_LONG, factors + p->pairs);
}

/* -- scaling -- */

static bool has_scaling_type(const positions *p, const char *type)
{
    char key[TH_GGUF_LONGEST_KEY];
    return th_gguf_has_text(p->file, th_gguf_key(p->architecture, "rope.scaling.type", key), type);
}

static void read_yarn(const positions *p, th_rotary_scaling *s)
{
    s->kind = TH_ROTARY_YARN;
    s->original_length = read_size(p, "rope.scaling.original_context_length", 1, p->options->length);
    s->beta_fast = scaling_number(p, "rope.scaling.yarn_beta_fast", 0);
    s->beta_slow = scaling_number(p, "rope.scaling.yarn_beta_slow", 0);
}

static th_rotary_scaling read_scaling(const positions *p, double base)
{
    th_rotary_scaling s = {0};
    char reason[TH_ROTARY_REASON], key[TH_GGUF_LONGEST_KEY];
    const bool given = th_gguf_find(p->file, th_gguf_key(p->architecture, "rope.scaling.type", key)) != NULL;
    const char *tensor = p->architecture->factors == TH_GGUF_ONE_FACTOR ? TH_GGUF_FREQUENCIES : TH_GGUF_LONG;
    if (p->architecture->factors != TH_GGUF_NO_FACTORS && th_gguf_find_tensor(p->file, tensor)) {
        read_longrope(p, &s);
    } else if (!has_scaling_type(p, "none")) {
        s.factor = scaling_number(p, "rope.scaling.factor", 0);
        if (has_scaling_type(p, "yarn"))
            read_yarn(p, &s);
        else if (given && !has_scaling_type(p, "linear"))
            th_gguf_refuse(p->file, "%s is not supported; none, linear and yarn are", key);
        else if (s.factor != 0 && s.factor != 1)
            s.kind = TH_ROTARY_LINEAR;
        if (p->file->n_tensors > 0 && scaling_number(p, "rope.scaling.attn_factor", 1) != 1)
            th_gguf_refuse(p->file, "rope.scaling.attn_factor is not 1, which is not supported without factors");
    }
    if (s.kind == TH_ROTARY_UNSCALED)
        s.factor = 0;
    else if (!th_rotary_scaling_usable(&s, base, 2 * p->pairs, reason))
        th_gguf_refuse(p->file, "rotary positions: %s", reason);
    return s;
}

/* -- layers -- */

/* Whether layer i has a window, or has no rotary positions: such layers differ from the others. */
static bool is_other_layer(const positions *p, int64_t window, int64_t i)
{
    const th_gguf_architecture *a = p->architecture;
    if (a->rotary_except > 0)
        return (i + 1) % a->rotary_except == 0;
    return window > 0 && a->window_except > 1 && (i + 1) % a->window_except != 0;
}

/* Marks the layers that differ. Returns the flags; NULL if no layer differs, or with the error pending. */
static const bool *mark_layers(const positions *p, int64_t window)
{
    const size_t bytes = (size_t)p->options->layers * sizeof(bool);
    bool any = false;
    for (int64_t i = 0; i < p->options->layers; i++)
        any |= is_other_layer(p, window, i);
    bool *flags = any ? th_allocate(p->file->ctx, bytes) : NULL;
    if (any && flags == NULL)
        (void)th_fail_memory(p->file->ctx, p->file->operation, bytes);
    for (int64_t i = 0; flags && i < p->options->layers; i++)
        flags[i] = is_other_layer(p, window, i);
    return flags;
}

/* Sets the positions of layers without a window. */
static void set_full_positions(const positions *p, th_score_options *scores)
{
    const double base = read_base(p, "rope.freq_base", 10000);
    scores->rotary_base = base;
    scores->rotary_width = 2 * p->pairs == p->options->block.head_width ? 0 : 2 * p->pairs;
    scores->rotary_pairing = p->architecture->neighbors ? TH_ROTARY_NEIGHBORS : TH_ROTARY_HALVES;
    scores->rotary_scaling = read_scaling(p, base);
}

/* Sets the positions of the other layers from the positions of the first kind. */
static void set_other_positions(const positions *p, int64_t window, th_score_options *scores)
{
    if (p->architecture->rotary_except > 0) {
        scores->rotary = false;
        scores->rotary_scaling = (th_rotary_scaling){0};
        return;
    }
    scores->window = window;
    if (p->architecture->window_base == 0)
        return;
    scores->rotary_base = read_base(p, "rope.freq_base_swa", p->architecture->window_base);
    scores->rotary_scaling = (th_rotary_scaling){0};
}

void th_gguf_read_positions(const th_gguf *file, const th_gguf_architecture *a, th_language_model_options *o)
{
    positions p = {.file = file, .architecture = a, .options = o};
    char key[TH_GGUF_LONGEST_KEY];
    if (!o->block.scores.rotary)
        return;
    const int64_t width = o->block.head_width, rotated = read_size(&p, "rope.dimension_count", 2, width);
    p.pairs = rotated / 2;
    if (rotated % 2 != 0)
        th_gguf_refuse(file, "%s is %lld, which is not even", th_gguf_key(a, "rope.dimension_count", key),
                       (long long)rotated);
    if (rotated > width || (rotated < width && !a->part_is_rotated))
        th_gguf_refuse(file, "%s is %lld, but heads have a width of %lld", th_gguf_key(a, "rope.dimension_count", key),
                       (long long)rotated, (long long)width);
    const int64_t window = read_size(&p, "attention.sliding_window", 0, 0);
    if (window > 0 && a->window_except == 0)
        th_gguf_refuse(file, "%s is not supported in this architecture",
                       th_gguf_key(a, "attention.sliding_window", key));
    if (th_failed(file->ctx))
        return;
    set_full_positions(&p, &o->block.scores);
    o->other_layers = mark_layers(&p, window);
    if (a->window_except == 1)
        o->block.scores.window = window;
    if (o->other_layers == NULL)
        return;
    o->other_scores = o->block.scores;
    set_other_positions(&p, window, &o->other_scores); /* (no architecture with two kinds of layers has factors) */
}

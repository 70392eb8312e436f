/* Attaches adapters to the projections that the patterns match, lists them and detaches them. */
#include <math.h>
#include <string.h>

#include "kernels/dtype.h"
#include "nn/lora.h"
#include "tapehead/lora.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"
#include "tensor/checked.h"
#include "tensor/context.h"
#include "tensor/format.h"
#include "tensor/name_pattern.h"
#include "tensor/parameter.h"

static const char operation[] = "lora_attach";

enum { DEFAULT_RANK = 8 };

/* -- options -- */

static th_status check_options(th_context *ctx, const th_lora_options *o)
{
    if (o->rank < 0 || o->rank > INT64_MAX / 4)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "rank = %lld must be positive, or 0 for %d",
                       (long long)o->rank, DEFAULT_RANK);
    if (!(o->alpha >= 0) || !isfinite(o->alpha))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "alpha = %g must be positive, or 0 for the rank", o->alpha);
    if (!(o->dropout >= 0 && o->dropout < 1))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "dropout must be in [0, 1); it is %g", o->dropout);
    if (o->n_patterns < 0 || (o->n_patterns > 0 && o->patterns == NULL) || (o->n_patterns == 0 && o->patterns))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "there are %d patterns, but their list is %s", o->n_patterns,
                       o->patterns ? "given: without a list, all projections except the classifier match" : "NULL");
    for (int i = 0; i < o->n_patterns; i++)
        if (o->patterns[i] == NULL || o->patterns[i][0] == 0)
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "pattern %d is %s", i, o->patterns[i] ? "empty" : "NULL");
    return TH_OK;
}

static th_lora_setting setting_of(const th_lora_options *o)
{
    const int64_t rank = o->rank ? o->rank : DEFAULT_RANK;
    return (th_lora_setting){.rank = rank,
                             .alpha = o->alpha > 0 ? o->alpha : (double)rank,
                             .dropout = o->dropout,
                             .rank_stabilized = o->rank_stabilized};
}

/* -- patterns -- */

/* Returns whether the pattern matches the name, or the end of the name after one of its dots. */
static bool matches(const char *pattern, const char *name)
{
    for (const char *tail = name; tail; tail = strchr(tail, '.')) {
        tail += tail != name; /* the dot */
        if (th_name_matches(pattern, tail))
            return true;
    }
    return false;
}

/* The last patterns that match a projection: by its own name, and otherwise by its joint name (nn/lora.h). */
typedef struct matched_patterns {
    const char *own, *joint; /* the pattern, or NULL */
} matched_patterns;

static matched_patterns match_projection(const th_lora_options *o, const th_projection *p)
{
    matched_patterns c = {NULL, NULL};
    if (o->n_patterns == 0)
        c.own = p->classifier ? NULL : "*";
    for (int i = 0; i < o->n_patterns; i++)
        if (matches(o->patterns[i], p->name))
            c.own = o->patterns[i];
        else if (p->joint_name[0] && matches(o->patterns[i], p->joint_name))
            c.joint = o->patterns[i];
    return c;
}

/* Appends the end of a name, after its last dot, to a list of names, unless the list has it. */
static void append_last_name(char *list, size_t bytes, const char *name)
{
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    const size_t length = strlen(last), end = strlen(list);
    for (const char *found = strstr(list, last); found; found = strstr(found + 1, last))
        if ((found == list || found[-1] == ' ') && (found[length] == 0 || found[length] == ','))
            return;
    if (end + length + 3 < bytes)
        th_append(list, bytes, "%s%s", end ? ", " : "", last);
}

/* Returns an error unless each pattern matches a projection. */
static th_status check_patterns(th_module *m, const th_lora_options *o)
{
    for (int i = 0; i < o->n_patterns; i++) {
        bool used = false;
        for (th_projection p = th_projections_begin(m); !used && th_projection_next(&p);)
            used = matches(o->patterns[i], p.name) || (p.joint_name[0] && matches(o->patterns[i], p.joint_name));
        if (used)
            continue;
        char list[256] = "";
        for (th_projection p = th_projections_begin(m); th_projection_next(&p);)
            append_last_name(list, sizeof list, p.name);
        return th_fail(
            m->ctx, TH_ERROR_ARGUMENT, operation,
            "the pattern \"%.100s\" matches no projection; there are %s. Embeddings, and a classifier that is "
            "the embedding, have no adapters",
            o->patterns[i], list);
    }
    return TH_OK;
}

/* -- attaching -- */

/* Returns an error if the projection cannot have the adapter that the patterns ask for. */
static th_status check_projection(const th_projection *p, const matched_patterns *c)
{
    th_context *ctx = p->owner->ctx;
    if (c->own && c->joint)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                       "%s matches \"%.60s\", and \"%.60s\" matches query, key and value together: use one of both",
                       p->name, c->own, c->joint);
    if (th_lora_may_be_ignored(p->owner))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                       "the forward of the %s with %s was replaced, and might not run the adapter", p->owner->type,
                       p->name);
    return TH_OK;
}

/* Checks everything that needs no memory. Sets *count to the number of projections that match. */
static th_status check_tree(th_module *m, const th_lora_options *o, int64_t *count)
{
    *count = 0;
    for (th_projection p = th_projections_begin(m); th_projection_next(&p);) {
        if (*p.lora)
            return th_fail(m->ctx, TH_ERROR_STATE, operation,
                           "%s has an adapter already: a projection has at most one (th_lora_detach)", p.name);
        const matched_patterns c = match_projection(o, &p);
        if (!c.own && !c.joint)
            continue;
        if (check_projection(&p, &c) != TH_OK)
            return m->ctx->error;
        ++*count;
    }
    if (*count == 0 && o->n_patterns == 0)
        return th_fail(m->ctx, TH_ERROR_ARGUMENT, operation, "%s has no dense layers and no attention", m->type);
    return check_patterns(m, o);
}

static th_dtype adapter_type(const th_projection *p)
{
    const th_dtype stored = th_dtype_of(p->weight);
    return th_is_storage_type(stored) ? TH_FLOAT32 : stored;
}

th_lora *th_lora_attach_to(const th_projection *p, const th_lora_setting *setting, th_tensor *shared)
{
    th_context *ctx = p->owner->ctx;
    if (shared && th_size(shared, 1) != p->input) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                "%s has %lld inputs and the query %lld: only projections of one tensor can share A", p->name,
                (long long)p->input, (long long)th_size(shared, 1));
        return NULL;
    }
    th_lora *l = th_lora_new(ctx, setting, adapter_type(p), p->rows, p->input, shared);
    if (l && th_module_add_part(p->owner, p->child, &l->base) == NULL) {
        th_module_free(&l->base);
        return NULL;
    }
    *p->lora = l;
    return l;
}

void th_lora_freeze_base(th_module *m)
{
    th_status status = th_module_freeze(m, true);
    (void)status; /* nothing can fail: m is usable */
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p);) {
        th_set_requires_gradient((*p.lora)->a, true);
        th_set_requires_gradient((*p.lora)->b, true);
    }
}

void th_lora_remove_all(th_module *m)
{
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p);) {
        th_module *lora = &(*p.lora)->base;
        *p.lora = NULL;
        lora->part = false;
        th_module_free(lora);
    }
}

/* Adds the bytes of a matrix to *sum. Returns false if they overflow. */
static bool add_bytes(int64_t *sum, int64_t rows, int64_t columns, th_dtype dtype)
{
    int64_t numel;
    size_t bytes;
    return th_checked_multiply(rows, columns, &numel) && th_checked_bytes(numel, th_dtype_size(dtype), &bytes) &&
           th_checked_add(*sum, (int64_t)bytes, sum); /* bytes is a product of int64_t */
}

/* Returns the bytes of all adapters. 0 if they overflow or have several types. */
static size_t adapter_bytes(th_module *m, const th_lora_options *o, int64_t rank)
{
    const th_module *layer = NULL; /* whose A is counted */
    th_dtype dtype = TH_FLOAT32;
    int64_t sum = 0;
    for (th_projection p = th_projections_begin(m); th_projection_next(&p);) {
        const matched_patterns c = match_projection(o, &p);
        if (!c.own && !c.joint)
            continue;
        if (sum > 0 && adapter_type(&p) != dtype)
            return 0;
        dtype = adapter_type(&p);
        if (!(c.joint && p.owner == layer) && !add_bytes(&sum, rank, p.input, dtype))
            return 0;
        if (!add_bytes(&sum, p.rows, rank, dtype))
            return 0;
        layer = c.joint ? p.owner : layer;
    }
    return (uint64_t)sum > SIZE_MAX ? 0 : (size_t)sum;
}

static th_status attach_all(th_module *m, const th_lora_options *o)
{
    const th_lora_setting setting = setting_of(o);
    const th_module *layer = NULL; /* whose A is shared */
    th_tensor *shared = NULL;
    for (th_projection p = th_projections_begin(m); th_projection_next(&p);) {
        const matched_patterns c = match_projection(o, &p);
        if (!c.own && !c.joint)
            continue;
        const bool first = c.joint && p.owner != layer;
        const th_lora *l = th_lora_attach_to(&p, &setting, c.joint && !first ? shared : NULL);
        if (l == NULL)
            return m->ctx->error;
        if (first) {
            layer = p.owner;
            shared = l->a;
        }
    }
    return TH_OK;
}

/* Draws each A once. Nothing can fail after the first random number, so a repeated attempt draws the same numbers. */
static th_status initialize_all(th_module *m)
{
    const th_tensor *initialized = NULL;
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p); initialized = (*p.lora)->a)
        if ((*p.lora)->a != initialized && th_lora_initialize(*p.lora) != TH_OK)
            return m->ctx->error;
    return TH_OK;
}

th_status th_lora_attach(th_module *m, const th_lora_options *options)
{
    const th_lora_options given = options ? *options : (th_lora_options){0};
    if (!th_module_usable(m, operation))
        return m ? m->ctx->error : TH_ERROR_ARGUMENT;
    int64_t count;
    if (th_refuse_in_check(m->ctx, operation) != TH_OK || check_options(m->ctx, &given) != TH_OK ||
        check_tree(m, &given, &count) != TH_OK)
        return m->ctx->error;
    m->ctx->expected_adapter_bytes = adapter_bytes(m, &given, setting_of(&given).rank);
    const th_status attached = attach_all(m, &given);
    m->ctx->expected_adapter_bytes = 0;
    if (attached == TH_OK && initialize_all(m) == TH_OK)
        th_lora_freeze_base(m);
    else
        th_lora_remove_all(m);
    return m->ctx->error;
}

/* -- listing, detaching -- */

int64_t th_lora_count(const th_module *m)
{
    int64_t count = 0;
    for (th_projection p = th_projections_begin(m); m && th_projection_next_adapted(&p);)
        count++;
    return count;
}

bool th_lora_find(const th_module *m, int64_t index, th_lora_adapter *adapter)
{
    if (m == NULL || index < 0)
        return false;
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p); index--) {
        if (index > 0)
            continue;
        const th_lora *l = *p.lora;
        *adapter = (th_lora_adapter){.a = l->a,
                                     .b = l->b,
                                     .alpha = l->setting.alpha,
                                     .scale = l->scale,
                                     .dropout = l->setting.dropout,
                                     .rank_stabilized = l->setting.rank_stabilized,
                                     .merged = l->base.state->hidden};
        memcpy(adapter->name, p.name, sizeof p.name);
        return true;
    }
    return false;
}

th_status th_lora_detach(th_module *m)
{
    static const char detach[] = "lora_detach";
    if (!th_module_usable(m, detach))
        return m ? m->ctx->error : TH_ERROR_ARGUMENT;
    if (th_refuse_in_check(m->ctx, detach) != TH_OK)
        return m->ctx->error;
    int64_t count = 0;
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p); count++)
        if (p.owner->state->running_forwards > 0)
            return th_fail(m->ctx, TH_ERROR_STATE, detach, "the forward of the %s with %s runs", p.owner->type, p.name);
    if (count == 0)
        return th_fail(m->ctx, TH_ERROR_STATE, detach, "%s has no adapter", m->type);
    th_lora_remove_all(m);
    return m->ctx->error;
}

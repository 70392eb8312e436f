/* SGD, Adam and AdamW over the contiguous runs that parameters, gradients and moments make. The arithmetic of one run
 * is in src/kernels/vector/optimizer.c; which parameter takes which options, and what is refused, is decided here. */
#include "nn/optimizer.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "autograd/gradient.h"
#include "autograd/profile.h"
#include "kernels/optimizer_kernels.h"
#include "kernels/parallel.h"
#include "kernels/scalar.h"
#include "tapehead/tape.h"
#include "tensor/elementwise.h"

enum {
    MAX_MOMENTS = 3,
    CHUNK = 1 << 14, /* elements of one task: cut by size, never by the number of threads */
    PARTIALS = 256   /* chunks whose sums are held at once */
};

/* Mirrors the part of a parameter block that the optimiser uses. */
typedef struct mirror {
    th_parameter_block *block;
    size_t bytes;
    void *moment[MAX_MOMENTS];
    struct mirror *next;
} mirror;

typedef struct record {
    th_body *tensor;
    th_parameter_entry *entry;
    mirror *moments; /* NULL until the first step */
    int group;
    bool due;      /* has a gradient in the current step */
    int64_t steps; /* taken so far */
} record;

typedef struct group {
    double learning_rate_factor, weight_decay;
} group;

typedef enum rule { RULE_SGD, RULE_ADAM } rule;

struct th_optimizer {
    th_context *ctx;
    const th_module *module; /* for names; NULL once it is freed */
    const char *operation;   /* "adam": for sentences */
    rule rule;
    bool decoupled;
    th_sgd_options sgd;
    th_adam_options adam;
    double learning_rate, max_norm, norm;
    int n_moments;
    group *groups; /* [n_groups]; the last one is everything else */
    int n_groups;
    record *records; /* [count], in the module's order */
    record **layout; /* [count], in the order they lie in memory */
    int64_t count, capacity;
    bool sorted; /* layout is up to date */
    bool freed;
    mirror *mirrors;
    mirror *reserved; /* for parameters that are about to move, or for the first step; NULL otherwise */
};

/* -- construction -- */

static double given_or(double value, double usual)
{
    return value == 0 && !signbit(value) ? usual : value;
}

static void release(th_context *ctx, void *object);

/* All but the rule: records of the module's parameters, sorted into groups. */
static th_optimizer *optimizer_new(th_module *m, const char *operation, const th_parameter_group *groups, int n_groups,
                                   double weight_decay)
{
    th_context *ctx = m->ctx;
    int64_t count = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        count++;
    if (count == 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s has no parameters", m->type);
        return NULL;
    }
    th_optimizer *o = th_allocate(ctx, sizeof *o);
    if (o == NULL) {
        th_fail_memory(ctx, operation, sizeof *o);
        return NULL;
    }
    *o = (th_optimizer){.ctx = ctx, .module = m, .operation = operation, .n_groups = n_groups + 1, .capacity = count};
    o->groups = th_allocate(ctx, (size_t)o->n_groups * sizeof *o->groups);
    o->records = th_allocate(ctx, (size_t)count * sizeof *o->records);
    o->layout = th_allocate(ctx, (size_t)count * sizeof *o->layout);
    if (!o->groups || !o->records || !o->layout || !th_attach(ctx, o, release)) {
        release(ctx, o);
        th_fail_memory(ctx, operation, (size_t)count * sizeof *o->records);
        return NULL;
    }
    for (int g = 0; g < n_groups; g++)
        o->groups[g] =
            (group){given_or(groups[g].learning_rate_factor, 1), given_or(groups[g].weight_decay, weight_decay)};
    o->groups[n_groups] = (group){1, weight_decay};
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        int g = 0;
        while (g < n_groups &&
               !(groups[g].pattern ? fnmatch(groups[g].pattern, p.name, 0) == 0
                                   : !groups[g].takes || groups[g].takes(p.name, p.tensor, groups[g].user)))
            g++;
        th_body *tensor = th_body_of(p.tensor);
        o->records[o->count++] = (record){.tensor = tensor, .entry = th_parameter_entry_of(tensor), .group = g};
    }
    return o;
}

static bool check_module(const th_module *m)
{
    if (m == NULL)
        th_fail_last(TH_ERROR_ARGUMENT, "optimizer", "the module is NULL");
    if (m && m->freed)
        th_fail(m->ctx, TH_ERROR_STATE, "optimizer", "the module (%s) has been freed", m->type);
    return m && !th_failed(m->ctx);
}

static bool in_range(th_context *ctx, const char *operation, const char *what, double value, bool legal)
{
    if (!legal)
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s = %g is outside its range", what, value);
    return legal;
}

/* What all rules have in common. */
static bool check_common(th_context *ctx, const char *operation, double learning_rate, double weight_decay,
                         double max_norm, const th_parameter_group *groups, int n_groups)
{
    if (learning_rate == 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "a learning rate must be given");
        return false;
    }
    bool legal =
        in_range(ctx, operation, "learning_rate", learning_rate, learning_rate > 0 && isfinite(learning_rate)) &&
        in_range(ctx, operation, "weight_decay", weight_decay, weight_decay >= 0 && isfinite(weight_decay)) &&
        in_range(ctx, operation, "max_norm", max_norm, max_norm >= 0) &&
        in_range(ctx, operation, "n_groups", n_groups,
                 n_groups >= 0 && n_groups < 1 << 20 && (groups || n_groups == 0));
    for (int g = 0; legal && g < n_groups; g++)
        legal = in_range(ctx, operation, "a group's learning_rate_factor", groups[g].learning_rate_factor,
                         groups[g].learning_rate_factor >= 0 && isfinite(groups[g].learning_rate_factor)) &&
                in_range(ctx, operation, "a group's weight_decay", groups[g].weight_decay,
                         groups[g].weight_decay >= 0 && isfinite(groups[g].weight_decay));
    return legal;
}

th_optimizer *(th_sgd_new)(th_module *m, const th_sgd_options *options)
{
    const th_sgd_options given = options ? *options : (th_sgd_options){0};
    if (!check_module(m) ||
        !check_common(m->ctx, "sgd", given.learning_rate, given.weight_decay, given.max_norm, given.groups,
                      given.n_groups) ||
        !in_range(m->ctx, "sgd", "momentum", given.momentum, given.momentum >= 0 && given.momentum < 1) ||
        !in_range(m->ctx, "sgd", "dampening", given.dampening, given.dampening >= 0 && given.dampening <= 1))
        return NULL;
    if (given.nesterov && (given.momentum == 0 || given.dampening != 0)) {
        th_fail(m->ctx, TH_ERROR_ARGUMENT, "sgd", "nesterov needs momentum and no dampening");
        return NULL;
    }
    th_optimizer *o = optimizer_new(m, "sgd", given.groups, given.n_groups, given.weight_decay);
    if (o == NULL)
        return NULL;
    o->rule = RULE_SGD;
    o->sgd = given;
    o->learning_rate = given.learning_rate;
    o->max_norm = given.max_norm;
    o->n_moments = given.momentum > 0;
    return o;
}

static th_optimizer *adam_new(th_module *m, const char *operation, const th_adam_options *options, bool decoupled)
{
    th_adam_options given = options ? *options : (th_adam_options){0};
    given.beta1 = given_or(given.beta1, 0.9);
    given.beta2 = given_or(given.beta2, 0.999);
    given.eps = given_or(given.eps, 1e-8);
    if (!check_module(m) ||
        !check_common(m->ctx, operation, given.learning_rate, given.weight_decay, given.max_norm, given.groups,
                      given.n_groups) ||
        !in_range(m->ctx, operation, "beta1", given.beta1, given.beta1 >= 0 && given.beta1 < 1) ||
        !in_range(m->ctx, operation, "beta2", given.beta2, given.beta2 >= 0 && given.beta2 < 1) ||
        !in_range(m->ctx, operation, "eps", given.eps, given.eps >= 0 && isfinite(given.eps)))
        return NULL;
    th_optimizer *o = optimizer_new(m, operation, given.groups, given.n_groups, given.weight_decay);
    if (o == NULL)
        return NULL;
    o->rule = RULE_ADAM;
    o->decoupled = decoupled;
    o->adam = given;
    o->learning_rate = given.learning_rate;
    o->max_norm = given.max_norm;
    o->n_moments = given.amsgrad ? 3 : 2;
    return o;
}

th_optimizer *(th_adam_new)(th_module *m, const th_adam_options *options)
{
    return adam_new(m, "adam", options, false);
}

th_optimizer *(th_adam_w_new)(th_module *m, const th_adam_options *options)
{
    return adam_new(m, "adam_w", options, true);
}

static void free_mirror(const th_optimizer *o, mirror *gone)
{
    for (int i = 0; i < o->n_moments; i++)
        th_release_numbers(o->ctx, gone->moment[i], gone->bytes);
    th_release(o->ctx, gone, sizeof *gone);
}

static void release(th_context *ctx, void *object)
{
    th_optimizer *o = object;
    while (o->mirrors) {
        mirror *first = o->mirrors;
        o->mirrors = first->next;
        free_mirror(o, first);
    }
    th_release(ctx, o->groups, (size_t)o->n_groups * sizeof *o->groups);
    th_release(ctx, o->records, (size_t)o->capacity * sizeof *o->records);
    th_release(ctx, o->layout, (size_t)o->capacity * sizeof *o->layout);
    o->freed = true;
    th_rest(ctx, o, sizeof *o);
}

/* False for an optimiser that must not be used: the error is stored. */
static bool usable(const th_optimizer *o, const char *operation)
{
    if (o == NULL)
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the optimiser is NULL");
    else if (o->freed)
        th_fail(o->ctx, TH_ERROR_STATE, operation, "the optimiser (%s) has been freed", o->operation);
    return o && !o->freed;
}

void th_optimizer_free(th_optimizer *o)
{
    if (o == NULL || !usable(o, "optimizer_free"))
        return;
    th_detach_object(o->ctx, o);
    release(o->ctx, o);
}

th_status th_optimizer_set_learning_rate(th_optimizer *o, double learning_rate)
{
    if (!usable(o, "optimizer_set_learning_rate"))
        return o ? o->ctx->error : TH_ERROR_ARGUMENT;
    if (!(learning_rate >= 0 && isfinite(learning_rate)))
        return th_fail(o->ctx, TH_ERROR_ARGUMENT, o->operation,
                       "the learning rate must be finite and not negative, it is %g", learning_rate);
    o->learning_rate = learning_rate;
    return TH_OK;
}

double th_optimizer_learning_rate(const th_optimizer *o)
{
    return o && usable(o, "optimizer_learning_rate") ? o->learning_rate : 0;
}

double th_optimizer_gradient_norm(const th_optimizer *o)
{
    return o && usable(o, "optimizer_gradient_norm") ? o->norm : 0;
}

/* -- moments -- */

static mirror *mirror_in(mirror *list, const th_parameter_block *block)
{
    while (list && list->block != block)
        list = list->next;
    return list;
}

/* Room for moments of all that lies in the block now, unless they have it: zeros, to be adopted or discarded. */
static th_status reserve_mirror(th_optimizer *o, th_parameter_block *block)
{
    const mirror *old = mirror_in(o->mirrors, block);
    if ((old && old->bytes >= block->used) || mirror_in(o->reserved, block))
        return TH_OK;
    th_context *ctx = o->ctx;
    mirror *m = th_allocate(ctx, sizeof *m);
    if (m == NULL)
        return th_fail_memory(ctx, o->operation, sizeof *m);
    *m = (mirror){.block = block, .bytes = block->used, .next = o->reserved};
    for (int i = 0; i < o->n_moments; i++) {
        if (th_allocate_numbers(ctx, m->bytes, &m->moment[i], o->operation) != TH_OK) {
            while (i-- > 0)
                th_release_numbers(ctx, m->moment[i], m->bytes);
            th_release(ctx, m, sizeof *m);
            return ctx->error;
        }
        if (m->moment[i])
            memset(m->moment[i], 0, m->bytes);
    }
    o->reserved = m;
    return TH_OK;
}

static void discard_reserved(th_optimizer *o)
{
    while (o->reserved) {
        mirror *first = o->reserved;
        o->reserved = first->next;
        free_mirror(o, first);
    }
}

/* What was reserved replaces shorter mirrors of the same blocks. */
static void adopt_reserved(th_optimizer *o)
{
    while (o->reserved) {
        mirror *grown = o->reserved, **link = &o->mirrors;
        o->reserved = grown->next;
        while (*link && (*link)->block != grown->block)
            link = &(*link)->next;
        mirror *old = *link;
        grown->next = old ? old->next : NULL;
        *link = grown;
        if (old == NULL)
            continue;
        for (int i = 0; i < o->n_moments; i++)
            if (grown->moment[i])
                memcpy(grown->moment[i], old->moment[i], old->bytes);
        for (int64_t r = 0; r < o->count; r++)
            if (o->records[r].moments == old)
                o->records[r].moments = grown;
        free_mirror(o, old);
    }
}

/* Layout order: block after block, by offset. */
static void sort_layout(th_optimizer *o)
{
    int64_t placed = 0;
    for (int64_t r = 0; r < o->count; r++)
        o->records[r].entry->mark = &o->records[r];
    for (const th_parameter_block *block = o->ctx->parameter_blocks; block; block = block->next)
        for (th_parameter_entry *entry = block->first; entry; entry = entry->next)
            if (entry->mark) {
                o->layout[placed++] = entry->mark;
                entry->mark = NULL;
            }
    o->sorted = true;
}

/* Moments for every parameter, or for none more than there were. */
static th_status ensure_moments(th_optimizer *o)
{
    bool complete = true;
    for (int64_t r = 0; r < o->count && complete; r++)
        complete = o->records[r].moments != NULL;
    if (complete)
        return TH_OK;
    for (int64_t r = 0; r < o->count; r++)
        if (reserve_mirror(o, o->records[r].entry->block) != TH_OK) {
            discard_reserved(o);
            return o->ctx->error;
        }
    adopt_reserved(o);
    for (int64_t r = 0; r < o->count; r++)
        o->records[r].moments = mirror_in(o->mirrors, o->records[r].entry->block);
    return TH_OK;
}

static void *moment_at(const record *r, int i)
{
    return (char *)r->moments->moment[i] + r->entry->offset;
}

static bool mirror_in_use(const th_optimizer *o, const mirror *m)
{
    for (int64_t r = 0; r < o->count; r++)
        if (o->records[r].moments == m)
            return true;
    return false;
}

/* Frees the mirrors that no record uses any more: their blocks may be gone soon. */
static void drop_unused(th_optimizer *o)
{
    for (mirror **link = &o->mirrors; *link;) {
        mirror *m = *link;
        if (mirror_in_use(o, m)) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        free_mirror(o, m);
    }
}

/* -- what modules tell -- */

static th_optimizer *next_optimizer(th_attachment **at)
{
    for (; *at; *at = (*at)->next)
        if ((*at)->release == release) {
            th_optimizer *o = (*at)->object;
            *at = (*at)->next;
            return o;
        }
    return NULL;
}

static record *record_of(const th_optimizer *o, const th_body *parameter)
{
    for (int64_t r = 0; r < o->count; r++)
        if (o->records[r].tensor == parameter)
            return &o->records[r];
    return NULL;
}

/* The place in the moments holds zeros again, as every gap does. */
static void clear_moments(const th_optimizer *o, const record *r)
{
    for (int i = 0; r->moments && i < o->n_moments; i++)
        if (r->moments->moment[i])
            memset(moment_at(r, i), 0, r->entry->bytes);
}

void th_optimizers_forget_parameter(th_context *ctx, const th_body *parameter)
{
    th_attachment *at = ctx->attachments;
    for (th_optimizer *o = next_optimizer(&at); o; o = next_optimizer(&at)) {
        record *gone = record_of(o, parameter);
        if (gone == NULL)
            continue;
        clear_moments(o, gone);
        o->count--;
        memmove(gone, gone + 1, (size_t)(&o->records[o->count] - gone) * sizeof *gone);
        o->sorted = false;
        drop_unused(o);
    }
}

void th_optimizers_forget_module(th_context *ctx, const th_module *module)
{
    th_attachment *at = ctx->attachments;
    for (th_optimizer *o = next_optimizer(&at); o; o = next_optimizer(&at))
        if (o->module == module)
            o->module = NULL;
}

th_status th_optimizers_reserve(th_context *ctx)
{
    th_attachment *at = ctx->attachments;
    for (th_optimizer *o = next_optimizer(&at); o; o = next_optimizer(&at))
        for (int64_t r = 0; r < o->count; r++) {
            const record *moving = &o->records[r];
            if (moving->moments && moving->entry->successor &&
                reserve_mirror(o, moving->entry->successor->block) != TH_OK)
                return ctx->error;
        }
    return TH_OK;
}

void th_optimizers_unreserve(th_context *ctx)
{
    th_attachment *at = ctx->attachments;
    for (th_optimizer *o = next_optimizer(&at); o; o = next_optimizer(&at))
        discard_reserved(o);
}

/* The record's moments, converted, to where its parameter will be. */
static void move_moments(th_optimizer *o, record *r)
{
    record moved = *r;
    moved.entry = r->entry->successor;
    moved.moments = mirror_in(o->mirrors, moved.entry->block);
    for (int i = 0; i < o->n_moments && r->moments->moment[i]; i++) {
        th_array before = th_tensor_array(r->tensor), after = before;
        before.data = moment_at(r, i);
        after.data = moment_at(&moved, i);
        after.dtype = moved.entry->block->dtype;
        th_convert_array(o->ctx, &after, &before);
    }
    clear_moments(o, r);
    r->moments = moved.moments;
}

void th_optimizers_move(th_context *ctx)
{
    th_attachment *at = ctx->attachments;
    for (th_optimizer *o = next_optimizer(&at); o; o = next_optimizer(&at)) {
        adopt_reserved(o);
        for (int64_t i = 0; i < o->count; i++) {
            record *r = &o->records[i];
            if (r->entry->successor == NULL)
                continue;
            if (r->moments)
                move_moments(o, r);
            r->entry = r->entry->successor;
            o->sorted = false;
        }
        drop_unused(o);
    }
}

/* -- norms -- */

typedef struct sum_task {
    const th_kernels *kernels;
    const char *data;
    size_t element;
    int64_t numel;
    double partial[PARTIALS];
} sum_task;

static void sum_chunk(void *shared, int64_t index, int worker)
{
    (void)worker;
    sum_task *task = shared;
    const int64_t first = index * CHUNK;
    const int64_t n = task->numel - first < CHUNK ? task->numel - first : CHUNK;
    task->kernels->sum_squares(n, task->data + (size_t)first * task->element, &task->partial[index]);
}

/* Of a contiguous gradient: chunks of fixed size, added in their order. */
static double sum_of_squares(const th_context *ctx, th_dtype dtype, const void *data, int64_t numel)
{
    double sum = 0;
    sum_task task = {.kernels = th_context_kernels(ctx, dtype), .element = th_dtype_size(dtype)};
    for (int64_t first = 0; first < numel; first += (int64_t)CHUNK * PARTIALS) {
        task.data = (const char *)data + (size_t)first * task.element;
        task.numel = numel - first < (int64_t)CHUNK * PARTIALS ? numel - first : (int64_t)CHUNK * PARTIALS;
        const int64_t chunks = (task.numel + CHUNK - 1) / CHUNK;
        th_parallel(ctx->threads, chunks, sum_chunk, &task);
        for (int64_t i = 0; i < chunks; i++)
            sum += task.partial[i];
    }
    return sum;
}

static double number_at(th_dtype dtype, const void *data, int64_t i)
{
    return dtype == TH_FLOAT64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static bool has_gradient(const th_body *t)
{
    return t->requires_gradient && th_place_complete(t->gradient);
}

/* The first element that is not finite; -1 when there is none. */
static int64_t find_non_finite(const th_body *t)
{
    const int64_t numel = th_tensor_numel(t);
    for (int64_t i = 0; i < numel; i++)
        if (!isfinite(number_at(t->dtype, th_place_data(t->gradient), i)))
            return i;
    return -1;
}

static th_status fail_non_finite(const th_body *t, const char *operation, const char *name, int64_t element)
{
    char index[160] = "";
    int64_t rest = element, size = th_tensor_numel(t);
    for (int d = 0; d < t->ndim; d++) {
        size /= t->size[d];
        const size_t used = strlen(index);
        snprintf(index + used, sizeof index - used, d ? ", %lld" : "%lld", (long long)(rest / size));
        rest %= size;
    }
    return th_fail(t->ctx, TH_ERROR_VALUE, operation, "the gradient of %s is %g at [%s]; no parameter was changed",
                   name, number_at(t->dtype, th_place_data(t->gradient), element), index);
}

static const char *name_of(const th_module *m, const th_body *parameter, char *name)
{
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        if (p.tensor == parameter->handle)
            return strcpy(name, p.name);
    return strcpy(name, "a parameter");
}

/* The global norm of a list of gradients, as passes over the list:
 *     do for each t: visit(&g, t) while (another_pass(&g))
 * One pass does, unless the sum of squares is not finite: then the culprit is looked for; where there is none float64
 * squares overflowed, and the same sum is taken in units of the largest number. */
typedef enum pass { PASS_SUM, PASS_CULPRIT, PASS_LARGEST, PASS_SCALED_SUM } pass;

typedef struct norm {
    const th_module *module; /* for names; may be NULL */
    const char *operation;
    pass pass;
    double sum, largest;
} norm;

static th_status visit(norm *g, const th_body *t)
{
    if (!has_gradient(t))
        return TH_OK;
    if (g->pass == PASS_SUM) {
        g->sum += sum_of_squares(t->ctx, t->dtype, th_place_data(t->gradient), th_tensor_numel(t));
        return TH_OK;
    }
    if (g->pass == PASS_CULPRIT) {
        const int64_t element = find_non_finite(t);
        char name[TH_FULL_NAME_SIZE];
        return element < 0 ? TH_OK : fail_non_finite(t, g->operation, name_of(g->module, t, name), element);
    }
    for (int64_t i = 0; i < th_tensor_numel(t); i++) {
        const double size = fabs(number_at(t->dtype, th_place_data(t->gradient), i));
        if (g->pass == PASS_LARGEST)
            g->largest = fmax(g->largest, size);
        else
            g->sum += (size / g->largest) * (size / g->largest);
    }
    return TH_OK;
}

static bool another_pass(norm *g)
{
    if (g->pass == PASS_SCALED_SUM || (g->pass == PASS_SUM && isfinite(g->sum)))
        return false;
    g->pass++;
    g->sum = 0;
    return true;
}

static double norm_of(const norm *g)
{
    return g->pass == PASS_SUM ? sqrt(g->sum) : g->largest * sqrt(g->sum);
}

static void scale_gradient(const th_body *t, double factor)
{
    if (!has_gradient(t))
        return;
    th_array gradient = th_tensor_array(t);
    gradient.data = th_place_data(t->gradient);
    th_elementwise(t->ctx, th_context_kernels(t->ctx, t->dtype)->scale, &factor, &gradient, false, 1,
                   (const th_array *const[]){&gradient});
}

th_status(th_clip_gradients)(th_module *m, double max_norm, double *norm_before)
{
    if (norm_before)
        *norm_before = NAN;
    if (!check_module(m))
        return m ? m->ctx->error : TH_ERROR_ARGUMENT;
    th_context *ctx = m->ctx;
    if (!(max_norm > 0))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "clip_gradients", "max_norm must be positive, it is %g", max_norm);
    if (ctx->options.shapes_only)
        return TH_OK;
    norm g = {.module = m, .operation = "clip_gradients"};
    do {
        for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
            if (visit(&g, th_body_of(p.tensor)) != TH_OK)
                return ctx->error;
    } while (another_pass(&g));
    const double before = norm_of(&g), factor = max_norm / before;
    if (norm_before)
        *norm_before = before;
    if (!(before > max_norm))
        return TH_OK;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        scale_gradient(th_body_of(p.tensor), factor);
    return TH_OK;
}

/* -- the step -- */

/* Parameters that lie one behind another and are updated alike. */
typedef struct run {
    const th_optimizer *optimizer;
    const th_kernels *kernels;
    const record *first;
    int64_t numel;
    size_t element;
    th_adam_update adam;
    th_sgd_update sgd;
} run;

static void update_chunk(void *shared, int64_t index, int worker)
{
    (void)worker;
    const run *r = shared;
    const th_optimizer *o = r->optimizer;
    const th_parameter_block *block = r->first->entry->block;
    const int64_t first = index * CHUNK;
    const int64_t n = r->numel - first < CHUNK ? r->numel - first : CHUNK;
    const size_t offset = r->first->entry->offset + (size_t)first * r->element;
    void *moment[MAX_MOMENTS] = {NULL};
    for (int i = 0; i < o->n_moments; i++)
        moment[i] = (char *)r->first->moments->moment[i] + offset;
    if (o->rule == RULE_ADAM)
        r->kernels->adam(n, block->data + offset, block->gradient + offset, moment[0], moment[1], moment[2], &r->adam);
    else
        r->kernels->sgd(n, block->data + offset, block->gradient + offset, moment[0], &r->sgd);
}

/* The numbers of this step for a parameter that has taken r->steps so far. */
static void set_rule(const th_optimizer *o, const record *r, double gradient_scale, run *to)
{
    const group *g = &o->groups[r->group];
    const double rate = o->learning_rate * g->learning_rate_factor;
    if (o->rule == RULE_SGD) {
        /* The first step is not dampened, nor is one without momentum, as in PyTorch. */
        const double kept = r->steps == 0 || o->sgd.momentum == 0 ? 1 : 1 - o->sgd.dampening;
        to->sgd = (th_sgd_update){
            .gradient_scale = kept * gradient_scale,
            .weight_decay = kept * g->weight_decay,
            .momentum = o->sgd.momentum,
            .nesterov = o->sgd.nesterov,
            .learning_rate = rate,
        };
        return;
    }
    const double t = (double)r->steps + 1;
    to->adam = (th_adam_update){
        .gradient_scale = gradient_scale,
        .weight_decay = o->decoupled ? 0 : g->weight_decay,
        .beta1 = o->adam.beta1,
        .beta2 = o->adam.beta2,
        .shrink = o->decoupled ? rate * g->weight_decay : 0,
        .step_size = rate / (1 - th_scalar_pow(o->adam.beta1, t)),
        .second_scale = 1 / (1 - th_scalar_pow(o->adam.beta2, t)),
        .eps_inside = o->adam.eps_inside ? o->adam.eps : 0,
        .eps_outside = o->adam.eps_inside ? 0 : o->adam.eps,
    };
}

/* next continues the run of the parameter before it. The gap between them holds zeros, which stay zeros unless eps is
 * 0. */
static bool continues(const th_optimizer *o, const record *before, const record *next)
{
    return next->due && next->entry->block == before->entry->block &&
           next->entry->offset == before->entry->offset + before->entry->bytes && next->group == before->group &&
           next->steps == before->steps && (o->rule == RULE_SGD || o->adam.eps > 0);
}

static void update_all(th_optimizer *o, double gradient_scale)
{
    th_context *ctx = o->ctx;
    for (int64_t i = 0; i < o->count;) {
        const record *first = o->layout[i++], *last = first;
        if (!first->due)
            continue;
        while (i < o->count && continues(o, last, o->layout[i]))
            last = o->layout[i++];
        const size_t element = th_dtype_size(first->tensor->dtype);
        run r = {.optimizer = o,
                 .kernels = th_context_kernels(ctx, first->tensor->dtype),
                 .first = first,
                 .element = element};
        r.numel = (int64_t)((last->entry->offset - first->entry->offset) / element) + th_tensor_numel(last->tensor);
        set_rule(o, first, gradient_scale, &r);
        th_parallel(ctx->threads, (r.numel + CHUNK - 1) / CHUNK, update_chunk, &r);
    }
}

/* The gradients stay to be looked at, and the step can be repeated: with the same random numbers, and gradients that
 * start from nothing. */
static th_status refuse(th_optimizer *o)
{
    for (int64_t i = 0; i < o->count; i++)
        if (has_gradient(o->records[i].tensor))
            th_gradient_refuse(o->records[i].tensor);
    th_random_step_refused(o->ctx);
    return o->ctx->error;
}

/* Gradients of a refused step that the repeated one did not bring again are none of its. (Without a backward in between
 * all of them are still those to step on.) */
static void forget_refused(th_optimizer *o)
{
    bool repeated = false;
    for (int64_t i = 0; i < o->count && !repeated; i++)
        repeated = has_gradient(o->records[i].tensor) && !th_place_refused(o->records[i].tensor->gradient);
    for (int64_t i = 0; i < o->count && repeated; i++)
        if (th_place_refused(o->records[i].tensor->gradient))
            th_empty_gradient(o->records[i].tensor->handle);
}

static th_status check_gradients(th_optimizer *o)
{
    norm g = {.module = o->module, .operation = "optimizer_step"};
    do {
        for (int64_t i = 0; i < o->count; i++)
            if (visit(&g, o->records[i].tensor) != TH_OK)
                return o->ctx->error;
    } while (another_pass(&g));
    o->norm = norm_of(&g);
    return TH_OK;
}

/* What the update multiplies gradients with to clip them. The kernels divide the weight decay by it: where it is too
 * small for that the gradients themselves are scaled. */
static double clip(const th_optimizer *o)
{
    if (!(o->max_norm > 0 && o->norm > o->max_norm))
        return 1;
    const double factor = o->max_norm / o->norm;
    if (factor > 1e-18)
        return factor;
    for (int64_t i = 0; i < o->count; i++)
        scale_gradient(o->records[i].tensor, factor);
    return 1;
}

th_status(th_optimizer_step)(th_optimizer *o)
{
    if (!usable(o, "optimizer_step"))
        return o ? o->ctx->error : TH_ERROR_ARGUMENT;
    th_context *ctx = o->ctx;
    if (th_failed(ctx) || th_refuse_in_check(ctx, "optimizer_step") != TH_OK)
        return ctx->error;
    const bool real = !ctx->options.shapes_only;
    const int64_t start = th_profile_start(ctx);
    forget_refused(o);
    if ((real && check_gradients(o) != TH_OK) || ensure_moments(o) != TH_OK)
        return refuse(o);
    if (!o->sorted)
        sort_layout(o);
    for (int64_t i = 0; i < o->count; i++)
        o->records[i].due = has_gradient(o->records[i].tensor);
    if (real)
        update_all(o, clip(o));
    for (int64_t i = 0; i < o->count; i++)
        if (o->records[i].due) {
            o->records[i].steps++;
            th_storage_changed(o->records[i].tensor->storage);
            th_empty_gradient(o->records[i].tensor->handle);
        }
    th_random_step_done(ctx);
    if (start)
        th_profile_step(ctx, o->operation, start);
    return TH_OK;
}

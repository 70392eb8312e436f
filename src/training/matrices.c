/* Finds the parameters that a rule updates as whole matrices, and updates them: see matrices.h. */
#include "training/matrices.h"

#include "nn/lora.h"
#include "tensor/tensor.h"
#include "training/moments.h"
#include "training/saved_state.h"

struct th_matrix_work {
    th_matrix *matrix; /* [capacity]: the matrices of one shape */
    int64_t capacity;
    void *scratch; /* of the rule */
    size_t scratch_bytes;
};

/* -- which parameters -- */

/* Returns the optimizer's parameter; NULL if it does not have it, such as a stored weight or a merged adapter. */
static th_optimizer_parameter *find(th_optimizer *o, th_tensor *parameter, int64_t *hint)
{
    const int64_t at = th_optimizer_index(o, th_tensor_impl_of(parameter), hint);
    return at < 0 ? NULL : &o->parameters[at];
}

/* Counts the projections that each parameter consists of. Several adapters may share a factor, which is one matrix. */
static void find_by_kind(th_optimizer *o, const th_module *m)
{
    int64_t hint = 0;
    for (th_projection p = th_projections_begin(m); th_projection_next(&p);) {
        th_optimizer_parameter *weight = p.classifier ? NULL : find(o, p.weight, &hint);
        if (weight)
            weight->parts++;
    }
    for (th_projection p = th_projections_begin(m); th_projection_next_adapted(&p);) {
        th_tensor *const factors[] = {(*p.lora)->a, (*p.lora)->b};
        for (int i = 0; i < 2; i++) {
            th_optimizer_parameter *factor = find(o, factors[i], &hint);
            if (factor)
                factor->parts = 1;
        }
    }
}

/* A group may choose for its parameters. */
static th_status apply_group(th_optimizer *o, th_optimizer_parameter *p, const th_parameter_group *group,
                             const char *name)
{
    if (group->muon == TH_MUON_NEVER)
        p->parts = 0;
    if (group->muon != TH_MUON_ALWAYS)
        return TH_OK;
    if (p->tensor->ndim != 2)
        return th_fail(
            o->ctx, TH_ERROR_ARGUMENT, o->rule->name,
            "a group asks for TH_MUON_ALWAYS, but %s has %d axes, and only a parameter with 2 axes is a matrix", name,
            p->tensor->ndim);
    p->parts = p->parts ? p->parts : 1;
    return TH_OK;
}

static th_status check_groups(const th_optimizer *o, const th_parameter_group *groups, int n_groups)
{
    for (int g = 0; g < n_groups; g++) {
        if (groups[g].muon < TH_MUON_BY_KIND || groups[g].muon > TH_MUON_NEVER)
            return th_fail(o->ctx, TH_ERROR_ARGUMENT, o->rule->name, "muon = %d of group %d is not a th_muon_use",
                           (int)groups[g].muon, g);
        if (groups[g].muon != TH_MUON_BY_KIND && o->rule->update_matrices == NULL)
            return th_fail(o->ctx, TH_ERROR_ARGUMENT, o->rule->name,
                           "group %d chooses what Muon updates: only th_muon_new can use this", g);
    }
    return TH_OK;
}

th_status th_matrices_init(th_optimizer *o, const th_module *m, const th_parameter_group *groups, int n_groups)
{
    if (check_groups(o, groups, n_groups) != TH_OK || o->rule->update_matrices == NULL)
        return o->ctx->error;
    o->matrices = th_allocate(o->ctx, sizeof *o->matrices);
    if (o->matrices == NULL)
        return th_fail_memory(o->ctx, o->rule->name, sizeof *o->matrices);
    *o->matrices = (th_matrix_work){0};
    find_by_kind(o, m);
    int64_t hint = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        th_optimizer_parameter *parameter = find(o, p.tensor, &hint);
        if (parameter && parameter->group < n_groups &&
            apply_group(o, parameter, &groups[parameter->group], p.name) != TH_OK)
            return o->ctx->error;
    }
    for (int64_t i = 0; i < o->count; i++)
        o->parameters[i].group += o->parameters[i].parts ? 0 : o->n_groups / 2;
    return TH_OK;
}

static void release_work(const th_optimizer *o)
{
    th_matrix_work *w = o->matrices;
    th_release(o->ctx, w->matrix, (size_t)w->capacity * sizeof *w->matrix);
    th_release_numbers(o->ctx, w->scratch, w->scratch_bytes);
}

void th_matrices_free(th_optimizer *o)
{
    if (o->matrices == NULL)
        return;
    release_work(o);
    th_release(o->ctx, o->matrices, sizeof *o->matrices);
    o->matrices = NULL;
}

/* -- matrices of one shape -- */

/* Returns whether this process updates the parameter, in this step if `due`. */
static bool is_included(const th_optimizer_parameter *p, bool due)
{
    const size_t offset = p->entry->offset;
    return p->parts && p->moments && (p->due || !due) && th_tensor_numel(p->tensor) > 0 &&
           offset >= p->moments->begin && offset + p->entry->bytes <= p->moments->end;
}

static bool have_one_shape(const th_optimizer_parameter *p, const th_optimizer_parameter *q)
{
    return p->tensor->dtype == q->tensor->dtype && p->tensor->size[0] / p->parts == q->tensor->size[0] / q->parts &&
           p->tensor->size[1] == q->tensor->size[1];
}

/* Returns whether o->layout[i] is included, and no parameter before it has its shape. */
static bool is_first_of_shape(const th_optimizer *o, int64_t i, bool due)
{
    if (!is_included(o->layout[i], due))
        return false;
    for (int64_t k = 0; k < i; k++)
        if (is_included(o->layout[k], due) && have_one_shape(o->layout[k], o->layout[i]))
            return false;
    return true;
}

/* Returns the matrices with the shape of o->layout[first], without a list of them. */
static th_matrices count_matrices(const th_optimizer *o, int64_t first, bool due)
{
    const th_optimizer_parameter *p = o->layout[first];
    th_matrices m = {.machine = &o->ctx->machine,
                     .dtype = p->tensor->dtype,
                     .rows = p->tensor->size[0] / p->parts,
                     .columns = p->tensor->size[1],
                     .threads = o->ctx->threads};
    for (int64_t i = first; i < o->count; i++)
        if (is_included(o->layout[i], due) && have_one_shape(p, o->layout[i]))
            m.count += o->layout[i]->parts;
    return m;
}

/* Writes the parts of a parameter. Returns their number. */
static int list_parts(const th_optimizer *o, const th_optimizer_parameter *p, double gradient_scale, th_matrix *matrix)
{
    const th_moments *m = p->moments;
    const size_t bytes = (size_t)th_tensor_numel(p->tensor) * th_dtype_size(p->tensor->dtype) / (size_t)p->parts;
    for (int part = 0; part < p->parts; part++) {
        const size_t offset = p->entry->offset + (size_t)part * bytes;
        matrix[part] = (th_matrix){.update = th_update_of(o, p, gradient_scale),
                                   .parameter = m->block->data + offset,
                                   .gradient = m->block->gradient + offset};
        for (int i = 0; i < o->rule->matrix_moments; i++)
            matrix[part].moment[i] = (char *)m->moment[i] + th_moment_offset(m, i, offset);
    }
    return p->parts;
}

/* -- steps -- */

/* Replaces the memory by larger memory. */
static th_status grow(const th_optimizer *o, int64_t capacity, size_t scratch_bytes)
{
    th_context *ctx = o->ctx;
    const size_t bytes = (size_t)capacity * sizeof(th_matrix);
    th_matrix_work grown = {.capacity = capacity, .scratch_bytes = scratch_bytes};
    grown.matrix = th_allocate(ctx, bytes);
    if (grown.matrix == NULL)
        return th_fail_memory(ctx, o->rule->name, bytes);
    if (th_allocate_numbers(ctx, scratch_bytes, &grown.scratch, o->rule->name) != TH_OK) {
        th_release(ctx, grown.matrix, bytes);
        return ctx->error;
    }
    release_work(o);
    *o->matrices = grown;
    return TH_OK;
}

th_status th_matrices_reserve(th_optimizer *o)
{
    if (o->matrices == NULL)
        return TH_OK;
    int64_t capacity = o->matrices->capacity;
    size_t bytes = o->matrices->scratch_bytes;
    for (int64_t i = 0; i < o->count; i++) {
        if (!is_first_of_shape(o, i, false))
            continue;
        const th_matrices m = count_matrices(o, i, false);
        const size_t needed = o->rule->scratch_bytes ? o->rule->scratch_bytes(o->options, &m) : 0;
        capacity = m.count > capacity ? m.count : capacity;
        bytes = needed > bytes ? needed : bytes;
    }
    const bool enough = capacity == o->matrices->capacity && bytes == o->matrices->scratch_bytes;
    return enough ? TH_OK : grow(o, capacity, bytes);
}

void th_matrices_update(const th_optimizer *o, double gradient_scale)
{
    for (int64_t i = 0; o->matrices && i < o->count; i++) {
        if (!is_first_of_shape(o, i, true))
            continue;
        th_matrices m = count_matrices(o, i, true);
        m.matrix = o->matrices->matrix;
        m.scratch = o->matrices->scratch;
        int64_t n = 0;
        for (int64_t k = i; k < o->count; k++)
            if (is_included(o->layout[k], true) && have_one_shape(o->layout[i], o->layout[k]))
                n += list_parts(o, o->layout[k], gradient_scale, &o->matrices->matrix[n]);
        o->rule->update_matrices(&m);
    }
}

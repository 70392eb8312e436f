/* Allocates the moments of an optimizer, moves them, and finds their parts: see moments.h. */
#include "training/moments.h"

#include <math.h>
#include <string.h>

#include "tensor/checked.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/tensor.h"
#include "training/saved_state.h"
#include "training/shared/step_buffers.h"

static size_t bytes_of_cuts(const th_optimizer *o)
{
    return ((size_t)o->shards.processes + 1) * sizeof(size_t);
}

/* An array of numbers that th_moments has: where its pointer is, and its size. */
typedef struct numbers {
    void **data;
    size_t bytes;
} numbers;

enum { MAX_NUMBERS = TH_MAX_MOMENTS + 2 };

/* Lists the arrays that m has, allocated or not. Returns their number. */
static int list_numbers(const th_optimizer *o, th_moments *m, numbers list[MAX_NUMBERS])
{
    int n = 0;
    for (; n < o->n_moments; n++)
        list[n] = (numbers){&m->moment[n], th_moment_offset(m, n, m->end)};
    if (o->diloco.local_steps > 0)
        list[n++] = (numbers){&m->start, m->bytes};
    if (o->diloco.local_steps > 0 && o->diloco.momentum > 0)
        list[n++] = (numbers){&m->velocity, m->cut[o->shards.rank + 1] - m->cut[o->shards.rank]};
    return n;
}

/* Frees m, without the arrays of its numbers. */
static void free_without_numbers(const th_optimizer *o, th_moments *m)
{
    th_release(o->ctx, m->matrix, (size_t)m->n_matrices * sizeof *m->matrix);
    th_release(o->ctx, m->cut, bytes_of_cuts(o));
    th_release(o->ctx, m, sizeof *m);
}

/* Frees m. The first n arrays of its numbers are allocated. */
static void free_allocated(const th_optimizer *o, th_moments *m, const numbers list[MAX_NUMBERS], int n)
{
    while (n-- > 0)
        th_release_numbers(o->ctx, *list[n].data, list[n].bytes);
    free_without_numbers(o, m);
}

static void free_moments(const th_optimizer *o, th_moments *m)
{
    numbers list[MAX_NUMBERS] = {0};
    free_allocated(o, m, list, list_numbers(o, m, list));
}

static void free_list(const th_optimizer *o, th_moments **list)
{
    while (*list) {
        th_moments *first = *list;
        *list = first->next;
        free_moments(o, first);
    }
}

static th_moments *moments_in(th_moments *list, const th_parameter_block *block)
{
    while (list && list->block != block)
        list = list->next;
    return list;
}

/* Returns whether o updates the parameter as whole matrices. */
static bool is_matrix(const th_optimizer *o, const th_tensor_impl *parameter)
{
    int64_t hint = 0;
    const int64_t at = o->matrices ? th_optimizer_index(o, parameter, &hint) : -1;
    return at >= 0 && o->parameters[at].parts > 0;
}

/* Returns the offset near `target` where a process's part begins. This is the beginning of a chunk of the gradient norm
 * (TH_NORM_CHUNK elements of a parameter), so that one process has the whole chunk. A matrix that the rule updates as a
 * whole is not cut. */
static size_t cut_at(const th_optimizer *o, const th_parameter_block *block, size_t target)
{
    const th_parameter_entry *entry = block->first;
    while (entry && entry->offset + entry->bytes <= target)
        entry = entry->next;
    if (entry == NULL || target >= block->used)
        return block->used;
    if (target <= entry->offset)
        return entry->offset;
    const size_t chunk = is_matrix(o, entry->tensor) ? entry->bytes : TH_NORM_CHUNK * th_dtype_size(block->dtype);
    const size_t within = target - entry->offset, before = within / chunk * chunk;
    const size_t after = before + chunk < entry->bytes ? before + chunk : entry->bytes;
    return entry->offset + (within - before <= after - within ? before : after);
}

/* Cuts a block into a part for each process, of similar sizes. */
static void cut_block(const th_optimizer *o, th_moments *m)
{
    const size_t size = (size_t)o->shards.processes, rank = (size_t)o->shards.rank;
    m->cut[0] = 0;
    for (size_t r = 1; r < size; r++)
        m->cut[r] = cut_at(o, m->block, m->bytes / size * r + m->bytes % size * r / size);
    m->cut[size] = m->bytes;
    m->begin = o->diloco.local_steps > 0 ? 0 : m->cut[rank];
    m->end = o->diloco.local_steps > 0 ? m->bytes : m->cut[rank + 1];
}

/* Returns the entry that a parameter has, or will have after a move. */
static const th_parameter_entry *last_entry(const th_optimizer_parameter *p)
{
    return p->entry->successor ? p->entry->successor : p->entry;
}

/* Lists the matrices of a block, unless `matrix` is NULL. Returns their number. */
static int64_t list_matrices(const th_optimizer *o, const th_parameter_block *block, th_matrix_range *matrix)
{
    int64_t n = 0;
    for (int64_t i = 0; o->matrices && i < o->count; i++) {
        const th_parameter_entry *entry = last_entry(&o->parameters[i]);
        if (o->parameters[i].parts == 0 || entry->block != block)
            continue;
        if (matrix)
            matrix[n] = (th_matrix_range){entry->offset, entry->offset + entry->bytes};
        n++;
    }
    return n;
}

/* Fills new memory with zeros by all threads, because the kernel provides the pages at the first write. */
static void fill_with_zeros(const th_context *ctx, void *memory, size_t bytes)
{
    th_fill_array(
        ctx,
        &(th_array){
            .given = true, .data = memory, .dtype = TH_BOOL, .ndim = 1, .size = {(int64_t)bytes}, .stride = {1}},
        0);
}

/* Allocates the cuts, the list of matrices, and the moments. Returns NULL with an error pending. */
static th_moments *new_moments(const th_optimizer *o, th_parameter_block *block)
{
    th_context *ctx = o->ctx;
    th_moments *m = th_allocate(ctx, sizeof *m);
    if (m == NULL) {
        th_fail_memory(ctx, o->rule->name, sizeof *m);
        return NULL;
    }
    *m = (th_moments){.block = block,
                      .bytes = block->used,
                      .matrix_moments = o->rule->matrix_moments,
                      .n_matrices = list_matrices(o, block, NULL)};
    m->cut = th_allocate(ctx, bytes_of_cuts(o));
    if (m->n_matrices > 0)
        m->matrix = th_allocate(ctx, (size_t)m->n_matrices * sizeof *m->matrix);
    if (m->cut == NULL || (m->matrix == NULL && m->n_matrices > 0)) {
        th_fail_memory(ctx, o->rule->name, bytes_of_cuts(o) + (size_t)m->n_matrices * sizeof *m->matrix);
        free_without_numbers(o, m);
        return NULL;
    }
    list_matrices(o, block, m->matrix);
    cut_block(o, m);
    numbers list[MAX_NUMBERS];
    const int n = list_numbers(o, m, list);
    for (int i = 0; i < n; i++) {
        if (th_allocate_numbers(ctx, list[i].bytes, list[i].data, o->rule->name) != TH_OK) {
            free_allocated(o, m, list, i);
            return NULL;
        }
        if (*list[i].data)
            fill_with_zeros(ctx, *list[i].data, list[i].bytes);
    }
    return m;
}

/* Returns whether m has memory for all moments of each parameter that is in its block, or will be there after a move. */
static bool fits(const th_optimizer *o, const th_moments *m)
{
    if (m->bytes < m->block->used)
        return false;
    for (int64_t i = 0; o->matrices && i < o->count; i++) {
        const th_parameter_entry *entry = last_entry(&o->parameters[i]);
        const size_t end = entry->offset + entry->bytes;
        bool listed = false, overlaps = false;
        for (int64_t k = 0; k < m->n_matrices; k++) {
            listed |= m->matrix[k].begin == entry->offset && m->matrix[k].end == end;
            overlaps |= m->matrix[k].begin < end && entry->offset < m->matrix[k].end;
        }
        if (entry->block == m->block && (o->parameters[i].parts > 0 ? !listed : overlaps))
            return false;
    }
    return true;
}

th_status th_moments_reserve(th_optimizer *o, th_parameter_block *block)
{
    const th_moments *old = moments_in(o->moments, block);
    if ((old && fits(o, old)) || moments_in(o->reserved, block))
        return TH_OK;
    th_context *ctx = o->ctx;
    if (old && (o->shards.processes > 1 || th_steps_are_local(o)))
        return th_fail(
            ctx, TH_ERROR_STATE, o->rule->name,
            "a parameter that was frozen was cast after the moments were allocated, and is trained now; with "
            "several processes or local steps, moments cannot grow: cast it before the first step, and "
            "before a checkpoint is loaded");
    th_moments *m = new_moments(o, block);
    if (m == NULL)
        return ctx->error;
    m->next = o->reserved;
    o->reserved = m;
    return TH_OK;
}

void th_moments_discard_reserved(th_optimizer *o)
{
    free_list(o, &o->reserved);
}

/* Copies the parameter's moments to those that replace them. */
static void replace_moments(const th_optimizer *o, th_optimizer_parameter *p, th_moments *grown)
{
    th_optimizer_parameter replaced = *p;
    replaced.moments = grown;
    for (int i = 0; i < th_moments_of(o, p); i++) {
        const th_moment_part from = th_moment_part_of(p, i);
        if (from.data)
            memcpy(th_moment_part_of(&replaced, i).data, from.data, from.end - from.begin);
    }
    p->moments = grown;
}

void th_moments_adopt_reserved(th_optimizer *o)
{
    while (o->reserved) {
        th_moments *grown = o->reserved, **link = &o->moments;
        o->reserved = grown->next;
        while (*link && (*link)->block != grown->block)
            link = &(*link)->next;
        th_moments *old = *link;
        grown->next = old ? old->next : NULL;
        *link = grown;
        if (old == NULL)
            continue;
        for (int64_t i = 0; i < o->count; i++)
            if (o->parameters[i].moments == old)
                replace_moments(o, &o->parameters[i], grown);
        free_moments(o, old);
    }
}

/* Returns whether the parameter needs moments that it does not have. Frozen parameters need none. */
static bool lacks_moments(const th_optimizer_parameter *p)
{
    return p->moments == NULL && (p->tensor->requires_gradient || p->has_saved_moments);
}

/* Assigns the moments to the parameters. In the middle of local steps, parameters with new moments have not changed
 * since the first of these steps. */
static void assign_moments(th_optimizer *o)
{
    for (int64_t i = 0; i < o->count; i++) {
        th_optimizer_parameter *p = &o->parameters[i];
        const th_moments *before = p->moments;
        p->moments = moments_in(o->moments, p->entry->block);
        if (before == NULL && p->moments && p->moments->start)
            memcpy((char *)p->moments->start + p->entry->offset, p->entry->block->data + p->entry->offset,
                   p->entry->bytes);
    }
}

th_status th_moments_ensure(th_optimizer *o)
{
    bool complete = true;
    for (int64_t i = 0; i < o->count && complete; i++)
        complete = !lacks_moments(&o->parameters[i]);
    if (complete)
        return TH_OK;
    for (int64_t i = 0; i < o->count; i++)
        if (lacks_moments(&o->parameters[i]) && th_moments_reserve(o, o->parameters[i].entry->block) != TH_OK) {
            th_moments_discard_reserved(o);
            return o->ctx->error;
        }
    th_moments_adopt_reserved(o);
    assign_moments(o);
    th_step_buffers_free(o); /* they fit the parameters that had moments */
    return TH_OK;
}

/* Returns the part of a parameter's moment, without the gap behind it, that is within bytes begin to end - 1 of the
 * block. */
static th_moment_part part_within(const th_optimizer_parameter *p, size_t begin, size_t end)
{
    const size_t first = p->entry->offset;
    const size_t bytes =
        (size_t)th_tensor_numel(p->tensor) * th_dtype_size(p->tensor->dtype); /* (as the parameter's) */
    begin = begin > first ? begin : first;
    end = end < first + bytes ? end : first + bytes;
    return begin < end ? (th_moment_part){.begin = begin - first, .end = end - first} : (th_moment_part){0};
}

size_t th_moment_offset(const th_moments *m, int i, size_t offset)
{
    size_t matrices = 0; /* before `offset`, without moment i */
    for (int64_t k = 0; i >= m->matrix_moments && k < m->n_matrices; k++)
        if (m->matrix[k].begin >= m->begin && m->matrix[k].begin < offset)
            matrices += m->matrix[k].end - m->matrix[k].begin;
    return offset - m->begin - matrices;
}

th_moment_part th_moment_part_of(const th_optimizer_parameter *p, int i)
{
    const th_moments *m = p->moments;
    if (m == NULL)
        return (th_moment_part){0};
    th_moment_part part = part_within(p, m->begin, m->end);
    char *data = m->moment[i];
    if (data && part.begin < part.end)
        part.data = data + th_moment_offset(m, i, p->entry->offset + part.begin);
    return part;
}

th_moment_part th_moment_part_of_rank(const th_optimizer_parameter *p, int rank)
{
    const th_moments *m = p->moments;
    return m ? part_within(p, m->cut[rank], m->cut[rank + 1]) : (th_moment_part){0};
}

th_moment_part th_velocity_part_of(const th_optimizer *o, const th_optimizer_parameter *p)
{
    th_moment_part part = th_moment_part_of_rank(p, o->shards.rank);
    if (p->moments && p->moments->velocity && part.begin < part.end)
        part.data = (char *)p->moments->velocity + (p->entry->offset + part.begin - p->moments->cut[o->shards.rank]);
    return part;
}

static bool in_use(const th_optimizer *o, const th_moments *m)
{
    for (int64_t i = 0; i < o->count; i++)
        if (o->parameters[i].moments == m)
            return true;
    return false;
}

void th_moments_drop_unused(th_optimizer *o)
{
    for (th_moments **link = &o->moments; *link;) {
        th_moments *m = *link;
        if (in_use(o, m)) {
            link = &m->next;
            continue;
        }
        *link = m->next;
        free_moments(o, m);
    }
}

void th_moments_clear(const th_optimizer *o, const th_optimizer_parameter *p)
{
    for (int i = 0; p->moments && i < th_moments_of(o, p); i++) {
        const th_moment_part part = th_moment_part_of(p, i);
        if (part.data)
            memset(part.data, 0, part.end - part.begin);
    }
    const th_moment_part velocity = th_velocity_part_of(o, p);
    if (velocity.data)
        memset(velocity.data, 0, velocity.end - velocity.begin);
}

void th_moments_limit(const th_optimizer *o, int i, const th_array *moment)
{
    int64_t numel;
    if (moment->data == NULL || !th_checked_numel(moment->ndim, moment->size, &numel))
        return;
    const double limit = o->rule->largest_moment(i, moment->dtype);
    double sum;
    th_context_kernels(o->ctx, moment->dtype)->sum_squares(numel, moment->data, &sum);
    if (isfinite(sum) && sum <= limit * limit) /* the common case: no value exceeds the limit */
        return;
    for (int64_t k = 0; k < numel; k++) {
        void *at = (char *)moment->data + (size_t)k * th_dtype_size(moment->dtype);
        const double value = th_number_read(moment->dtype, at);
        if (fabs(value) > limit)
            th_number_write(moment->dtype, at, copysign(limit, value));
    }
}

void th_moments_move(th_optimizer *o, th_optimizer_parameter *p)
{
    th_optimizer_parameter moved = *p;
    moved.entry = p->entry->successor;
    moved.moments = moments_in(o->moments, moved.entry->block);
    for (int i = 0; i < th_moments_of(o, p) && p->moments->moment[i]; i++) {
        th_array before = th_tensor_array(p->tensor), after = before;
        before.data = th_moment_part_of(p, i).data;
        after.data = th_moment_part_of(&moved, i).data;
        after.dtype = moved.entry->block->dtype;
        th_convert_array(o->ctx, &after, &before);
        th_moments_limit(o, i, &after);
    }
    th_moments_clear(o, p);
    p->moments = moved.moments;
}

void th_moments_destroy(th_optimizer *o)
{
    free_list(o, &o->moments);
}

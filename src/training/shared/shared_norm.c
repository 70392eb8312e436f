/* The gradient norm over all processes. Each sums the squares of the chunks that it owns; all of them add the gathered
 * sums in the order in which one process would. */
#include "training/shared/shared_norm.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "processes/group.h"
#include "training/gradient_norm.h"
#include "training/shared/step_buffers.h"

static const char operation[] = "optimizer_step";

/* Visits the chunks of all due gradients in the order of the parameters: runs of chunks with the same owner. */
typedef struct chunk_iterator {
    int64_t parameter, first, end;
    int owner;
} chunk_iterator;

static bool next_chunks(const th_optimizer *o, chunk_iterator *it)
{
    it->first = it->end;
    while (it->parameter < o->count &&
           (!o->parameters[it->parameter].due || it->first >= th_norm_chunks(o->parameters[it->parameter].tensor))) {
        it->parameter++;
        it->first = 0;
    }
    if (it->parameter == o->count)
        return false;
    it->end = th_chunks_of_owner(o, &o->parameters[it->parameter], it->first, &it->owner);
    return true;
}

static double *block_of(const th_optimizer *o, int rank)
{
    return o->buffers->block + (int64_t)rank * o->buffers->block_numbers;
}

/* Gathers a sum of each chunk: of squares, or of (|g| / unit)^2 if unit is not 0. */
static th_status gather_sums(const th_optimizer *o, double unit)
{
    const th_step_buffers *s = o->buffers;
    double *sums = block_of(o, o->shards.rank);
    const size_t bytes = (size_t)(o->shards.end - o->shards.first) * sizeof *o->shards.losses;
    memcpy(sums, o->shards.losses, bytes);
    sums += 2 * th_most_shards(o);
    for (chunk_iterator it = {0}; next_chunks(o, &it);) {
        const th_tensor_impl *t = o->parameters[it.parameter].tensor;
        if (it.owner != o->shards.rank)
            continue;
        if (unit == 0)
            th_sum_squares(t, it.first, it.end, sums);
        else
            th_sum_scaled_squares(t, it.first, it.end, unit, sums);
        sums += it.end - it.first;
    }
    return th_group_all_gather(o->group, operation, s->block, (size_t)s->block_numbers * sizeof *s->block);
}

/* Adds the gathered sums as one process would: the chunks of a parameter, then the parameters. */
static double total_of(const th_optimizer *o)
{
    const th_step_buffers *s = o->buffers;
    double total = 0, sum = 0;
    int64_t parameter = -1;
    memset(s->filled, 0, (size_t)o->shards.processes * sizeof *s->filled);
    for (chunk_iterator it = {0}; next_chunks(o, &it); parameter = it.parameter) {
        if (it.parameter != parameter) {
            total += sum;
            sum = 0;
        }
        const double *sums = block_of(o, it.owner) + 2 * th_most_shards(o) + s->filled[it.owner];
        for (int64_t i = 0; i < it.end - it.first; i++)
            sum += sums[i];
        s->filled[it.owner] += it.end - it.first;
    }
    return total + sum;
}

/* An element of a gradient that is not finite, or the largest of a process. */
typedef struct found {
    int64_t parameter;
    th_gradient_extreme extreme;
} found;

/* Fails in all processes at the first element that is not finite. If all are finite, computes the norm in units of the
 * largest one. */
static th_status slow_norm(const th_optimizer *o, bool differences, double *norm)
{
    const size_t bytes = sizeof(found);
    char *all = (char *)o->buffers->block;
    found first = {.parameter = INT64_MAX, .extreme = {.element = -1}};
    for (chunk_iterator it = {0}; first.extreme.element < 0 && next_chunks(o, &it);) {
        if (it.owner != o->shards.rank)
            continue;
        const th_gradient_extreme e = th_find_extreme(o->parameters[it.parameter].tensor, it.first, it.end);
        if (e.element >= 0)
            first = (found){it.parameter, e};
        else
            first.extreme.value = fmax(first.extreme.value, e.value);
    }
    memcpy(all + (size_t)o->shards.rank * bytes, &first, bytes);
    if (th_group_all_gather(o->group, operation, all, bytes) != TH_OK)
        return TH_ERROR_PROCESS;
    for (int rank = 0; rank < o->shards.processes; rank++) {
        found other;
        memcpy(&other, all + (size_t)rank * bytes, bytes);
        const bool earlier = other.parameter < first.parameter ||
                             (other.parameter == first.parameter && other.extreme.element < first.extreme.element);
        if (other.extreme.element >= 0 && (first.extreme.element < 0 || earlier))
            first = other;
        else if (first.extreme.element < 0)
            first.extreme.value = fmax(first.extreme.value, other.extreme.value);
    }
    if (first.extreme.element >= 0)
        return th_fail_non_finite(o->parameters[first.parameter].tensor, operation, o->module, differences,
                                  first.extreme);
    if (gather_sums(o, first.extreme.value) != TH_OK)
        return TH_ERROR_PROCESS;
    *norm = fmin(first.extreme.value * sqrt(total_of(o)), DBL_MAX);
    return TH_OK;
}

th_status th_shared_norm(th_optimizer *o, bool differences, double *norm, const th_weighted_loss **losses)
{
    const th_step_buffers *s = o->buffers;
    if (gather_sums(o, 0) != TH_OK)
        return TH_ERROR_PROCESS;
    for (int rank = 0; rank < o->shards.processes; rank++) {
        const int first = th_shard_first(o->shards.count, rank, o->shards.processes);
        const int end = th_shard_first(o->shards.count, rank + 1, o->shards.processes);
        memcpy(s->losses + first, block_of(o, rank), (size_t)(end - first) * sizeof *s->losses);
    }
    *losses = s->losses;
    const double sum = total_of(o);
    if (!isfinite(sum))
        return slow_norm(o, differences, norm);
    *norm = sqrt(sum);
    return TH_OK;
}

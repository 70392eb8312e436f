/* The messages of a step besides gradients and parameters: errors, facts that must be equal, due parameters, and partial
 * sums of the gradient norm. */
#include "training/shared/agreement.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "autograd/gradient.h"
#include "kernels/machine/crc32c.h"
#include "nn/module_options.h"
#include "processes/group.h"
#include "tensor/error.h"
#include "tensor/random_state.h"
#include "training/gradient_norm.h"
#include "training/saved_state.h"
#include "training/shared/gradient_exchange.h"

static const char operation[] = "optimizer_step";

/* The memory of steps, allocated at the first step. */
struct th_shared_step {
    bool compared;      /* the processes have compared their parameters */
    bool same_due;      /* all processes have the same due parameters, as of the last agreement */
    unsigned char *due; /* [processes][parameters] */
    size_t due_bytes;
    th_shard_values *values; /* [shards] */
    /* A block of numbers of each process: the values of its shards, then the sums of its chunks. */
    double *block; /* [processes][block_numbers] */
    int64_t block_numbers;
    int64_t *filled; /* [processes]: how many sums are in each block */
    th_gradient_exchange *exchange;
};

/* -- memory -- */

static int most_shards(const th_optimizer *o)
{
    return (o->shards.count + o->shards.processes - 1) / o->shards.processes;
}

static int owner_of(const th_moments *m, int processes, size_t offset)
{
    int low = 0, high = processes - 1; /* cut[low] <= offset < cut[high + 1] */
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (m->cut[middle] <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Finds the owner of chunk `first` of a parameter's gradient. Returns the end of the chunks that follow it and have the
 * same owner. */
static int64_t chunks_of_owner(const th_optimizer *o, const th_optimizer_parameter *p, int64_t first, int *owner)
{
    const size_t chunk = TH_NORM_CHUNK * th_dtype_size(p->tensor->dtype);
    const int64_t chunks = th_norm_chunks(p->tensor);
    *owner = owner_of(p->moments, o->shards.processes, p->entry->offset + (size_t)first * chunk);
    const size_t end = p->moments->cut[*owner + 1];
    if (end >= p->entry->offset + p->entry->bytes)
        return chunks;
    const int64_t next = (int64_t)((end - p->entry->offset + chunk - 1) / chunk);
    return next < chunks ? next : chunks;
}

/* Returns the largest number of chunks that a process owns. */
static int64_t most_chunks(const th_optimizer *o, int64_t *filled)
{
    int64_t most = 0;
    memset(filled, 0, (size_t)o->shards.processes * sizeof *filled);
    for (int64_t i = 0; i < o->count; i++) {
        const th_optimizer_parameter *p = &o->parameters[i];
        int owner;
        for (int64_t first = 0, end; p->moments && first < th_norm_chunks(p->tensor); first = end) {
            end = chunks_of_owner(o, p, first, &owner);
            filled[owner] += end - first;
            most = filled[owner] > most ? filled[owner] : most;
        }
    }
    return most;
}

void th_shared_step_end(th_optimizer *o)
{
    struct th_shared_step *s = o->shared;
    const size_t processes = (size_t)o->shards.processes;
    if (s == NULL)
        return;
    th_gradient_exchange_free(o->ctx, s->exchange);
    th_release(o->ctx, s->block, processes * (size_t)s->block_numbers * sizeof *s->block);
    th_release(o->ctx, s->filled, processes * sizeof *s->filled);
    th_release(o->ctx, s->values, (size_t)o->shards.count * sizeof *s->values);
    th_release(o->ctx, s->due, s->due_bytes);
    th_release(o->ctx, s, sizeof *s);
    o->shared = NULL;
}

static th_status reserve(th_optimizer *o, struct th_shared_step *s)
{
    th_context *ctx = o->ctx;
    const size_t processes = (size_t)o->shards.processes;
    s->due_bytes = processes * (size_t)o->count;
    s->due = th_allocate(ctx, s->due_bytes);
    s->values = th_allocate(ctx, (size_t)o->shards.count * sizeof *s->values);
    s->filled = th_allocate(ctx, processes * sizeof *s->filled);
    if (s->due == NULL || s->values == NULL || s->filled == NULL)
        return th_fail_memory(ctx, operation, s->due_bytes);
    s->block_numbers = 2 * most_shards(o) + most_chunks(o, s->filled);
    if (s->block_numbers < 4) /* an extreme */
        s->block_numbers = 4;
    const size_t bytes = processes * (size_t)s->block_numbers * sizeof *s->block;
    s->block = th_allocate(ctx, bytes);
    if (s->block == NULL)
        return th_fail_memory(ctx, operation, bytes);
    memset(s->block, 0, bytes); /* all of it is sent */
    s->exchange = th_gradient_exchange_new(o);
    return s->exchange ? TH_OK : ctx->error;
}

th_status th_shared_step_reserve(th_optimizer *o)
{
    if (o->shared)
        return TH_OK;
    o->shared = th_allocate(o->ctx, sizeof *o->shared);
    if (o->shared == NULL)
        return th_fail_memory(o->ctx, operation, sizeof *o->shared);
    *o->shared = (struct th_shared_step){.compared = false};
    if (reserve(o, o->shared) != TH_OK)
        th_shared_step_end(o);
    return o->ctx->error;
}

void th_shared_step_compare_again(th_optimizer *o)
{
    if (o->shared)
        o->shared->compared = false;
}

/* -- agreement -- */

/* Returns the checksum of the parameters; with local steps, of those before the first one. */
static uint32_t parameters_crc32c(const th_optimizer *o)
{
    uint32_t crc = 0;
    for (int64_t i = 0; i < o->count; i++) {
        const th_optimizer_parameter *p = &o->parameters[i];
        const char *start = p->moments ? p->moments->start : NULL;
        const void *data = start ? start + p->entry->offset : th_tensor_data(p->tensor);
        crc = th_crc32c(crc, data, (size_t)th_tensor_numel(p->tensor) * th_dtype_size(p->tensor->dtype));
    }
    return crc;
}

/* Returns a checksum of where the parameters are in memory, which of them are frozen, and who owns them. All processes
 * must have the same spans to exchange. */
static uint32_t layout_crc32c(const th_optimizer *o)
{
    const size_t cuts = ((size_t)o->shards.processes + 1) * sizeof(size_t);
    uint32_t crc = 0;
    for (int64_t i = 0; i < o->count; i++) {
        const th_optimizer_parameter *p = o->layout[i];
        const uint64_t place[] = {(uint64_t)(p - o->parameters), p->entry->offset, p->entry->bytes,
                                  (uint64_t)p->tensor->dtype, p->tensor->requires_gradient};
        crc = th_crc32c(crc, place, sizeof place);
        crc = p->moments ? th_crc32c(crc, p->moments->cut, cuts) : crc;
    }
    return crc;
}

/* Returns a checksum of the options that affect the result of a step, except the learning rate. */
static uint32_t options_crc32c(const th_optimizer *o)
{
    th_saved_option option[TH_MAX_SAVED_OPTIONS];
    const int n = th_optimizer_saved_options(o, option);
    const char *rule = th_optimizer_rule_name(o);
    uint32_t crc = th_crc32c(0, rule, strlen(rule));
    for (int i = 0; i < n; i++)
        crc = th_crc32c(crc, &option[i].value, sizeof option[i].value);
    for (int64_t i = 0; i < o->count; i++) {
        const th_optimizer_group *g = &o->groups[o->parameters[i].group];
        const double rates[] = {g->learning_rate_factor, g->weight_decay};
        crc = th_crc32c(crc, rates, sizeof rates);
    }
    return crc;
}

th_status th_shared_step_gather_due(th_optimizer *o)
{
    struct th_shared_step *s = o->shared;
    if (s->same_due)
        return TH_OK;
    unsigned char *own = s->due + (size_t)o->shards.rank * (size_t)o->count;
    for (int64_t i = 0; i < o->count; i++)
        own[i] = o->parameters[i].due;
    if (th_group_all_gather(o->group, operation, s->due, (size_t)o->count) != TH_OK)
        return TH_ERROR_PROCESS;
    for (int64_t i = 0; i < o->count; i++) {
        th_optimizer_parameter *p = &o->parameters[i];
        bool due = false;
        for (int rank = 0; rank < o->shards.processes; rank++)
            due |= s->due[(size_t)rank * (size_t)o->count + (size_t)i];
        if (due && !p->due && th_gradient_zero(p->tensor) != TH_OK)
            return o->ctx->error;
        p->due = due;
    }
    return TH_OK;
}

th_status th_shared_step_agree(th_optimizer *o)
{
    const th_context *ctx = o->ctx;
    const bool first = o->shared == NULL || !o->shared->compared; /* NULL: an error is pending */
    const bool compare = !ctx->error && (!o->shared->compared || o->diloco.local_steps > 0);
    uint32_t due = 0;
    bool same_due;
    int64_t elements = 0, trained = 0;
    for (int64_t i = 0; i < o->count; i++) {
        const unsigned char flag = o->parameters[i].due || o->parameters[i].changed;
        due = th_crc32c(due, &flag, 1);
        elements += th_tensor_numel(o->parameters[i].tensor);
        trained += o->parameters[i].tensor->requires_gradient ? th_tensor_numel(o->parameters[i].tensor) : 0;
    }
    const th_fact facts[] = {
        {.name = "number of shards", .kind = TH_FACT_INTEGER, .integer = o->shards.count},
        {.name = "number of parameters", .kind = TH_FACT_INTEGER, .integer = elements},
        {.name = "number of parameters that are not frozen", .kind = TH_FACT_INTEGER, .integer = trained},
        {.name = "number of steps", .kind = TH_FACT_INTEGER, .integer = ctx->step},
        {.name = "seed", .kind = TH_FACT_INTEGER, .integer = (int64_t)ctx->seed},
        {.name = "checksum of the random calls before the step",
         .kind = TH_FACT_CHECKSUM,
         .integer = th_crc32c(0, o->shards.calls, sizeof o->shards.calls)},
        {.name = "learning rate", .kind = TH_FACT_REAL, .real = o->learning_rate},
        {.name = "precision of products", .kind = TH_FACT_INTEGER, .integer = (int64_t)ctx->machine.precision},
        {.name = "training mode", .kind = TH_FACT_INTEGER, .integer = ctx->training},
        {.name = "fusion", .kind = TH_FACT_INTEGER, .integer = ctx->fusion},
        {.name = "backend of products (0: native kernels with fused multiply-add, 1: OpenBLAS)",
         .kind = TH_FACT_INTEGER,
         .integer = (int64_t)ctx->machine.gemm},
        {.name = "number of local steps", .kind = TH_FACT_INTEGER, .integer = o->diloco.local_steps},
        {.name = "checksum of the optimizer's options", .kind = TH_FACT_CHECKSUM, .integer = options_crc32c(o)},
        {.name = "checksum of the modules' options",
         .kind = TH_FACT_CHECKSUM,
         .integer = ctx->error ? 0 : th_module_options_crc32c(o->module)},
        {.name = "checksum of the layout of the parameters in memory",
         .kind = TH_FACT_CHECKSUM,
         .integer = ctx->error ? 0 : layout_crc32c(o)},
        {.name = "checksum of the parameters", .kind = TH_FACT_CHECKSUM, .integer = compare ? parameters_crc32c(o) : 0},
    };
    _Static_assert(sizeof facts / sizeof *facts <= TH_MAX_FACTS, "an agreement has no place for all facts");
    if (first && th_module_options_agree(o->module, o->group, operation) != TH_OK)
        return ctx->error;
    if (th_group_agree_on(o->group, operation, facts, (int)(sizeof facts / sizeof *facts), due, &same_due) != TH_OK)
        return ctx->error;
    o->shared->compared = true;
    o->shared->same_due = same_due;
    return TH_OK;
}

th_status th_shared_step_sum(th_optimizer *o)
{
    return th_gradient_exchange_sum(o->shared->exchange, o);
}

th_status th_shared_step_distribute(th_optimizer *o)
{
    return th_gradient_exchange_parameters(o->shared->exchange, o);
}

/* -- the norm -- */

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
    it->end = chunks_of_owner(o, &o->parameters[it->parameter], it->first, &it->owner);
    return true;
}

static double *block_of(const th_optimizer *o, int rank)
{
    return o->shared->block + (int64_t)rank * o->shared->block_numbers;
}

/* Gathers a sum of each chunk: of squares, or of (|g| / unit)^2 if unit is not 0. */
static th_status gather_sums(const th_optimizer *o, double unit)
{
    const struct th_shared_step *s = o->shared;
    double *sums = block_of(o, o->shards.rank);
    const size_t values = (size_t)(o->shards.end - o->shards.first) * sizeof *o->shards.values;
    memcpy(sums, o->shards.values, values);
    sums += 2 * most_shards(o);
    for (chunk_iterator it = {0}; next_chunks(o, &it);) {
        const th_tensor_impl *t = o->parameters[it.parameter].tensor;
        if (it.owner != o->shards.rank)
            continue;
        if (unit == 0)
            th_sum_squares(t, it.first, it.end, sums);
        else
            th_sum_shares(t, it.first, it.end, unit, sums);
        sums += it.end - it.first;
    }
    return th_group_all_gather(o->group, operation, s->block, (size_t)s->block_numbers * sizeof *s->block);
}

/* Adds the gathered sums as one process would: the chunks of a parameter, then the parameters. */
static double total_of(const th_optimizer *o)
{
    const struct th_shared_step *s = o->shared;
    double total = 0, sum = 0;
    int64_t parameter = -1;
    memset(s->filled, 0, (size_t)o->shards.processes * sizeof *s->filled);
    for (chunk_iterator it = {0}; next_chunks(o, &it); parameter = it.parameter) {
        if (it.parameter != parameter) {
            total += sum;
            sum = 0;
        }
        const double *sums = block_of(o, it.owner) + 2 * most_shards(o) + s->filled[it.owner];
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
    char *all = (char *)o->shared->block;
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

th_status th_shared_step_norm(th_optimizer *o, bool differences, double *norm, const th_shard_values **values)
{
    const struct th_shared_step *s = o->shared;
    if (gather_sums(o, 0) != TH_OK)
        return TH_ERROR_PROCESS;
    for (int rank = 0; rank < o->shards.processes; rank++) {
        const int first = th_shard_first(o->shards.count, rank, o->shards.processes);
        const int end = th_shard_first(o->shards.count, rank + 1, o->shards.processes);
        memcpy(s->values + first, block_of(o, rank), (size_t)(end - first) * sizeof *s->values);
    }
    *values = s->values;
    const double sum = total_of(o);
    if (!isfinite(sum))
        return slow_norm(o, differences, norm);
    *norm = sqrt(sum);
    return TH_OK;
}

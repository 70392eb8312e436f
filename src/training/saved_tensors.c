/* Lists the tensors of parameters that checkpoints save: see saved_tensors.h. */
#include "training/saved_tensors.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tensor/convert.h"
#include "tensor/format.h"
#include "training/moments.h"
#include "training/saved_state.h"

static const int64_t most_steps = INT64_MAX / 2; /* as in the state of a checkpoint */

/* What tensor k is. */
typedef struct kind {
    enum { MOMENT, STEPS, VELOCITY } type;
    int moment;
    int worker; /* whose moment it is; -1: the processes share it */
} kind;

static kind kind_of(const th_optimizer *o, int64_t p, int k)
{
    if (!th_steps_are_local(o))
        return (kind){MOMENT, k, -1};
    const int moments = th_moments_of(o, &o->parameters[p]), all = moments * o->shards.processes;
    if (k < all)
        return (kind){MOMENT, k % moments, k / moments};
    return (kind){.type = k == all ? STEPS : VELOCITY};
}

int th_saved_tensor_count(const th_optimizer *o, int64_t p)
{
    const int moments = th_moments_of(o, &o->parameters[p]);
    return th_steps_are_local(o) ? moments * o->shards.processes + (o->diloco.momentum > 0 ? 2 : 1) : moments;
}

void th_saved_tensor_name(const th_optimizer *o, int64_t p, int k, char name[TH_SAVED_NAME_SIZE])
{
    const kind saved = kind_of(o, p, k);
    const char *const *names = o->parameters[p].parts ? o->rule->matrix_moment_names : o->rule->moment_names;
    name[0] = 0;
    if (saved.type != MOMENT)
        th_append(name, TH_SAVED_NAME_SIZE, "%s", saved.type == STEPS ? "worker_steps" : "outer_velocity");
    else if (saved.worker > 0)
        th_append(name, TH_SAVED_NAME_SIZE, "worker%d.%s", saved.worker, names[saved.moment]);
    else
        th_append(name, TH_SAVED_NAME_SIZE, "%s", names[saved.moment]);
}

/* Returns the whole moment, if there are moments. */
static th_moment_part whole(const th_optimizer_parameter *p)
{
    const size_t bytes = (size_t)th_tensor_numel(p->tensor) * th_dtype_size(p->tensor->dtype);
    return (th_moment_part){.end = p->moments ? bytes : 0};
}

th_moment_part th_saved_tensor_part_of_rank(const th_optimizer *o, int64_t p, int k, int rank)
{
    const kind saved = kind_of(o, p, k);
    const th_optimizer_parameter *parameter = &o->parameters[p];
    const size_t step = sizeof parameter->steps;
    if (saved.type == STEPS)
        return (th_moment_part){.begin = (size_t)rank * step, .end = (size_t)rank * step + step};
    if (saved.type == VELOCITY || saved.worker < 0)
        return th_moment_part_of_rank(parameter, rank);
    return saved.worker == rank ? whole(parameter) : (th_moment_part){0};
}

th_moment_part th_saved_tensor_part(const th_optimizer *o, int64_t p, int k)
{
    const kind saved = kind_of(o, p, k);
    th_optimizer_parameter *parameter = &o->parameters[p];
    th_moment_part part = th_saved_tensor_part_of_rank(o, p, k, o->shards.rank);
    if (saved.type == VELOCITY)
        return th_velocity_part_of(o, parameter);
    if (saved.type == STEPS)
        part.data = (char *)&parameter->steps;
    else if (part.begin < part.end)
        part.data = th_moment_part_of(parameter, saved.moment).data;
    return part;
}

th_array th_saved_tensor(const th_optimizer *o, int64_t p, int k)
{
    th_array array = th_tensor_array(o->parameters[p].tensor);
    if (kind_of(o, p, k).type == STEPS)
        array = (th_array){.given = true, .dtype = TH_INT64, .ndim = 1, .size = {o->shards.processes}, .stride = {1}};
    array.data = th_saved_tensor_part(o, p, k).data;
    return array;
}

static void limit_steps(const th_array *read)
{
    int64_t *steps = read->data;
    for (int64_t i = 0; i < read->size[0]; i++)
        steps[i] = steps[i] < 0 ? 0 : steps[i] > most_steps ? most_steps : steps[i];
}

/* The velocity is limited as the momentum of SGD. */
static void limit_velocity(const th_array *read)
{
    const double limit = read->dtype == TH_FLOAT32 ? (double)FLT_MAX : DBL_MAX;
    for (int64_t i = 0; i < read->size[0]; i++) {
        void *at = (char *)read->data + (size_t)i * th_dtype_size(read->dtype);
        const double value = th_number_read(read->dtype, at);
        if (fabs(value) > limit)
            th_number_write(read->dtype, at, copysign(limit, value));
    }
}

void th_saved_tensor_limit(const th_optimizer *o, int64_t p, int k, const th_array *read)
{
    const kind saved = kind_of(o, p, k);
    if (saved.type == MOMENT)
        th_moments_limit(o, saved.moment, read);
    else if (saved.type == STEPS)
        limit_steps(read);
    else
        limit_velocity(read);
}

int64_t th_saved_updates(const th_optimizer *o, int64_t p)
{
    return th_steps_are_local(o) ? o->parameters[p].outer : o->parameters[p].steps;
}

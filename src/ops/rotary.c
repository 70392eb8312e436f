/* rotary: y = (a cos - b sin, b cos + a sin) for each pair (a, b) of a row (Su et al. 2021). The angle is proportional
 * to the row's position.
 *
 * The cosines and sines of a position are computed once for all rows at that position, in float64 by the library's own
 * functions, and rounded to x's type. A row kernel rotates (kernels/rows/vector/rotary.c). Backward recomputes the
 * result instead of saving it: in attention, x is in memory anyway. */
#include <math.h>
#include <string.h>

#include "kernels/elementwise/scalar.h"
#include "ops/shared/attributes.h"
#include "ops/shared/rotary_scaling.h"
#include "ops/shared/rows.h"
#include "tapehead/ops.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"

enum { X, POSITIONS, INPUTS };

/* Checks that positions are (T) or (B, T), for x (B, .., T, D). */
static th_status check_positions(th_call *call)
{
    const th_array *x = &call->input[X], *positions = &call->input[POSITIONS];
    if (!positions->given)
        return TH_OK;
    const th_status status = th_call_index_type(call, POSITIONS);
    if (status)
        return status;
    const int last = positions->ndim - 1;
    const bool fits = (last == 0 || (last == 1 && x->ndim > 2 && positions->size[0] == x->size[0])) &&
                      positions->size[last] == x->size[x->ndim - 2];
    if (!fits)
        return th_call_fail(call, TH_ERROR_SHAPE, "positions is %s, but x %s takes positions of shape %s",
                            TH_TEXT(positions), TH_TEXT(x), x->ndim == 2 ? "(T)" : "(T) or (B, T)");
    return TH_OK;
}

static th_status rotary_shape(th_call *call)
{
    th_rotary_attributes *attributes = th_call_attributes(call);
    const th_array *x = &call->input[X];
    if (th_call_floating(call, X) != TH_OK)
        return TH_ERROR_TYPE;
    if (x->ndim < 2)
        return th_call_fail(call, TH_ERROR_SHAPE, "x is %s, but it must have at least two dimensions, (T, D)",
                            TH_TEXT(x));
    const int64_t length = x->size[x->ndim - 1];
    if (attributes->width < 0 || attributes->width > length || attributes->width % 2)
        return th_call_fail(call, TH_ERROR_ARGUMENT, "width = %lld must be an even number in [0, %lld]; x is %s",
                            (long long)attributes->width, (long long)length, TH_TEXT(x));
    if (attributes->width == 0 && length % 2)
        return th_call_fail(call, TH_ERROR_SHAPE, "pairs need an even number of elements, x is %s", TH_TEXT(x));
    if (!(attributes->base >= 0) || !isfinite(attributes->base))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "base = %g must be a positive number", attributes->base);
    if (attributes->pairing != TH_ROTARY_HALVES && attributes->pairing != TH_ROTARY_NEIGHBORS)
        return th_call_fail(call, TH_ERROR_ARGUMENT, "pairing is %d, which is not a th_rotary_pairing",
                            (int)attributes->pairing);
    if (attributes->base == 0)
        attributes->base = 10000;
    if (attributes->width == 0)
        attributes->width = length;
    char reason[TH_ROTARY_REASON];
    if (!th_rotary_scaling_usable(&attributes->scaling, attributes->base, attributes->width, reason))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "scaling: %s", reason);
    const th_status status = check_positions(call);
    if (status)
        return status;
    th_call_output(call, 0, x->dtype, x->ndim, x->size, x->axes);
    return TH_OK;
}

/* -- plan: the rows, and a table (positions, table_row) of cosines and sines that they read -- */

typedef struct plan {
    th_rows rows;
    size_t table, frequency, angles; /* offsets in scratch memory */
    int64_t batches, queries;        /* of positions: B or 1, and T */
    int64_t lengths;                 /* rows of frequencies: one for each sequence, or 1 */
    int64_t table_row;               /* elements: cosines and sines of a position */
} plan;

static void rotary_plan(const th_call *call, bool backward, void *memory)
{
    plan *p = memory;
    const th_rotary_attributes *attributes = call->attributes;
    const th_array *x = &call->input[X], *positions = &call->input[POSITIONS];
    const int query_axis = x->ndim - 2;
    p->batches = positions->given && positions->ndim == 2 ? positions->size[0] : 1;
    p->queries = x->size[query_axis];
    p->lengths = th_rotary_depends_on_length(&attributes->scaling) ? p->batches : 1;
    p->table_row = attributes->pairing == TH_ROTARY_NEIGHBORS ? 2 * attributes->width : attributes->width;

    th_array table = {.given = true, .dtype = x->dtype, .ndim = x->ndim};
    memcpy(table.size, x->size, sizeof table.size);
    table.stride[x->ndim - 1] = 1;
    table.stride[query_axis] = p->table_row;
    if (p->batches > 1)
        table.stride[0] = p->queries * p->table_row;
    const th_array *from = backward ? &call->output_gradient[0] : x;
    const th_array *to = backward ? &call->input_gradient[X] : &call->output[0];
    th_rows_init(&p->rows, x, 1u << (x->ndim - 1));
    th_rows_set(&p->rows, TH_ROW_X, from, TH_ROWS_READ);
    th_rows_set(&p->rows, TH_ROW_DX, to, backward && call->add[X] ? TH_ROWS_ADD : TH_ROWS_WRITE);
    th_rows_set(&p->rows, TH_ROW_SAVED, &table, TH_ROWS_READ);
    th_rows_finish(&p->rows);

    p->rows.scratch_offset = th_plan_scratch(call, 1, th_rows_scratch(call->ctx, &p->rows));
    p->table = th_plan_scratch(call, p->batches * p->queries, (size_t)p->table_row * th_dtype_size(x->dtype));
    p->frequency = th_plan_scratch(call, p->lengths, (size_t)(attributes->width / 2) * sizeof(double));
    p->angles =
        th_plan_scratch(call, call->ctx->threads, (size_t)(attributes->width / 2 * 3 + p->table_row) * sizeof(double));
}

/* -- the table -- */

typedef struct table_work {
    const th_call *call;
    const plan *plan;
    const double *frequency; /* (lengths, width / 2) */
    char *table;             /* (B T, table_row) */
    double *angles;          /* (threads, 3 width / 2 + table_row) */
    double cosine, sine;     /* factors: the attention factor; negative for the sine to rotate back */
} table_work;

static double position_at(const th_array *positions, int64_t batch, int64_t query)
{
    if (!positions->given)
        return (double)query;
    int64_t offset = query * positions->stride[positions->ndim - 1];
    if (positions->ndim == 2)
        offset += batch * positions->stride[0];
    const char *at = (const char *)positions->data + offset * (int64_t)th_dtype_size(positions->dtype);
    return (double)th_integer_read(positions->dtype, at);
}

/* Returns 1 + the largest position of a sequence. */
static double length_of(const th_array *positions, int64_t batch, int64_t queries)
{
    double largest = -1;
    if (!positions->given)
        return (double)queries;
    for (int64_t i = 0; i < queries; i++) {
        const double position = position_at(positions, batch, i);
        largest = position > largest ? position : largest;
    }
    return largest + 1;
}

/* Writes a row of the table from its cosines and sines. */
static void write_table_row(const table_work *work, bool neighbors, int64_t pairs, const double *cosine,
                            const double *sine, double *row)
{
    for (int64_t i = 0; i < pairs; i++) {
        const double a = work->cosine * cosine[i], b = work->sine * sine[i];
        if (neighbors) {
            row[2 * i] = row[2 * i + 1] = a;
            row[2 * (pairs + i)] = -b;
            row[2 * (pairs + i) + 1] = b;
        } else {
            row[i] = a;
            row[pairs + i] = b;
        }
    }
}

static void table_task(void *shared, int64_t first, int64_t end, int worker)
{
    const table_work *work = shared;
    const plan *p = work->plan;
    const th_rotary_attributes *attributes = work->call->attributes;
    const th_dtype dtype = work->call->input[X].dtype;
    const th_kernels *kernels = th_context_kernels(work->call->ctx, TH_FLOAT64);
    const int64_t pairs = attributes->width / 2;
    double *angle = work->angles + worker * (3 * pairs + p->table_row);
    double *cosine = angle + pairs, *sine = cosine + pairs, *row = sine + pairs;
    for (int64_t i = first; i < end; i++) {
        const double position = position_at(&work->call->input[POSITIONS], i / p->queries, i % p->queries);
        const double *frequency = work->frequency + (p->lengths > 1 ? i / p->queries * pairs : 0);
        for (int64_t j = 0; j < pairs; j++)
            angle[j] = position * frequency[j];
        kernels->cos(pairs, (void *const[]){cosine, angle}, NULL);
        kernels->sin(pairs, (void *const[]){sine, angle}, NULL);
        write_table_row(work, attributes->pairing == TH_ROTARY_NEIGHBORS, pairs, cosine, sine, row);
        th_convert_elements(p->table_row, dtype, work->table + i * p->table_row * (int64_t)th_dtype_size(dtype),
                            TH_FLOAT64, row);
    }
}

static void make_table(const th_call *call, double direction)
{
    const plan *p = call->plan;
    const th_rotary_attributes *attributes = call->attributes;
    double *frequency = th_call_scratch(call, p->frequency);
    for (int64_t i = 0; i < p->lengths; i++)
        th_rotary_frequencies(&attributes->scaling, attributes->base, attributes->width,
                              length_of(&call->input[POSITIONS], i, p->queries),
                              frequency + i * (attributes->width / 2));
    const double factor = th_rotary_attention_factor(&attributes->scaling);
    table_work work = {.call = call,
                       .plan = p,
                       .frequency = frequency,
                       .table = th_call_scratch(call, p->table),
                       .angles = th_call_scratch(call, p->angles),
                       .cosine = factor,
                       .sine = direction * factor};
    th_for_rows(call->ctx, p->batches * p->queries, 16 * p->table_row, table_task, &work);
}

static void rotate(const th_call *call, double direction)
{
    const plan *p = call->plan;
    const th_rotary_attributes *attributes = call->attributes;
    if (p->rows.rows == 0 || p->rows.length == 0)
        return;
    make_table(call, direction);
    th_rows rows = p->rows;
    rows.operand[TH_ROW_SAVED].data = th_call_scratch(call, p->table);
    const th_rotary_parameters parameters = {attributes->width, attributes->pairing == TH_ROTARY_NEIGHBORS};
    th_rows_run(call->ctx, &rows, 2, th_call_scratch(call, p->rows.scratch_offset), th_call_kernels(call)->rotary,
                &parameters);
}

static void rotary_forward(const th_call *call)
{
    rotate(call, 1);
}

/* y = c R x of every pair, R the rotation by its angle, c the attention factor:  dL/dx = c Rᵀ dL/dy, the rotation
 * back. */
static void rotary_backward(const th_call *call)
{
    rotate(call, -1);
}

/* -- samples -- */

#define AT(...)                                                                                                        \
    {                                                                                                                  \
        .shape = TH_SIZES(__VA_ARGS__), .kind = TH_SAMPLE_INDEX, .high = 50                                            \
    }

static const th_rotary_attributes halves = {0}, neighbors = {.pairing = TH_ROTARY_NEIGHBORS},
                                  part = {.base = 500, .width = 4},
                                  neighbors_part = {.width = 6, .pairing = TH_ROTARY_NEIGHBORS},
                                  linear = {.scaling = {TH_ROTARY_LINEAR, .factor = 4}},
                                  llama3 = {.pairing = TH_ROTARY_NEIGHBORS, /* all three cases among its frequencies */
                                            .scaling = {TH_ROTARY_LLAMA3, .factor = 8, .low_freq_factor = 1,
                                                        .high_freq_factor = 4, .original_length = 128}},
                                  dynamic = {.scaling = {TH_ROTARY_DYNAMIC, .factor = 3, .original_length = 20}},
                                  yarn = {.base = 50, /* kept, partly scaled and scaled frequencies */
                                          .scaling = {TH_ROTARY_YARN, .factor = 8, .original_length = 64,
                                                      .beta_fast = 4}},
                                  yarn_whole = {.pairing = TH_ROTARY_NEIGHBORS,
                                                .scaling = {TH_ROTARY_YARN, .factor = 8, .original_length = 64,
                                                            .mscale = 2, .mscale_all_dim = 0.5, .no_truncate = true}},
                                  longrope = {.width = 6,
                                              .scaling = {TH_ROTARY_LONGROPE, .factor = 4, .original_length = 25,
                                                          .short_factor = (const double[]){1, 1.5, 2},
                                                          .long_factor = (const double[]){2, 5, 9}, .n_factors = 3}};

static const th_sample rotary_samples[] = {
    {"halves", &halves, INPUTS, {{.shape = {3, {2, 3, 6}}}, TH_ABSENT}, 0},
    {"neighbors", &neighbors, INPUTS, {{.shape = {4, {2, 2, 3, 6}}}, TH_ABSENT}, 0},
    {"wider than a register", &halves, INPUTS, {{.shape = {2, {2, 38}}}, TH_ABSENT}, 0},
    {"neighbors wider than a register", &neighbors, INPUTS, {{.shape = {2, {2, 38}}}, AT(2)}, 0},
    {"part, another base", &part, INPUTS, {{.shape = {3, {2, 3, 7}}}, AT(3)}, 0},
    {"positions of each example", &neighbors_part, INPUTS, {{.shape = {4, {2, 2, 3, 8}}}, AT(2, 3)}, 0},
    {"scaled", &linear, INPUTS, {{.shape = {3, {2, 3, 6}}}, AT(3)}, 0},
    {"scaled by frequency", &llama3, INPUTS, {{.shape = {3, {2, 3, 8}}}, AT(2, 3)}, 0},
    {"scaled by length", &dynamic, INPUTS, {{.shape = {3, {2, 3, 8}}}, AT(2, 3)}, 0},
    {"scaled by length, no positions", &dynamic, INPUTS, {{.shape = {3, {1, 23, 4}}}, TH_ABSENT}, 0},
    {"yarn", &yarn, INPUTS, {{.shape = {3, {2, 3, 16}}}, AT(3)}, 0},
    {"yarn, another attention factor", &yarn_whole, INPUTS, {{.shape = {3, {2, 3, 8}}}, AT(2, 3)}, 0},
    {"longrope", &longrope, INPUTS, {{.shape = {4, {2, 2, 3, 7}}}, AT(2, 3)}, 0},
    {.name = NULL},
};

const th_op th_op_rotary = {
    .name = "rotary",
    .value = "y = c (a cos - b sin, b cos + a sin) of each pair (a, b) of x, angle = position scaled(base^(-2 pair / "
             "width))",
    .gradient = "dx = c (dy rotated back)",
    .n_inputs = INPUTS,
    .optional = TH_INPUT(POSITIONS),
    .attributes_size = sizeof(th_rotary_attributes),
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE | TH_OP_RECOMPUTE,
    .saves = TH_INPUT(POSITIONS),
    .shape = rotary_shape,
    .forward = rotary_forward,
    .backward = rotary_backward,
    .plan = rotary_plan,
    .plan_size = sizeof(plan),
    .samples = rotary_samples,
};

th_tensor *th_rotary(th_tensor *x, const th_rotary_options *options)
{
    const th_rotary_options given = options ? *options : (th_rotary_options){0};
    const th_rotary_attributes attributes = {
        .base = given.base, .width = given.width, .pairing = (int32_t)given.pairing, .scaling = given.scaling};
    return th_apply(&th_op_rotary, &attributes, x, given.positions);
}

/* Attention problems for tests: see attention_cases.h. */
#include "attention_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "guarded.h"

const attention_case cases[CASES] = {
    {"plain", SIZES(2, 2, 1, 7, 7, 4, 4)},
    {"one", SIZES(1, 1, 1, 1, 1, 1, 1)},
    {"one key", SIZES(1, 2, 1, 3, 1, 3, 2), .with_lse = true},
    {"one query", SIZES(1, 2, 1, 1, 33, 17, 5), .with_lse = true},
    {"sixteen", SIZES(3, 4, 1, 16, 16, 16, 16), .causal = true},
    {"odd", SIZES(2, 3, 1, 17, 33, 7, 9), .with_lse = true},
    {"causal", SIZES(2, 2, 1, 65, 65, 33, 17), .causal = true},
    {"causal top left, T > S", SIZES(1, 2, 1, 65, 33, 8, 8), .causal = true},
    {"causal top left, T < S", SIZES(1, 2, 1, 33, 65, 8, 8), .causal = true},
    {"causal bottom right, T > S", SIZES(1, 2, 1, 65, 33, 8, 8), .causal = true, .bottom_right = true,
     .with_lse = true},
    {"causal bottom right, T < S", SIZES(1, 2, 1, 33, 65, 8, 8), .causal = true, .bottom_right = true},
    {"window", SIZES(1, 2, 1, 70, 70, 16, 16), .window = true, .left = 5, .right = 3},
    {"window to the left", SIZES(1, 1, 1, 130, 130, 16, 16), .window = true, .left = 20, .right = -1, .causal = true},
    {"window beyond all", SIZES(1, 1, 1, 20, 30, 16, 16), .window = true, .left = INT64_MAX, .right = INT64_MAX},
    {"lengths", SIZES(3, 2, 1, 17, 40, 8, 8), .lengths = 1},
    {"lengths per query", SIZES(3, 2, 1, 50, 40, 8, 8), .lengths = 2, .with_lse = true},
    {"padding", SIZES(3, 2, 1, 17, 40, 8, 8), .keep = PER_KEY},
    {"keep per query", SIZES(2, 2, 1, 17, 40, 8, 8), .keep = PER_QUERY},
    {"keep", SIZES(2, 2, 1, 60, 80, 8, 8), .keep = PER_PAIR},
    {"keep, all its own", SIZES(2, 2, 1, 33, 33, 8, 8), .keep = PER_ITEM},
    {"additive per key", SIZES(2, 2, 1, 33, 33, 8, 8), .additive = PER_KEY},
    {"additive per query", SIZES(2, 2, 1, 33, 300, 8, 8), .additive = PER_QUERY},
    {"additive", SIZES(2, 2, 1, 60, 33, 8, 8), .additive = PER_PAIR, .with_lse = true},
    {"bias per head", SIZES(3, 2, 1, 33, 60, 8, 8), .additive = PER_HEAD, .add = true},
    {"additive, all its own", SIZES(2, 2, 1, 250, 270, 4, 4), .additive = PER_ITEM},
    {"dropout", SIZES(2, 2, 1, 33, 33, 8, 8), .dropout = 0.3},
    {"dropout, causal", SIZES(2, 1, 1, 100, 100, 8, 8), .dropout = 0.5, .causal = true, .with_lse = true},
    {"grouped heads", SIZES(2, 2, 3, 33, 40, 8, 8), .causal = true},
    {"grouped heads with everything", SIZES(2, 2, 2, 60, 70, 12, 20), .causal = true, .bottom_right = true,
     .window = true, .left = 40, .right = -1, .lengths = 2, .keep = PER_KEY, .additive = PER_HEAD, .dropout = 0.2,
     .scale = 0.7, .with_lse = true, .add = true},
    {"packed", SIZES(2, 3, 1, 50, 50, 20, 20), .layout = PACKED, .causal = true},
    {"packed, added", SIZES(2, 3, 1, 50, 50, 32, 32), .layout = PACKED, .lengths = 1, .add = true},
    {"columns apart", SIZES(2, 2, 2, 30, 45, 10, 18), .layout = REVERSED, .additive = PER_HEAD, .with_lse = true,
     .add = true},
    {"two blocks of keys", SIZES(1, 1, 1, 60, 1100, 8, 8), .with_lse = true},
    {"two blocks of keys, causal", SIZES(1, 1, 1, 1100, 1100, 4, 4), .causal = true, .layout = PACKED},
    {"three blocks of keys", SIZES(1, 1, 2, 50, 2100, 8, 8), .causal = true, .bottom_right = true, .dropout = 0.25,
     .additive = PER_KEY},
    {"three blocks of keys, window", SIZES(1, 2, 1, 50, 2100, 8, 8), .window = true, .left = 1500, .right = 20,
     .bottom_right = true, .keep = PER_PAIR},
    {"more queries than a chunk", SIZES(1, 1, 1, 1000, 40, 8, 8), .additive = PER_PAIR, .with_lse = true},
    {"wide heads", SIZES(1, 1, 1, 60, 70, 256, 192)},
    {"wider than a block of the product", SIZES(1, 1, 1, 20, 20, 600, 530), .scale = 0.02},
    {"negative scale", SIZES(1, 2, 1, 20, 20, 8, 8), .scale = -0.5},
    {"soft cap", SIZES(2, 2, 1, 50, 60, 16, 20), .soft_cap = 0.7, .with_lse = true},
    {"soft cap, causal, dropout", SIZES(1, 2, 2, 70, 70, 24, 16), .soft_cap = 2, .causal = true, .dropout = 0.3,
     .scale = 1.5, .add = true},
    {"soft cap, bias", SIZES(2, 2, 1, 33, 300, 8, 8), .soft_cap = 0.5, .scale = -1, .additive = PER_HEAD,
     .keep = PER_KEY},
    {"slopes", SIZES(2, 3, 1, 65, 65, 16, 16), .slopes = 1, .causal = true, .layout = PACKED},
    {"slopes, no order", SIZES(1, 2, 2, 50, 60, 8, 8), .slopes = 2, .with_lse = true},
    {"slopes, bottom right, added", SIZES(2, 2, 2, 33, 90, 8, 8), .slopes = 1, .causal = true, .bottom_right = true,
     .add = true},
    {"slopes, two blocks of keys", SIZES(1, 2, 1, 50, 1100, 8, 8), .slopes = 1, .additive = PER_KEY, .dropout = 0.2},
    {"positions", SIZES(2, 2, 1, 50, 60, 8, 8), .positions = 1, .causal = true},
    {"positions in each sequence", SIZES(3, 2, 2, 17, 300, 8, 8), .positions = 2, .causal = true, .with_lse = true},
    {"positions and a window", SIZES(2, 2, 1, 60, 1100, 8, 8), .positions = 2, .causal = true, .window = true,
     .left = 30, .right = -1, .add = true},
    {"positions and a window on both sides", SIZES(2, 1, 1, 60, 90, 8, 8), .positions = 1, .window = true, .left = 3,
     .right = 9},
    {"position of one query", SIZES(4, 2, 2, 1, 700, 20, 20), .positions = 2, .causal = true, .slopes = 1},
    {"all options", SIZES(2, 2, 2, 60, 290, 12, 20), .positions = 2, .causal = true, .window = true, .left = 70,
     .right = -1, .lengths = 2, .keep = PER_KEY, .additive = PER_HEAD, .slopes = 2, .soft_cap = 1.5, .dropout = 0.2,
     .scale = 0.7, .with_lse = true, .add = true},
    {"no queries", SIZES(2, 2, 1, 0, 5, 8, 8), .additive = PER_KEY},
    {"no keys", SIZES(2, 2, 1, 5, 0, 8, 8), .with_lse = true},
    {"no keys, added", SIZES(2, 2, 1, 5, 0, 8, 8), .additive = PER_QUERY, .add = true},
    {"no items", SIZES(0, 2, 1, 5, 6, 8, 8), .additive = PER_PAIR},
    {"no width", SIZES(1, 2, 1, 5, 6, 0, 8), .scale = 1, .causal = true},
    {"no value width", SIZES(1, 2, 1, 5, 6, 8, 0), .with_lse = true},
};

double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*state >> 11) / 4503599627370496.0 - 1;
}

const int results[RESULTS] = {O, LSE, DQ, DK, DV, DADDITIVE, DSLOPES};

int64_t element_size(th_dtype dtype)
{
    return dtype == TH_FLOAT64 ? 8 : 4;
}

int64_t offset(const operand *x, int64_t b, int64_t h, int64_t g, int64_t row, int64_t column)
{
    const th_attention_array *v = &x->view;
    return b * v->leading[0] + h * v->leading[1] + g * v->leading[2] + row * v->row + column * v->column;
}

double get(const problem *p, int which, int64_t b, int64_t h, int64_t g, int64_t row, int64_t column)
{
    const operand *x = &p->operands[which];
    const int64_t at = offset(x, b, h, g, row, column);
    return p->dtype == TH_FLOAT64 ? ((const double *)x->view.data)[at] : (double)((const float *)x->view.data)[at];
}

void put_at(const problem *p, int which, int64_t at, double value)
{
    if (p->dtype == TH_FLOAT64)
        ((double *)p->operands[which].view.data)[at] = value;
    else
        ((float *)p->operands[which].view.data)[at] = (float)value;
}

/* Allocates an operand with these dimensions (1 if it is broadcast), row-major in the given order. */
static void make(problem *p, int which, dims d, const int *order)
{
    operand *x = &p->operands[which];
    int64_t strides[5], count = 1;
    for (int i = 4; i >= 0; i--) {
        strides[order[i]] = d.size[order[i]] == 1 ? 0 : count;
        count *= d.size[order[i]];
    }
    x->view =
        (th_attention_array){.leading = {strides[0], strides[1], strides[2]}, .row = strides[3], .column = strides[4]};
    x->count = count;
    x->owns = true;
    x->view.data = calloc((size_t)count + 1, 8);
    ck_assert_ptr_nonnull(x->view.data);
}

/* Makes an operand a view of another operand's memory, from element `first` on. */
static void share(problem *p, int which, int owner, int64_t first)
{
    p->operands[which] = p->operands[owner];
    p->operands[which].owns = false;
    p->operands[which].view.data = (char *)p->operands[owner].view.data + first * element_size(p->dtype);
}

static dims mask_dims(const problem *p, mask_shape shape)
{
    const bool item = shape == PER_ITEM, head = shape == PER_HEAD || item;
    return (dims){{item || shape == PER_KEY ? p->batch : 1, head ? p->heads : 1, head ? p->group : 1,
                   shape == PER_KEY ? 1 : p->queries, shape == PER_QUERY ? 1 : p->keys}};
}

static void fill(problem *p, int which, double low, double high)
{
    for (int64_t i = 0; i < p->operands[which].count; i++)
        put_at(p, which, i, low + (high - low) * (uniform(&random_state) + 1) / 2);
}

static void make_rows(problem *p)
{
    static const int in_order[5] = {0, 1, 2, 3, 4}, reversed[5] = {4, 3, 2, 1, 0}, packed[5] = {0, 3, 1, 2, 4};
    const int *order = p->c.layout == REVERSED ? reversed : p->c.layout == PACKED ? packed : in_order;
    const dims q = {{p->batch, p->heads, p->group, p->queries, p->width}},
               k = {{p->batch, p->heads, 1, p->keys, p->width}}, v = {{p->batch, p->heads, 1, p->keys, p->value_width}},
               o = {{p->batch, p->heads, p->group, p->queries, p->value_width}},
               row = {{p->batch, p->heads, p->group, p->queries, 1}};
    if (p->c.layout == PACKED) {
        const dims all = {{p->batch, 3 * p->heads, 1, p->queries, p->width}};
        for (int which = 0; which < 2; which++) {
            const int first = which ? DQ : Q;
            make(p, first, all, order);
            p->operands[first].view.leading[1] = p->width; /* also if there is one head */
            share(p, first + 1, first, p->heads * p->width);
            share(p, first + 2, first, 2 * p->heads * p->width);
        }
    } else {
        make(p, Q, q, order), make(p, K, k, order), make(p, V, v, order);
        make(p, DQ, q, order), make(p, DK, k, order), make(p, DV, v, order);
    }
    make(p, O, o, order), make(p, DO, o, order);
    make(p, LSE, row, in_order), make(p, DLSE, row, in_order);
    for (int which = Q; which <= V; which++)
        if (p->operands[which].owns)
            fill(p, which, -1.5, 1.5);
    fill(p, DO, -1, 1);
    fill(p, DLSE, -1, 1);
    for (int which = DQ; which <= DV; which++)
        if (p->operands[which].owns)
            fill(p, which, -1, 1); /* the values before the run; gradients are added to them */
    fill(p, O, 5, 6);
}

static void make_masks(problem *p)
{
    static const int in_order[5] = {0, 1, 2, 3, 4};
    if (p->c.lengths) {
        make(p, LENGTHS, (dims){{p->batch, 1, 1, p->c.lengths == 2 ? p->queries : 1, 1}}, in_order);
        for (int64_t i = 0; i < p->operands[LENGTHS].count; i++) {
            const int64_t length = i == 1 ? 0 : (int64_t)((uniform(&random_state) + 1) / 2 * (double)(p->keys + 1));
            if (p->c.lengths == 2)
                ((int64_t *)p->operands[LENGTHS].view.data)[i] = length;
            else
                ((int32_t *)p->operands[LENGTHS].view.data)[i] = (int32_t)length;
        }
    }
    if (p->c.positions) {
        make(p, POSITIONS, (dims){{p->c.positions == 2 ? p->batch : 1, 1, 1, p->queries, 1}}, in_order);
        for (int64_t i = 0; i < p->operands[POSITIONS].count; i++) {
            const bool far =
                i == 2 && !p->c.slopes; /* not with slopes: slope times this distance would exceed float32 */
            const int64_t position =
                far ? INT32_MAX : (int64_t)((uniform(&random_state) + 1) / 2 * (double)(p->keys + 9));
            if (p->c.positions == 2)
                ((int64_t *)p->operands[POSITIONS].view.data)[i] = position;
            else
                ((int32_t *)p->operands[POSITIONS].view.data)[i] = (int32_t)position;
        }
    }
    if (p->c.slopes) {
        const dims slopes = {{p->c.slopes == 2 ? p->batch : 1, p->heads, p->group, 1, 1}};
        make(p, SLOPES, slopes, in_order);
        make(p, DSLOPES, slopes, in_order);
        fill(p, SLOPES, 0.01, 0.3);
        fill(p, DSLOPES, -1, 1);
    }
    if (p->c.keep) {
        make(p, KEEP, mask_dims(p, p->c.keep), in_order);
        for (int64_t i = 0; i < p->operands[KEEP].count; i++)
            ((bool *)p->operands[KEEP].view.data)[i] = uniform(&random_state) < 0.2 && i / 11 % 5 != 2;
    }
    if (p->c.additive) {
        make(p, ADDITIVE, mask_dims(p, p->c.additive), in_order);
        make(p, DADDITIVE, mask_dims(p, p->c.additive), in_order);
        fill(p, ADDITIVE, -2, 2);
        fill(p, DADDITIVE, -1, 1);
        for (int64_t i = 0; i < p->operands[ADDITIVE].count; i++)
            if (uniform(&random_state) < -0.4)
                put_at(p, ADDITIVE, i, -INFINITY);
    }
}

problem *make_problem(const attention_case *c, th_dtype dtype)
{
    problem *p = calloc(1, sizeof *p);
    ck_assert_ptr_nonnull(p);
    *p = (problem){.c = *c,
                   .dtype = dtype,
                   .batch = c->batch,
                   .heads = c->heads,
                   .group = c->group,
                   .queries = c->queries,
                   .keys = c->keys,
                   .width = c->width,
                   .value_width = c->value_width};
    random_state = 12345;
    make_rows(p);
    make_masks(p);
    const operand *x = p->operands;
    p->attention = (th_attention){
        .dims = 3,
        .size = {p->batch, p->heads, p->group},
        .grouped = true,
        .queries = p->queries,
        .keys = p->keys,
        .width = p->width,
        .value_width = p->value_width,
        .scale = c->scale != 0 ? c->scale : 1 / sqrt((double)c->width),
        .q = x[Q].view,
        .k = x[K].view,
        .v = x[V].view,
        .o = x[O].view,
        .log_sum_exp = x[LSE].view,
        .band = {.causal = c->causal,
                 .window = c->window,
                 .left = c->left,
                 .right = c->right,
                 .position = c->bottom_right ? c->keys - c->queries : 0},
        .valid_lengths = x[LENGTHS].view,
        .valid_lengths_64 = c->lengths == 2,
        .positions = x[POSITIONS].view,
        .positions_64 = c->positions == 2,
        .keep = x[KEEP].view,
        .additive = x[ADDITIVE].view,
        .alibi = x[SLOPES].view,
        .soft_cap = c->soft_cap,
        .drops = c->dropout > 0,
        .dropout = th_dropout_mask_make((th_philox){{1, 2}, 3, 4}, c->dropout),
        .o_gradient = x[DO].view,
        .q_gradient = x[DQ].view,
        .wants_q = true,
        .k_gradient = x[DK].view,
        .v_gradient = x[DV].view,
        .additive_gradient = x[DADDITIVE].view,
        .alibi_gradient = x[DSLOPES].view,
        .add_q = c->add,
        .add_k = c->add,
        .add_v = c->add,
        .add_additive = c->add,
        .add_alibi = c->add,
    };
    if (c->with_lse)
        p->attention.log_sum_exp_gradient = x[DLSE].view;
    return p;
}

void free_problem(problem *p)
{
    for (int i = 0; i < OPERANDS; i++)
        if (p->operands[i].owns)
            free(p->operands[i].view.data);
    free(p);
}

/* Allocates a workspace of exactly this size, filled with NaN to detect reads of elements that were not written. */
static void *make_workspace(size_t bytes)
{
    void *space = memory_end(IN_WORKSPACE, bytes);
    memset(space, 0xff, bytes);
    return space;
}

void run_forward(problem *p, const th_machine *machine, int threads)
{
    th_attention_forward(machine, p->dtype, &p->attention, threads,
                         make_workspace(th_attention_forward_workspace(machine, p->dtype, &p->attention, threads)));
}

void run(problem *p, const th_machine *machine, int threads)
{
    run_forward(p, machine, threads);
    th_attention_backward(machine, p->dtype, &p->attention, threads,
                          make_workspace(th_attention_backward_workspace(machine, p->dtype, &p->attention, threads)));
}

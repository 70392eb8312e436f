/* The attention kernels against their definition in plain loops, and what their header promises besides: the same bits
 * for every team, batch and instruction set with fused multiply-add, and no bit that depends on a hidden pair. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "instances.h"
#include "kernels/attention.h"
#include "kernels/kernels.h"
#include "suite.h"

/* -- machines -- */

/* One for every instruction set that this processor has, the baseline first. */
static int machines(th_machine *list)
{
    int count = 0;
    for (int isa = BASELINE; isa < ISAS && supported(isa); isa++)
        list[count++] = machine_of(isa, 1);
    return count;
}

/* -- cases -- */

typedef enum mask_shape { NO_MASK, PER_KEY, PER_QUERY, PER_PAIR, PER_HEAD, PER_ITEM } mask_shape;
/* (B, 1, 1, S), (T, 1), (T, S), (H, T, S), (B, H, T, S) */

typedef enum layout {
    SEPARATE, /* (B, H, T, D) each */
    PACKED,   /* q, k, v in one (B, T, 3, H, D) buffer, o in (B, T, H, Dv), gradients alike: T = S, D = Dv, no groups */
    REVERSED  /* (D, T, H, B): columns far apart */
} layout;

typedef struct attention_case {
    const char *name;
    int64_t batch, heads, group; /* heads: of k and v; group: of q for each of those */
    int64_t queries, keys, width, value_width;
    bool causal, bottom_right, window;
    int64_t left, right;
    int lens;      /* 1: (B), 2: (B, T) */
    int positions; /* 1: (T), 2: (B, T) */
    mask_shape keep, additive;
    int slopes; /* 1: (H), 2: (B, H) */
    double dropout, scale, soft_cap;
    bool with_lse; /* has a cotangent */
    layout layout;
    bool add;
} attention_case;

#define SIZES(b, h, g, t, s, d, dv)                                                                                    \
    .batch = (b), .heads = (h), .group = (g), .queries = (t), .keys = (s), .width = (d), .value_width = (dv)

static const attention_case cases[] = {
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
    {"lens", SIZES(3, 2, 1, 17, 40, 8, 8), .lens = 1},
    {"lens per query", SIZES(3, 2, 1, 50, 40, 8, 8), .lens = 2, .with_lse = true},
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
     .window = true, .left = 40, .right = -1, .lens = 2, .keep = PER_KEY, .additive = PER_HEAD, .dropout = 0.2,
     .scale = 0.7, .with_lse = true, .add = true},
    {"packed", SIZES(2, 3, 1, 50, 50, 20, 20), .layout = PACKED, .causal = true},
    {"packed, added", SIZES(2, 3, 1, 50, 50, 32, 32), .layout = PACKED, .lens = 1, .add = true},
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
    {"places", SIZES(2, 2, 1, 50, 60, 8, 8), .positions = 1, .causal = true},
    {"places in each sequence", SIZES(3, 2, 2, 17, 300, 8, 8), .positions = 2, .causal = true, .with_lse = true},
    {"places and a window", SIZES(2, 2, 1, 60, 1100, 8, 8), .positions = 2, .causal = true, .window = true, .left = 30,
     .right = -1, .add = true},
    {"places and a window on both sides", SIZES(2, 1, 1, 60, 90, 8, 8), .positions = 1, .window = true, .left = 3,
     .right = 9},
    {"places of one query", SIZES(4, 2, 2, 1, 700, 20, 20), .positions = 2, .causal = true, .slopes = 1},
    {"all options", SIZES(2, 2, 2, 60, 290, 12, 20), .positions = 2, .causal = true, .window = true, .left = 70,
     .right = -1, .lens = 2, .keep = PER_KEY, .additive = PER_HEAD, .slopes = 2, .soft_cap = 1.5, .dropout = 0.2,
     .scale = 0.7, .with_lse = true, .add = true},
    {"no queries", SIZES(2, 2, 1, 0, 5, 8, 8), .additive = PER_KEY},
    {"no keys", SIZES(2, 2, 1, 5, 0, 8, 8), .with_lse = true},
    {"no keys, added", SIZES(2, 2, 1, 5, 0, 8, 8), .additive = PER_QUERY, .add = true},
    {"no items", SIZES(0, 2, 1, 5, 6, 8, 8), .additive = PER_PAIR},
    {"no width", SIZES(1, 2, 1, 5, 6, 0, 8), .scale = 1, .causal = true},
    {"no value width", SIZES(1, 2, 1, 5, 6, 8, 0), .with_lse = true},
};
enum { CASES = sizeof cases / sizeof *cases };

/* -- random numbers that can be repeated -- */

static uint64_t random_state;

static double uniform(void) /* (-1, 1) */
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(random_state >> 11) / 4503599627370496.0 - 1;
}

/* -- operands -- */

/* Memory and the view of it that the kernels get: exactly as large as it must be. */
typedef struct operand {
    th_attention_array view;
    int64_t count; /* elements of the memory */
    bool owns;
} operand;

enum { Q, K, V, O, LSE, LENS, POSITIONS, KEEP, ADDITIVE, SLOPES, DO, DLSE, DQ, DK, DV, DADDITIVE, DSLOPES, OPERANDS };
static const int results[] = {O, LSE, DQ, DK, DV, DADDITIVE, DSLOPES};
enum { RESULTS = sizeof results / sizeof *results };

typedef struct problem {
    attention_case c;
    th_dtype dtype;
    int64_t batch, heads, group, queries, keys, width, value_width;
    operand operands[OPERANDS];
    th_attention attention;
} problem;

static int64_t element_size(th_dtype dtype)
{
    return dtype == TH_FLOAT64 ? 8 : 4;
}

/* (B, heads of k, group, rows, columns), some of which an operand does not have. */
typedef struct dims {
    int64_t size[5];
} dims;

/* Offset of an element; leading dimension 0: B, 1: heads, 2: group. */
static int64_t offset(const operand *x, int64_t b, int64_t h, int64_t g, int64_t row, int64_t column)
{
    const th_attention_array *v = &x->view;
    return b * v->leading[0] + h * v->leading[1] + g * v->leading[2] + row * v->row + column * v->column;
}

static double get(const problem *p, int which, int64_t b, int64_t h, int64_t g, int64_t row, int64_t column)
{
    const operand *x = &p->operands[which];
    const int64_t at = offset(x, b, h, g, row, column);
    return p->dtype == TH_FLOAT64 ? ((const double *)x->view.data)[at] : (double)((const float *)x->view.data)[at];
}

static void put_at(const problem *p, int which, int64_t at, double value)
{
    if (p->dtype == TH_FLOAT64)
        ((double *)p->operands[which].view.data)[at] = value;
    else
        ((float *)p->operands[which].view.data)[at] = (float)value;
}

/* Memory of an operand with these dimensions (1 where it is broadcast), row-major in this order of them. */
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

/* A part of another operand's memory, `first` elements after its start. */
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
        put_at(p, which, i, low + (high - low) * (uniform() + 1) / 2);
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
            fill(p, which, -1, 1); /* what is there before */
    fill(p, O, 5, 6);
}

static void make_masks(problem *p)
{
    static const int in_order[5] = {0, 1, 2, 3, 4};
    if (p->c.lens) {
        make(p, LENS, (dims){{p->batch, 1, 1, p->c.lens == 2 ? p->queries : 1, 1}}, in_order);
        for (int64_t i = 0; i < p->operands[LENS].count; i++) {
            const int64_t length = i == 1 ? 0 : (int64_t)((uniform() + 1) / 2 * (double)(p->keys + 1));
            if (p->c.lens == 2)
                ((int64_t *)p->operands[LENS].view.data)[i] = length;
            else
                ((int32_t *)p->operands[LENS].view.data)[i] = (int32_t)length;
        }
    }
    if (p->c.positions) {
        make(p, POSITIONS, (dims){{p->c.positions == 2 ? p->batch : 1, 1, 1, p->queries, 1}}, in_order);
        for (int64_t i = 0; i < p->operands[POSITIONS].count; i++) {
            const bool far = i == 2 && !p->c.slopes; /* a slope that far is beyond float32 */
            const int64_t place = far ? INT32_MAX : (int64_t)((uniform() + 1) / 2 * (double)(p->keys + 9));
            if (p->c.positions == 2)
                ((int64_t *)p->operands[POSITIONS].view.data)[i] = place;
            else
                ((int32_t *)p->operands[POSITIONS].view.data)[i] = (int32_t)place;
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
            ((bool *)p->operands[KEEP].view.data)[i] = uniform() < 0.2 && i / 11 % 5 != 2;
    }
    if (p->c.additive) {
        make(p, ADDITIVE, mask_dims(p, p->c.additive), in_order);
        make(p, DADDITIVE, mask_dims(p, p->c.additive), in_order);
        fill(p, ADDITIVE, -2, 2);
        fill(p, DADDITIVE, -1, 1);
        for (int64_t i = 0; i < p->operands[ADDITIVE].count; i++)
            if (uniform() < -0.4)
                put_at(p, ADDITIVE, i, -INFINITY);
    }
}

static problem *make_problem(const attention_case *c, th_dtype dtype)
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
        .valid_lens = x[LENS].view,
        .valid_lens_64 = c->lens == 2,
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

static void free_problem(problem *p)
{
    for (int i = 0; i < OPERANDS; i++)
        if (p->operands[i].owns)
            free(p->operands[i].view.data);
    free(p);
}

/* A workspace full of NaN, so that what is not written is noticed. */
static void *make_workspace(size_t bytes)
{
    void *space = aligned_alloc(64, (bytes + 64) / 64 * 64);
    ck_assert_ptr_nonnull(space);
    memset(space, 0xff, bytes);
    return space;
}

static void run_forward(problem *p, const th_machine *machine, int threads)
{
    void *space = make_workspace(th_attention_forward_workspace(machine, p->dtype, &p->attention, threads));
    th_attention_forward(machine, p->dtype, &p->attention, threads, space);
    free(space);
}

static void run(problem *p, const th_machine *machine, int threads)
{
    run_forward(p, machine, threads);
    void *space = make_workspace(th_attention_backward_workspace(machine, p->dtype, &p->attention, threads));
    th_attention_backward(machine, p->dtype, &p->attention, threads, space);
    free(space);
}

/* -- the definition -- */

/* Where query t stands. */
static int64_t place_of(const problem *p, int64_t b, int64_t t)
{
    const operand *positions = &p->operands[POSITIONS];
    if (!positions->view.data)
        return t + p->attention.band.position;
    const int64_t i = offset(positions, b, 0, 0, t, 0);
    return p->attention.positions_64 ? ((const int64_t *)positions->view.data)[i]
                                     : ((const int32_t *)positions->view.data)[i];
}

static bool is_visible(const problem *p, int64_t b, int64_t h, int64_t g, int64_t t, int64_t s)
{
    const th_attention *a = &p->attention;
    const th_band *band = &a->band;
    const int64_t at = place_of(p, b, t);
    if (band->causal && s > at)
        return false;
    if (band->window && ((band->left >= 0 && band->left < 1 << 20 && s < at - band->left) ||
                         (band->right >= 0 && band->right < 1 << 20 && s > at + band->right)))
        return false;
    const operand *lens = &p->operands[LENS];
    if (lens->view.data) {
        const int64_t i = offset(lens, b, h, g, t, 0);
        if (s >= (a->valid_lens_64 ? ((const int64_t *)lens->view.data)[i] : ((const int32_t *)lens->view.data)[i]))
            return false;
    }
    if (a->keep.data && !((const bool *)a->keep.data)[offset(&p->operands[KEEP], b, h, g, t, s)])
        return false;
    return !a->additive.data || get(p, ADDITIVE, b, h, g, t, s) != -INFINITY;
}

static double multiplier(const problem *p, int64_t b, int64_t h, int64_t g, int64_t t, int64_t s)
{
    const th_attention *a = &p->attention;
    if (!a->drops)
        return 1;
    uint32_t words[4];
    const int64_t row = ((b * p->heads + h) * p->group + g) * p->queries + t;
    th_philox_block(&a->dropout.random, (uint32_t)(s / 4), (uint32_t)row, words);
    return words[s % 4] >= a->dropout.threshold ? a->dropout.scale : 0;
}

/* What each result should be, of the layout of the operand itself. */
typedef struct expected {
    double *value[OPERANDS];
} expected;

static double *expected_at(const problem *p, expected *e, int which, int64_t b, int64_t h, int64_t g, int64_t row,
                           int64_t column)
{
    return e->value[which] + offset(&p->operands[which], b, h, g, row, column);
}

static void define_row(const problem *p, expected *e, int64_t b, int64_t h, int64_t g, int64_t t, double *weight,
                       double *dz, double *slope)
{
    const th_attention *a = &p->attention;
    const int64_t place = place_of(p, b, t);
    double most = -INFINITY, sum = 0, dot = 0;
    bool any = false;
    for (int64_t s = 0; s < p->keys; s++) {
        if (!is_visible(p, b, h, g, t, s))
            continue;
        double z = 0;
        for (int64_t d = 0; d < p->width; d++)
            z += get(p, Q, b, h, g, t, d) * get(p, K, b, h, g, s, d);
        z *= a->scale;
        if (a->soft_cap > 0) {
            const double x = tanh(z / a->soft_cap);
            z = a->soft_cap * x;
            slope[s] = 1 - x * x;
        }
        if (a->alibi.data)
            z -= get(p, SLOPES, b, h, g, 0, 0) * fabs((double)(s - place));
        weight[s] = z + (a->additive.data ? get(p, ADDITIVE, b, h, g, t, s) : 0);
        most = fmax(most, weight[s]);
        any = true;
    }
    for (int64_t s = 0; s < p->keys; s++) {
        weight[s] = is_visible(p, b, h, g, t, s) ? exp(weight[s] - most) : 0;
        sum += weight[s];
    }
    const double lse = any ? most + log(sum) : -INFINITY;
    *expected_at(p, e, LSE, b, h, g, t, 0) = lse;
    for (int64_t d = 0; d < p->value_width; d++)
        *expected_at(p, e, O, b, h, g, t, d) = 0;
    for (int64_t s = 0; s < p->keys; s++) {
        weight[s] = any ? weight[s] / sum : 0;
        const double m = multiplier(p, b, h, g, t, s);
        dz[s] = 0;
        for (int64_t d = 0; d < p->value_width; d++) {
            *expected_at(p, e, O, b, h, g, t, d) += weight[s] * m * get(p, V, b, h, g, s, d);
            *expected_at(p, e, DV, b, h, g, s, d) += weight[s] * m * get(p, DO, b, h, g, t, d);
            dz[s] += m * get(p, DO, b, h, g, t, d) * get(p, V, b, h, g, s, d);
        }
        dot += weight[s] * dz[s];
    }
    for (int64_t s = 0; s < p->keys; s++) {
        dz[s] = weight[s] * (dz[s] - dot + (p->c.with_lse ? get(p, DLSE, b, h, g, t, 0) : 0));
        if (a->additive.data)
            *expected_at(p, e, DADDITIVE, b, h, g, t, s) += dz[s];
        if (a->alibi.data)
            *expected_at(p, e, DSLOPES, b, h, g, 0, 0) -= dz[s] * fabs((double)(s - place));
        const double dx = a->soft_cap > 0 && dz[s] != 0 ? dz[s] * slope[s] : dz[s];
        for (int64_t d = 0; d < p->width; d++) {
            *expected_at(p, e, DQ, b, h, g, t, d) += dx * a->scale * get(p, K, b, h, g, s, d);
            *expected_at(p, e, DK, b, h, g, s, d) += dx * a->scale * get(p, Q, b, h, g, t, d);
        }
    }
}

/* Before p is run: gradients start from what is there, or from 0. */
static expected define(const problem *p)
{
    expected e = {{NULL}};
    for (int i = 0; i < RESULTS; i++) {
        const int which = results[i];
        const operand *x = &p->operands[which];
        if (!x->owns)
            continue;
        e.value[which] = calloc((size_t)x->count + 1, sizeof(double));
        ck_assert_ptr_nonnull(e.value[which]);
        for (int64_t j = 0; p->c.add && which >= DQ && j < x->count; j++)
            e.value[which][j] =
                p->dtype == TH_FLOAT64 ? ((const double *)x->view.data)[j] : (double)((const float *)x->view.data)[j];
    }
    if (p->c.layout == PACKED) {
        e.value[DK] = e.value[DQ] + p->heads * p->width;
        e.value[DV] = e.value[DQ] + 2 * p->heads * p->width;
    }
    double *weight = calloc((size_t)p->keys + 1, 3 * sizeof(double));
    double *dz = weight + p->keys, *slope = dz + p->keys;
    ck_assert_ptr_nonnull(weight);
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t g = 0; g < p->group; g++)
                for (int64_t t = 0; t < p->queries; t++)
                    define_row(p, &e, b, h, g, t, weight, dz, slope);
    free(weight);
    return e;
}

static const char *const names[OPERANDS] = {"q",         "k",    "v",        "o",         "lse",    "lens",
                                            "positions", "keep", "additive", "slopes",    "do",     "dlse",
                                            "dq",        "dk",   "dv",       "dadditive", "dslopes"};

static void compare(const problem *p, const expected *e, const char *isa)
{
    for (int i = 0; i < RESULTS; i++) {
        const int which = results[i];
        const operand *x = &p->operands[which];
        if (!x->owns)
            continue;
        double largest = 1;
        for (int64_t j = 0; j < x->count; j++)
            if (isfinite(e->value[which][j]))
                largest = fmax(largest, fabs(e->value[which][j]));
        for (int64_t j = 0; j < x->count; j++) {
            const double value =
                p->dtype == TH_FLOAT64 ? ((const double *)x->view.data)[j] : (double)((const float *)x->view.data)[j];
            const double wanted = e->value[which][j];
            const double tolerance = (p->dtype == TH_FLOAT64 ? 1e-13 : 4e-6) * largest;
            if (value == wanted || fabs(value - wanted) <= tolerance)
                continue;
            ck_abort_msg("%s, %s, %s: %s[%d] is %.9g, not %.9g", p->c.name, isa,
                         p->dtype == TH_FLOAT64 ? "float64" : "float32", names[which], (int)j, value, wanted);
        }
    }
}

static void free_expected(const problem *p, expected *e)
{
    for (int i = 0; i < OPERANDS; i++)
        if (p->operands[i].owns)
            free(e->value[i]);
}

START_TEST(values_and_gradients_are_as_defined)
{
    static const char *const isas[] = {"baseline", "avx2", "avx512"};
    th_machine list[ISAS];
    const int count = machines(list);
    for (int dtype = 0; dtype < 2; dtype++)
        for (int m = 0; m < count; m++) {
            problem *p = make_problem(&cases[_i], dtype ? TH_FLOAT64 : TH_FLOAT32);
            expected e = define(p);
            run(p, &list[m], 1);
            compare(p, &e, isas[list[m].isa]);
            free_expected(p, &e);
            free_problem(p);
        }
}
END_TEST

/* -- bits -- */

static void assert_same_bits(const problem *a, const problem *b, const char *what)
{
    for (int i = 0; i < RESULTS; i++) {
        const operand *x = &a->operands[results[i]], *y = &b->operands[results[i]];
        if (x->owns)
            ck_assert_msg(memcmp(x->view.data, y->view.data, (size_t)(x->count * element_size(a->dtype))) == 0,
                          "%s: %s differs: %s", a->c.name, names[results[i]], what);
    }
}

START_TEST(bits_depend_on_no_team_and_no_instruction_set)
{
    th_machine list[ISAS];
    const int count = machines(list);
    for (int dtype = 0; dtype < 2; dtype++) {
        problem *first = NULL; /* with fused multiply-add */
        for (int m = 0; m < count; m++) {
            problem *alone = make_problem(&cases[_i], dtype ? TH_FLOAT64 : TH_FLOAT32);
            run(alone, &list[m], 1);
            for (int threads = 2; threads <= 4; threads++) {
                problem *p = make_problem(&cases[_i], alone->dtype);
                run(p, &list[m], threads);
                assert_same_bits(alone, p, "number of threads");
                free_problem(p);
            }
            if (list[m].isa == TH_ISA_BASELINE) {
                free_problem(alone);
                continue;
            }
            if (first) {
                assert_same_bits(first, alone, "instruction set");
                free_problem(alone);
            } else {
                first = alone;
            }
        }
        if (first)
            free_problem(first);
    }
}
END_TEST

/* Each sequence of a batch on its own. What sums over the batch (a broadcast mask's gradient) and what draws by row
 * number is left out. */
START_TEST(bits_depend_on_no_batch)
{
    const attention_case *c = &cases[_i];
    if (c->dropout > 0 || c->additive || c->slopes)
        return;
    th_machine list[ISAS];
    const int count = machines(list);
    for (int m = 0; m < count; m++) {
        problem *all = make_problem(c, TH_FLOAT32), *each = make_problem(c, TH_FLOAT32);
        run(all, &list[m], 2);
        for (int64_t b = 0; b < all->batch; b++) {
            problem one = *each;
            th_attention *a = &one.attention;
            th_attention_array *const arrays[] = {&a->q,
                                                  &a->k,
                                                  &a->v,
                                                  &a->o,
                                                  &a->log_sum_exp,
                                                  &a->o_gradient,
                                                  &a->log_sum_exp_gradient,
                                                  &a->q_gradient,
                                                  &a->k_gradient,
                                                  &a->v_gradient};
            for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
                if (arrays[i]->data)
                    arrays[i]->data = (char *)arrays[i]->data + b * arrays[i]->leading[0] * 4;
            if (a->valid_lens.data)
                a->valid_lens.data =
                    (char *)a->valid_lens.data + b * a->valid_lens.leading[0] * (a->valid_lens_64 ? 8 : 4);
            if (a->positions.data)
                a->positions.data = (char *)a->positions.data + b * a->positions.leading[0] * (a->positions_64 ? 8 : 4);
            if (a->keep.data)
                a->keep.data = (char *)a->keep.data + b * a->keep.leading[0];
            a->size[0] = 1;
            run(&one, &list[m], 2);
        }
        assert_same_bits(all, each, "batch");
        free_problem(all);
        free_problem(each);
    }
}
END_TEST

/* -- what is hidden -- */

/* Whether an element of a result may depend on row `row` of operand `planted` of item (b, h, g): only through a visible
 * pair. */
typedef struct plant {
    int operand;
    int64_t b, h, g, row;
} plant;

static bool row_sees_anything(const problem *p, int64_t b, int64_t h, int64_t g, int64_t t)
{
    for (int64_t s = 0; s < p->keys; s++)
        if (is_visible(p, b, h, g, t, s))
            return true;
    return false;
}

static bool query_depends(const problem *p, const plant *x, int64_t b, int64_t h, int64_t g, int64_t t)
{
    if (b != x->b || h != x->h)
        return false;
    if (x->operand == K || x->operand == V)
        return is_visible(p, b, h, g, t, x->row);
    return g == x->g && t == x->row && row_sees_anything(p, b, h, g, t);
}

/* Through a query that depends on it and sees s. */
static bool key_depends(const problem *p, const plant *x, int64_t b, int64_t h, int64_t s)
{
    for (int64_t g = 0; g < p->group; g++)
        for (int64_t t = 0; t < p->queries; t++)
            if (query_depends(p, x, b, h, g, t) && is_visible(p, b, h, g, t, s))
                return true;
    return false;
}

static void assert_same_element(const problem *p, const problem *q, int which, int64_t b, int64_t h, int64_t g,
                                int64_t row, int64_t columns, const plant *x)
{
    const int64_t size = element_size(p->dtype);
    for (int64_t j = 0; j < columns; j++) {
        const int64_t at = offset(&p->operands[which], b, h, g, row, j) * size;
        if (memcmp((char *)p->operands[which].view.data + at, (char *)q->operands[which].view.data + at,
                   (size_t)size) == 0)
            continue;
        ck_abort_msg("%s: %s (%d, %d, %d, %d, %d) depends on the hidden row %d of %s (%d, %d, %d): %.9g, %.9g",
                     p->c.name, names[which], (int)b, (int)h, (int)g, (int)row, (int)j, (int)x->row, names[x->operand],
                     (int)x->b, (int)x->h, (int)x->g, get(p, which, b, h, g, row, j), get(q, which, b, h, g, row, j));
    }
}

/* A query on its own, told where it stands, sees its keys as it does among all the others: what a cache of keys and
 * values lives on. (What it draws from dropout is another row's.) */
START_TEST(a_query_alone_has_the_same_bits)
{
    const attention_case *c = &cases[_i];
    if (c->dropout > 0 || c->queries < 2)
        return;
    th_machine list[ISAS];
    const int count = machines(list);
    for (int m = 0; m < 2 * count; m++) {
        const th_dtype dtype = m % 2 ? TH_FLOAT64 : TH_FLOAT32;
        problem *all = make_problem(c, dtype), *each = make_problem(c, dtype);
        run_forward(all, &list[m / 2], 1);
        int64_t *places = calloc((size_t)c->batch + 1, sizeof *places);
        ck_assert_ptr_nonnull(places);
        for (int64_t t = 0; t < c->queries; t += 1 + t / 7) {
            problem one = *each;
            th_attention *a = &one.attention;
            for (int64_t b = 0; b < c->batch; b++)
                places[b] = place_of(all, b, t);
            a->queries = 1;
            a->positions = (th_attention_array){.data = places, .leading = {1}};
            a->positions_64 = true;
            struct {
                th_attention_array *array;
                int64_t size;
            } rows[] = {{&a->q, element_size(dtype)},
                        {&a->o, element_size(dtype)},
                        {&a->log_sum_exp, element_size(dtype)},
                        {&a->valid_lens, a->valid_lens_64 ? 8 : 4},
                        {&a->keep, 1},
                        {&a->additive, element_size(dtype)}};
            for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                if (rows[i].array->data)
                    rows[i].array->data = (char *)rows[i].array->data + t * rows[i].array->row * rows[i].size;
            run_forward(&one, &list[m / 2], 1);
            for (int64_t b = 0; b < c->batch; b++)
                for (int64_t h = 0; h < c->heads; h++)
                    for (int64_t g = 0; g < c->group; g++) {
                        const plant self = {.operand = Q, .b = b, .h = h, .g = g, .row = t};
                        assert_same_element(all, each, O, b, h, g, t, c->value_width, &self);
                        assert_same_element(all, each, LSE, b, h, g, t, 1, &self);
                    }
        }
        free(places);
        free_problem(all);
        free_problem(each);
    }
}
END_TEST

static void compare_what_is_independent(const problem *p, const problem *q, const plant *x)
{
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++) {
            for (int64_t g = 0; g < p->group; g++)
                for (int64_t t = 0; t < p->queries; t++) {
                    if (query_depends(p, x, b, h, g, t))
                        continue;
                    assert_same_element(p, q, O, b, h, g, t, p->value_width, x);
                    assert_same_element(p, q, LSE, b, h, g, t, 1, x);
                    assert_same_element(p, q, DQ, b, h, g, t, p->width, x);
                    if (p->c.additive == PER_ITEM)
                        assert_same_element(p, q, DADDITIVE, b, h, g, t, p->keys, x);
                }
            for (int64_t s = 0; s < p->keys; s++) {
                if (key_depends(p, x, b, h, s))
                    continue;
                assert_same_element(p, q, DK, b, h, 0, s, p->width, x);
                assert_same_element(p, q, DV, b, h, 0, s, p->value_width, x);
            }
        }
}

static void plant_row(problem *p, const plant *x, double value)
{
    const int64_t columns = x->operand == Q || x->operand == K ? p->width : p->value_width;
    for (int64_t j = 0; j < columns; j++)
        if (j % 3 != 1)
            put_at(p, x->operand, offset(&p->operands[x->operand], x->b, x->h, x->g, x->row, j), value);
}

/* Once with something finite, once with something that is not. */
static void check_plant(const attention_case *c, const th_machine *machine, th_dtype dtype, const plant *x, double junk)
{
    problem *clean = make_problem(c, dtype), *dirty = make_problem(c, dtype);
    plant_row(clean, x, -3);
    plant_row(dirty, x, junk);
    run(clean, machine, 1);
    run(dirty, machine, 1);
    compare_what_is_independent(clean, dirty, x);
    free_problem(clean);
    free_problem(dirty);
}

START_TEST(hidden_numbers_change_no_bit)
{
    const attention_case *c = &cases[_i];
    if (c->batch * c->heads * c->queries * c->keys == 0 || c->queries * c->keys > 70 * 2100)
        return;
    static const double junk[] = {NAN, INFINITY, -INFINITY, -NAN};
    static const int operands[] = {Q, K, V, DO};
    th_machine list[ISAS];
    const int count = machines(list);
    random_state = 99;
    for (int i = 0; i < 12; i++) {
        const int which = operands[i % 4];
        const bool of_keys = which == K || which == V;
        const int64_t rows = of_keys ? c->keys : c->queries, group = of_keys ? 1 : c->group;
        const uint64_t state = random_state;
        plant x = {.operand = which};
        x.b = (int64_t)((uniform() + 1) / 2 * (double)c->batch);
        x.h = (int64_t)((uniform() + 1) / 2 * (double)c->heads);
        x.g = (int64_t)((uniform() + 1) / 2 * (double)group);
        x.row = i < 8 ? (int64_t)((uniform() + 1) / 2 * (double)rows) : i == 8 || !of_keys ? 0 : rows - 1;
        check_plant(c, &list[i % count], i % 5 == 4 ? TH_FLOAT64 : TH_FLOAT32, &x, junk[i / 4 % 4]);
        random_state = state * 2862933555777941757u + 3037000493u;
    }
}
END_TEST

/* A NaN that is seen does show. */
START_TEST(visible_nan_spreads)
{
    th_machine list[ISAS];
    const int count = machines(list);
    for (int m = 0; m < count; m++) {
        problem *p = make_problem(&cases[6], TH_FLOAT32); /* causal */
        plant_row(p, &(plant){.operand = V, .b = 1, .h = 1, .row = 40}, NAN);
        run(p, &list[m], 1);
        for (int64_t t = 0; t < p->queries; t++) {
            ck_assert_int_eq(isnan(get(p, O, 1, 1, 0, t, 0)) != 0, t >= 40);
            ck_assert(!isnan(get(p, O, 1, 1, 0, t, 1)));
            ck_assert_int_eq(isnan(get(p, DQ, 1, 1, 0, t, 0)) != 0, t >= 40);
        }
        free_problem(p);
        p = make_problem(&cases[6], TH_FLOAT32);
        plant_row(p, &(plant){.operand = DO, .row = 30}, NAN);
        run(p, &list[m], 1);
        for (int64_t s = 0; s < p->keys; s++)
            ck_assert_int_eq(isnan(get(p, DV, 0, 0, 0, s, 0)) != 0, s <= 30);
        free_problem(p);
    }
}
END_TEST

/* All of a row is +0. */
static bool row_is_0(const problem *p, int which, int64_t b, int64_t h, int64_t g, int64_t row, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++) {
        const double x = get(p, which, b, h, g, row, j);
        if (x != 0 || signbit(x))
            return false;
    }
    return true;
}

/* How many queries without keys there are; each is looked at. */
static int64_t check_queries_without_keys(const problem *p)
{
    int64_t count = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads; h++)
            for (int64_t g = 0; g < p->group; g++)
                for (int64_t t = 0; t < p->queries; t++) {
                    if (row_sees_anything(p, b, h, g, t))
                        continue;
                    count++;
                    const bool right = get(p, LSE, b, h, g, t, 0) == -INFINITY &&
                                       row_is_0(p, O, b, h, g, t, p->value_width) &&
                                       row_is_0(p, DQ, b, h, g, t, p->width);
                    if (!right)
                        ck_abort_msg("%s: query %d", p->c.name, (int)t);
                }
    return count;
}

START_TEST(queries_without_keys_are_exactly_0)
{
    th_machine list[ISAS];
    const int count = machines(list);
    for (int m = 0; m < count; m++) {
        int64_t found = 0;
        for (int i = 0; i < CASES; i++) {
            if (cases[i].add || cases[i].queries > 100 || cases[i].keys > 100)
                continue;
            problem *p = make_problem(&cases[i], TH_FLOAT32);
            run(p, &list[m], 2);
            found += check_queries_without_keys(p);
            free_problem(p);
        }
        ck_assert_int_ge(found, 100);
    }
}
END_TEST

/* The same visible pairs, told in four ways. */
START_TEST(kinds_of_mask_agree_bit_for_bit)
{
    static const attention_case base = {"kinds", SIZES(1, 2, 1, 60, 60, 16, 16)};
    th_machine list[ISAS];
    const int count = machines(list);
    for (int m = 0; m < count; m++) {
        attention_case c = base;
        c.causal = true;
        problem *causal = make_problem(&c, TH_FLOAT32);
        run(causal, &list[m], 1);
        for (int kind = 0; kind < 3; kind++) {
            c = base;
            c.lens = kind == 0 ? 2 : 0;
            c.keep = kind == 1 ? PER_PAIR : NO_MASK;
            c.additive = kind == 2 ? PER_PAIR : NO_MASK;
            problem *p = make_problem(&c, TH_FLOAT32);
            for (int64_t t = 0; t < 60; t++) {
                if (kind == 0)
                    ((int64_t *)p->attention.valid_lens.data)[t] = t + 1;
                for (int64_t s = 0; kind == 1 && s < 60; s++)
                    ((bool *)p->attention.keep.data)[t * 60 + s] = s <= t;
                for (int64_t s = 0; kind == 2 && s < 60; s++)
                    ((float *)p->attention.additive.data)[t * 60 + s] = s <= t ? 0 : -INFINITY;
            }
            run(p, &list[m], 1);
            if (p->operands[DADDITIVE].owns)
                free(p->operands[DADDITIVE].view.data); /* there is nothing to compare it with */
            p->operands[DADDITIVE].owns = false;
            assert_same_bits(causal, p, "kind of mask");
            free_problem(p);
        }
        free_problem(causal);
    }
}
END_TEST

/* Gradients that are not wanted change nothing in the others. */
START_TEST(each_gradient_alone)
{
    th_machine list[ISAS];
    const int count = machines(list);
    static const attention_case c = {"alone",
                                     SIZES(1, 2, 2, 60, 300, 16, 12),
                                     .causal = true,
                                     .bottom_right = true,
                                     .additive = PER_HEAD,
                                     .slopes = 1,
                                     .soft_cap = 3,
                                     .dropout = 0.2,
                                     .with_lse = true};
    for (int threads = 1; threads <= 3; threads += 2) {
        problem *all = make_problem(&c, TH_FLOAT32);
        run(all, &list[count - 1], threads);
        for (int which = DQ; which <= DSLOPES; which++) {
            problem *p = make_problem(&c, TH_FLOAT32);
            th_attention *a = &p->attention;
            th_attention_array *const arrays[] = {&a->q_gradient, &a->k_gradient, &a->v_gradient, &a->additive_gradient,
                                                  &a->alibi_gradient};
            for (int i = DQ; i <= DSLOPES; i++)
                if (i != which)
                    arrays[i - DQ]->data = NULL;
            run(p, &list[count - 1], threads);
            const operand *x = &all->operands[which];
            ck_assert_int_eq(memcmp(x->view.data, p->operands[which].view.data, (size_t)x->count * 4), 0);
            free_problem(p);
        }
        /* the log-sum-exp's cotangent alone: as with an output gradient of 0 */
        problem *zeros = make_problem(&c, TH_FLOAT32), *none = make_problem(&c, TH_FLOAT32);
        memset(zeros->operands[DO].view.data, 0, (size_t)zeros->operands[DO].count * 4);
        none->attention.o_gradient.data = NULL;
        run(zeros, &list[count - 1], threads);
        run(none, &list[count - 1], threads);
        assert_same_bits(zeros, none, "no output gradient");
        free_problem(zeros);
        free_problem(none);
        free_problem(all);
    }
}
END_TEST

START_TEST(long_sequences_need_little_memory)
{
    th_machine list[ISAS];
    const int count = machines(list);
    char memory[1];
    const th_attention_array given = {.data = memory};
    const th_attention a = {.dims = 2,
                            .size = {1, 1},
                            .queries = 4096,
                            .keys = 4096,
                            .width = 64,
                            .value_width = 64,
                            .band = {.causal = true},
                            .scale = 1,
                            .q = given,
                            .k = given,
                            .v = given,
                            .o = given,
                            .log_sum_exp = given,
                            .o_gradient = given,
                            .q_gradient = given,
                            .wants_q = true,
                            .k_gradient = given,
                            .v_gradient = given};
    for (int m = 0; m < count; m++) {
        ck_assert_uint_le(th_attention_forward_workspace(&list[m], TH_FLOAT32, &a, 2), 3 << 20);
        ck_assert_uint_le(th_attention_backward_workspace(&list[m], TH_FLOAT32, &a, 2), 6 << 20);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("attention kernels", NULL, NULL);
    tcase_add_loop_test(tests, values_and_gradients_are_as_defined, 0, CASES);
    tcase_add_loop_test(tests, a_query_alone_has_the_same_bits, 0, CASES);
    tcase_add_loop_test(tests, bits_depend_on_no_team_and_no_instruction_set, 0, CASES);
    tcase_add_loop_test(tests, bits_depend_on_no_batch, 0, CASES);
    tcase_add_loop_test(tests, hidden_numbers_change_no_bit, 0, CASES);
    tcase_add_test(tests, visible_nan_spreads);
    tcase_add_test(tests, queries_without_keys_are_exactly_0);
    tcase_add_test(tests, kinds_of_mask_agree_bit_for_bit);
    tcase_add_test(tests, each_gradient_alone);
    tcase_add_test(tests, long_sequences_need_little_memory);
    return run_suites();
}

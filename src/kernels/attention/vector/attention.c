/* The row kernels of attention: softmax with running sums, the gradient of the scores, recomputed weights. The drivers
 * (one folder up) provide rows, masks and buffers, and compute the matrix products with product_block.
 *
 * A buffer first has the products Q Kᵀ. A score is product * scale + additive, rounded once, for any kind of mask: the
 * same visible keys give the same bits, however masks describe them. With a soft cap, a loop over the buffer first
 * computes tanh(product * scale / soft_cap), and the scale of the scores is soft_cap. Lanes are counted from the first
 * column of the buffer, so that sums do not depend on masked columns. */
#include "kernels/attention/attention_rows.h"
#include "kernels/random/vector/philox.h"
#include "kernels/rows/vector/visible.h"
#include "kernels/vector/transpose.h"

enum {
    INTERLEAVED = 4,   /* registers of a row computed in turn, so that they do not wait for each other */
    MULTIPLIERS = 1024 /* of dropout, computed at a time; at least the columns of a buffer */
};

/* The weight of a masked pair. */
TH_INLINE vec masked_weight(void)
{
    return vec_broadcast((real)-0.0);
}

TH_INLINE int64_t lanes_down(int64_t x)
{
    return x / TH_LANES * TH_LANES;
}

/* -- 16 rows at a time, so that they do not wait for each other -- */

TH_INLINE vec add_or_max(vec a, vec b, bool add)
{
    if (add)
        return a + b;
    return vec_max(a, b);
}

/* Element i of the result is the sum of all lanes of row[i], in the order of lanes_sum, or their maximum. */
static __attribute__((noinline)) lanes reduce_rows(const lanes row[TH_LANES], bool add)
{
    lanes reduced;
    UNROLLED_FOR (int g = 0; g < TH_REGISTERS; g++) {
        vec column[TH_REGISTER_LANES];
        UNROLLED_FOR (int i = 0; i < TH_REGISTER_LANES; i++) {
            lanes x = row[g * TH_REGISTER_LANES + i];
            for (int half = TH_REGISTERS / 2; half > 0; half /= 2)
                for (int r = 0; r < half; r++)
                    x.vecs[r] = add_or_max(x.vecs[r], x.vecs[r + half], add);
            column[i] = x.vecs[0];
        }
        transpose_registers(column);
        UNROLLED_FOR (int half = TH_REGISTER_LANES / 2; half > 0; half /= 2)
            UNROLLED_FOR (int i = 0; i < half; i++)
                column[i] = add_or_max(column[i], column[i + half], add);
        reduced.vecs[g] = column[0];
    }
    return reduced;
}

/* -- scores -- */

/* Replaces the products X of visible columns, and of others in their lanes, by tanh(X scale / soft_cap). */
static void cap_products(const th_attention_rows *b)
{
    const vec scale_over_cap = vec_broadcast((real)(b->scale / b->soft_cap));
    for (int64_t r = 0; r < b->rows; r++) {
        real *products = (real *)b->scores + r * b->stride;
        for (int64_t x = lanes_down(b->keys[r].first); x < b->keys[r].past; x += TH_LANES)
            for (int v = 0; v < TH_LANES; v += TH_REGISTER_LANES)
                vec_store(products + x + v, vec_tanh(vec_load(products + x + v) * scale_over_cap));
    }
}

/* One row of scores, computed from products Q Kᵀ, and which of them are visible. */
typedef struct score_row {
    const real *products; /* with a soft cap, those of cap_products */
    th_visible_row visible;
    real scale; /* with a soft cap, soft_cap */
    real slope; /* 0: none */
    int64_t position;
} score_row;

TH_INLINE score_row score_row_of(const th_attention_rows *b, int64_t r)
{
    return (score_row){.products = (const real *)b->scores + r * b->stride,
                       .visible = {.keys = b->keys[r],
                                   .keep = b->keep ? b->keep + r * b->keep_row : NULL,
                                   .keep_stride = b->keep_column,
                                   .additive = b->additive ? (const real *)b->additive + r * b->additive_row : NULL,
                                   .additive_stride = b->additive_column},
                       .scale = (real)(b->soft_cap > 0 ? b->soft_cap : b->scale),
                       .slope = b->slope ? *(const real *)b->slope : 0,
                       .position = b->slope ? b->position[r] : 0};
}

/* scores - slope |column - position| */
TH_INLINE lanes subtract_alibi(const score_row *row, int64_t x, lanes scores)
{
    return lanes_mul_add(lanes_distance(x, row->position), lanes_broadcast(-row->slope), scores);
}

/* Returns the scores of columns x .. x + 15. Masked scores are -inf, even if the product is +inf or NaN. edge,
 * has_mask: `edge` and `masked` of visible_lanes. Only calls with has_mask have slopes. (Without an additive mask, 0 is
 * added: then no compiler contracts the product with the operation that follows.) */
TH_INLINE lanes scores_at(const score_row *row, int64_t x, bool edge, bool has_mask)
{
    lanes scores;
    const lane_mask visible = visible_lanes(&row->visible, x, edge, has_mask, &scores);
    const vec scale = vec_broadcast(row->scale);
    if (has_mask && row->slope != 0)
        scores = subtract_alibi(row, x, scores);
    for (int r = 0; r < TH_REGISTERS; r++)
        scores.vecs[r] = vec_load(row->products + x + r * TH_REGISTER_LANES) * scale + scores.vecs[r];
    return edge || has_mask ? where_visible(visible, scores, (real)-INFINITY) : scores;
}

TH_INLINE bool has_mask_or_slope(const th_attention_rows *b)
{
    return b->keep || b->additive || b->slope;
}

/* Returns x with masked elements replaced. Masked elements are those whose score is -inf. */
TH_INLINE lanes replace_masked(lanes scores, lanes x, vec replacement)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        x.vecs[r] = vec_select(scores.vecs[r] == vec_broadcast((real)-INFINITY), replacement, x.vecs[r]);
    return x;
}

/* -- forward -- */

/* Returns whether the row sees any key; tests them one by one. */
static bool sees_any_key(const score_row row)
{
    for (int64_t x = row.visible.keys.first; x < row.visible.keys.past; x++)
        if (is_visible(&row.visible, x))
            return true;
    return false;
}

/* Replaces the products of first .. past-1 by scores. The largest lane of the result is the largest score that is not
 * NaN, or -inf. */
TH_INLINE lanes store_scores(const score_row *row, real *to, bool has_mask)
{
    lanes largest[INTERLEAVED];
    for (int c = 0; c < INTERLEAVED; c++)
        largest[c] = lanes_broadcast((real)-INFINITY);
    for (int64_t x = lanes_down(row->visible.keys.first), step; x < row->visible.keys.past; x += step) {
        step = TH_LANES;
        if (is_at_edge(&row->visible, x)) {
            const lanes scores = scores_at(row, x, true, has_mask);
            lanes_store(to + x, scores);
            largest[0] = lanes_max(scores, largest[0]);
        } else if (x + INTERLEAVED * TH_LANES > row->visible.keys.past) {
            const lanes scores = scores_at(row, x, false, has_mask);
            lanes_store(to + x, scores);
            largest[0] = lanes_max(scores, largest[0]);
        } else {
            step = INTERLEAVED * TH_LANES;
            UNROLLED_FOR (int c = 0; c < INTERLEAVED; c++) {
                const lanes scores = scores_at(row, x + c * TH_LANES, false, has_mask);
                lanes_store(to + x + c * TH_LANES, scores);
                largest[c] = lanes_max(scores, largest[c]);
            }
        }
    }
    for (int c = 1; c < INTERLEAVED; c++)
        largest[0] = lanes_max(largest[c], largest[0]);
    return largest[0];
}

/* Replaces the scores of a row by exp(score - shift) times the multiplier, and returns the sums of exp(score - shift)
 * by lanes. multiplier begins at column begin; NULL: all are 1. */
TH_INLINE lanes store_weights(const th_attention_rows *b, const score_row *row, real *to, real shift,
                              const real *multiplier, bool has_mask)
{
    const lanes shifts = lanes_broadcast(shift);
    const vec masked = masked_weight();
    lanes sum = lanes_broadcast(0);
    for (int64_t x = b->begin; x < b->end; x += TH_LANES) {
        lanes weight;
        if (x + TH_LANES <= row->visible.keys.first || x >= row->visible.keys.past) {
            for (int r = 0; r < TH_REGISTERS; r++)
                weight.vecs[r] = masked;
        } else {
            const lanes scores = lanes_load(to + x);
            weight = lanes_exp(lanes_sub(scores, shifts));
            if (has_mask || is_at_edge(&row->visible, x))
                weight = replace_masked(scores, weight, masked);
            sum = lanes_add(sum, weight);
            if (multiplier)
                weight = lanes_mul(weight, lanes_load(multiplier + (x - b->begin)));
        }
        lanes_store(to + x, weight);
    }
    return sum;
}

/* The state of attention_softmax from one block of keys to the next. */
typedef struct running_softmax {
    real *maximum, *sum; /* (rows) */
    real *output;        /* (rows, width) */
    int64_t width, output_row;
    bool fresh;
} running_softmax;

/* Raises the maximum of a row, and rescales its earlier sums. */
TH_INLINE void raise_row_maximum(const running_softmax *state, int64_t r, real max)
{
    const real previous = state->maximum[r];
    const real factor = previous == (real)-INFINITY ? 0 : vec_exp(vec_broadcast(previous - max))[0];
    state->maximum[r] = max;
    if (factor == 1)
        return;
    state->sum[r] *= factor;
    const lanes factors = lanes_broadcast(factor);
    real *output = state->output + r * state->output_row;
    for (int64_t i = 0; i < state->width; i += TH_LANES)
        lanes_store(output + i, lanes_mul(lanes_load(output + i), factors));
}

/* Computes the dropout multipliers of columns begin .. end-1 of at most `max` rows from r. Returns the number of
 * rows. */
static int64_t make_multipliers(const th_attention_rows *b, int64_t r, int64_t max, real *multiplier)
{
    const int64_t columns = b->end - b->begin, rows_at_once = columns < MULTIPLIERS ? MULTIPLIERS / columns : 1;
    const int64_t rows = max < rows_at_once ? max : rows_at_once;
    dropout_multipliers(b->dropout, b->dropout_row + r, rows, b->dropout_column + b->begin, columns, multiplier,
                        columns);
    return rows;
}

/* Raises the maximum of some rows to their largest scores, and rescales their output. A row becomes NaN if it has
 * visible scores and all of them are -inf or NaN. */
TH_INLINE void raise_maxima(const th_attention_rows *b, const running_softmax *state, int64_t r, int64_t rows,
                            lanes largest)
{
    real max[TH_LANES];
    lanes_store(max, largest);
    for (int64_t i = 0; i < rows; i++) {
        if (max[i] == (real)-INFINITY && sees_any_key(score_row_of(b, r + i)))
            max[i] = (real)NAN;
        if (state->fresh) {
            state->maximum[r + i] = max[i];
            continue;
        }
        const real previous = state->maximum[r + i];
        raise_row_maximum(state, r + i, previous > max[i] || previous != previous ? previous : max[i]);
    }
}

/* Computes the weights of all rows. *b is a copy of *shared, so that the compiler may keep it in registers. has_mask:
 * there are masks or a slope to read. drops: there is dropout. */
TH_INLINE void softmax_rows(const th_attention_rows *b, const th_attention_rows *shared, const running_softmax *state,
                            bool has_mask, bool drops)
{
    real multiplier[MULTIPLIERS];
    for (int64_t r = 0; r < b->rows; r += TH_LANES) {
        const int64_t rows = b->rows - r < TH_LANES ? b->rows - r : TH_LANES;
        lanes row_lanes[TH_LANES]; /* of each row, before they are reduced */
        for (int64_t i = 0; i < rows; i++) {
            const score_row row = score_row_of(b, r + i);
            row_lanes[i] = store_scores(&row, (real *)b->scores + (r + i) * b->stride, has_mask);
        }
        for (int64_t i = rows; i < TH_LANES; i++)
            row_lanes[i] = lanes_broadcast(0);
        raise_maxima(b, state, r, rows, reduce_rows(row_lanes, false));
        int64_t multiplier_rows = 0, multiplier_first = 0; /* rows whose multipliers are computed */
        for (int64_t i = 0; i < rows; i++) {
            if (drops && i == multiplier_first + multiplier_rows) {
                multiplier_first = i;
                multiplier_rows = make_multipliers(shared, r + i, rows - i, multiplier);
            }
            const score_row row = score_row_of(b, r + i);
            row_lanes[i] =
                store_weights(b, &row, (real *)b->scores + (r + i) * b->stride, state->maximum[r + i],
                              drops ? multiplier + (i - multiplier_first) * (b->end - b->begin) : NULL, has_mask);
        }
        const lanes sum = reduce_rows(row_lanes, true);
        row_store_or_add(state->sum, r, b->rows, sum, !state->fresh);
    }
}

/* Turns products into weights relative to a running maximum: exp(score - maximum), with dropout. Updates maximum and
 * sum (rows), and rescales output (rows, width) to the new maximum. fresh: these three are not initialized yet. */
void TH_KERNEL(attention_softmax)(const th_attention_rows *b, bool fresh, void *maximum, void *sum, int64_t width,
                                  void *output, int64_t output_row)
{
    const running_softmax state = {maximum, sum, output, width, output_row, fresh};
    const th_attention_rows copy = *b;
    if (b->soft_cap > 0)
        cap_products(b);
    if (has_mask_or_slope(b))
        softmax_rows(&copy, b, &state, true, b->dropout != NULL);
    else if (b->dropout)
        softmax_rows(&copy, b, &state, false, true);
    else
        softmax_rows(&copy, b, &state, false, false);
}

/* -- backward -- */

/* The operands of one row of the gradient besides its products. */
typedef struct gradient_row {
    real log_sum_exp, delta, factor;
    bool capped;            /* multiply by the derivative of cap_products */
    real *pair_gradient;    /* dP, replaced by dS or scale dX; NULL: compute only the weights */
    const real *multiplier; /* begins at column begin; NULL: all are 1 */
} gradient_row;

/* 1 - tanh² */
TH_INLINE lanes tanh_derivative(lanes tanh)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        tanh.vecs[r] = vec_mul_add(-tanh.vecs[r], tanh.vecs[r], vec_broadcast(1));
    return tanh;
}

TH_INLINE void weight_and_gradient_at(const score_row *row, real *to, const gradient_row *g, const real *multiplier,
                                      int64_t x, bool edge, bool has_mask)
{
    const lanes scores = scores_at(row, x, edge, has_mask);
    lanes weight = lanes_exp(lanes_sub(scores, lanes_broadcast(g->log_sum_exp)));
    lanes gradient = weight;
    if (g->pair_gradient) {
        const lanes minus_delta = lanes_broadcast(-g->delta);
        gradient = lanes_load(g->pair_gradient + x);
        if (multiplier)
            gradient = lanes_mul_add(gradient, lanes_load(multiplier), minus_delta);
        else
            gradient = lanes_add(gradient, minus_delta);
        gradient = lanes_mul(lanes_mul(weight, gradient), lanes_broadcast(g->factor));
        if (g->capped)
            gradient = lanes_mul(gradient, tanh_derivative(lanes_load(row->products + x)));
        if (edge || has_mask)
            gradient = replace_masked(scores, gradient, vec_broadcast(0));
        lanes_store(g->pair_gradient + x, gradient);
    }
    if (edge || has_mask)
        weight = replace_masked(scores, weight, masked_weight());
    if (multiplier)
        weight = lanes_mul(weight, lanes_load(multiplier));
    lanes_store(to + x, weight);
}

TH_INLINE void store_weights_and_gradient(const th_attention_rows *b, const score_row *row, real *to,
                                          const gradient_row *g, bool has_mask)
{
    lanes masked;
    for (int r = 0; r < TH_REGISTERS; r++)
        masked.vecs[r] = masked_weight();
    for (int64_t x = b->begin; x < b->end; x += TH_LANES) {
        const real *multiplier = g->multiplier ? g->multiplier + (x - b->begin) : NULL;
        if (x + TH_LANES <= row->visible.keys.first || x >= row->visible.keys.past) {
            lanes_store(to + x, masked);
            if (g->pair_gradient)
                lanes_store(g->pair_gradient + x, lanes_broadcast(0));
        } else if (is_at_edge(&row->visible, x)) {
            weight_and_gradient_at(row, to, g, multiplier, x, true, has_mask);
        } else {
            weight_and_gradient_at(row, to, g, multiplier, x, false, has_mask);
        }
    }
}

TH_INLINE void gradient_rows(const th_attention_rows *b, const th_attention_rows *shared, const real *log_sum_exp,
                             const real *delta, bool of_products, real *pair_gradient, bool has_mask, bool drops,
                             bool capped)
{
    real multiplier[MULTIPLIERS];
    for (int64_t r = 0, rows_at_once; r < b->rows; r += rows_at_once) {
        rows_at_once = drops ? make_multipliers(shared, r, b->rows - r, multiplier) : b->rows;
        for (int64_t i = 0; i < rows_at_once; i++) {
            const score_row row = score_row_of(b, r + i);
            const gradient_row g = {.log_sum_exp = log_sum_exp[r + i],
                                    .delta = pair_gradient ? delta[r + i] : 0,
                                    .factor = of_products ? (real)b->scale : 1,
                                    .capped = capped && of_products,
                                    .pair_gradient = pair_gradient ? pair_gradient + (r + i) * b->stride : NULL,
                                    .multiplier = drops ? multiplier + i * (b->end - b->begin) : NULL};
            store_weights_and_gradient(b, &row, (real *)b->scores + (r + i) * b->stride, &g, has_mask);
        }
    }
}

/* Turns products into weights A = exp(S - log_sum_exp), with dropout. pair_gradient (rows, stride), or NULL, is dP = dO
 * Vᵀ. It is replaced by dS = A (multiplier dP - delta) or, of_products, by the gradient of the products; 0 where
 * masked. */
void TH_KERNEL(attention_gradient)(const th_attention_rows *b, const void *log_sum_exp, const void *delta,
                                   bool of_products, void *pair_gradient)
{
    const th_attention_rows copy = *b;
    const bool drops = b->dropout != NULL;
    const bool capped = b->soft_cap > 0;
    if (capped)
        cap_products(b);
    if (has_mask_or_slope(b))
        gradient_rows(&copy, b, log_sum_exp, delta, of_products, pair_gradient, true, drops, capped);
    else if (drops || capped || !pair_gradient) /* (separate: the most common case takes the fewest instructions) */
        gradient_rows(&copy, b, log_sum_exp, delta, of_products, pair_gradient, false, drops, capped);
    else
        gradient_rows(&copy, b, log_sum_exp, delta, of_products, pair_gradient, false, false, false);
}

/* The row kernels of attention: softmax with running sums, the gradient of the scores, recomputed weights. The drivers
 * (one folder up) provide rows, masks and buffers, and compute the matrix products with product_block.
 *
 * A logit is score * scale + additive, rounded once, for any kind of mask: the same visible keys give the same bits,
 * however masks describe them. Calls with a soft cap or slopes have separate code ("shaped"), so that other calls do
 * not pay for them. Lanes are counted from the first column of the buffer, so that sums do not depend on masked
 * columns. */
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
                    x.part[r] = add_or_max(x.part[r], x.part[r + half], add);
            column[i] = x.part[0];
        }
        transpose_registers(column);
        UNROLLED_FOR (int half = TH_REGISTER_LANES / 2; half > 0; half /= 2)
            UNROLLED_FOR (int i = 0; i < half; i++)
                column[i] = add_or_max(column[i], column[i + half], add);
        reduced.part[g] = column[0];
    }
    return reduced;
}

/* -- logits -- */

/* One row of scores, and which of them are visible. */
typedef struct score_row {
    const real *scores;
    th_visible_row visible;
    real scale;
    real cap, over_cap; /* soft_cap and scale / soft_cap; 0: none */
    real slope;         /* 0: none */
    int64_t position;
} score_row;

TH_INLINE score_row row_of(const th_attention_rows *b, int64_t r)
{
    return (score_row){.scores = (const real *)b->scores + r * b->stride,
                       .visible = {.keys = b->keys[r],
                                   .keep = b->keep ? b->keep + r * b->keep_row : NULL,
                                   .keep_stride = b->keep_column,
                                   .additive = b->additive ? (const real *)b->additive + r * b->additive_row : NULL,
                                   .additive_stride = b->additive_column},
                       .scale = (real)b->scale,
                       .cap = (real)b->soft_cap,
                       .over_cap = b->soft_cap > 0 ? (real)(b->scale / b->soft_cap) : 0,
                       .slope = b->slope ? *(const real *)b->slope : 0,
                       .position = b->slope ? b->position[r] : 0};
}

/* tanh(score scale / soft_cap) of columns x .. x + 15. */
TH_INLINE lanes capped(const score_row *row, int64_t x)
{
    lanes t;
    for (int r = 0; r < TH_REGISTERS; r++)
        t.part[r] = vec_tanh(vec_load(row->scores + x + r * TH_REGISTER_LANES) * vec_broadcast(row->over_cap));
    return t;
}

/* z - slope |column - position| */
TH_INLINE lanes less_slope(const score_row *row, int64_t x, lanes z)
{
    return lanes_mul_add(lanes_distance(x, row->position), lanes_broadcast(-row->slope), z);
}

/* Returns the logits of columns x .. x + 15. Masked logits are -inf, even if the score is +inf or NaN. edge, has_mask:
 * `edge` and `masked` of visible_lanes. shaped: there may be a slope and a soft cap; the tanh of the cap goes to *tanh.
 * (Without an additive mask, 0 is added: then no compiler contracts the product with the operation that follows.) */
TH_INLINE lanes logits(const score_row *row, int64_t x, bool edge, bool has_mask, bool shaped, lanes *tanh)
{
    lanes z;
    const lane_mask visible = visible_lanes(&row->visible, x, edge, has_mask, &z);
    const vec scale = vec_broadcast(row->scale);
    *tanh = lanes_broadcast(0);
    if (shaped && row->slope != 0)
        z = less_slope(row, x, z);
    if (shaped && row->cap > 0) {
        *tanh = capped(row, x);
        z = lanes_mul_add(*tanh, lanes_broadcast(row->cap), z);
    } else {
        for (int r = 0; r < TH_REGISTERS; r++)
            z.part[r] = vec_load(row->scores + x + r * TH_REGISTER_LANES) * scale + z.part[r];
    }
    return edge || has_mask ? where_visible(visible, z, (real)-INFINITY) : z;
}

TH_INLINE bool is_shaped(const th_attention_rows *b)
{
    return b->soft_cap > 0 || b->slope;
}

/* Returns x with masked elements replaced. Masked elements are those whose z is -inf. */
TH_INLINE lanes replace_masked(lanes z, lanes x, vec replacement)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        x.part[r] = vec_select(z.part[r] == vec_broadcast((real)-INFINITY), replacement, x.part[r]);
    return x;
}

/* -- forward -- */

/* Returns whether the row sees any key, tested one by one. */
static bool any_visible(const score_row row)
{
    for (int64_t x = row.visible.keys.first; x < row.visible.keys.past; x++)
        if (is_visible(&row.visible, x))
            return true;
    return false;
}

/* Replaces the scores of first .. past-1 by logits. The largest lane of the result is the largest logit that is not
 * NaN, or -inf. */
TH_INLINE lanes store_logits(const score_row *row, real *to, bool has_mask, bool shaped)
{
    lanes tanh;
    lanes largest[INTERLEAVED];
    for (int c = 0; c < INTERLEAVED; c++)
        largest[c] = lanes_broadcast((real)-INFINITY);
    for (int64_t x = lanes_down(row->visible.keys.first), step; x < row->visible.keys.past; x += step) {
        step = TH_LANES;
        if (at_edge(&row->visible, x)) {
            const lanes z = logits(row, x, true, has_mask, shaped, &tanh);
            lanes_store(to + x, z);
            largest[0] = lanes_max(z, largest[0]);
        } else if (x + INTERLEAVED * TH_LANES > row->visible.keys.past) {
            const lanes z = logits(row, x, false, has_mask, shaped, &tanh);
            lanes_store(to + x, z);
            largest[0] = lanes_max(z, largest[0]);
        } else {
            step = INTERLEAVED * TH_LANES;
            UNROLLED_FOR (int c = 0; c < INTERLEAVED; c++) {
                const lanes z = logits(row, x + c * TH_LANES, false, has_mask, shaped, &tanh);
                lanes_store(to + x + c * TH_LANES, z);
                largest[c] = lanes_max(z, largest[c]);
            }
        }
    }
    for (int c = 1; c < INTERLEAVED; c++)
        largest[0] = lanes_max(largest[c], largest[0]);
    return largest[0];
}

/* Replaces the logits of a row by exp(logit - shift) times the multiplier, and returns the sums of exp(logit - shift)
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
                weight.part[r] = masked;
        } else {
            const lanes z = lanes_load(to + x);
            weight = lanes_exp(lanes_sub(z, shifts));
            if (has_mask || at_edge(&row->visible, x))
                weight = replace_masked(z, weight, masked);
            sum = lanes_add(sum, weight);
            if (multiplier)
                weight = lanes_mul(weight, lanes_load(multiplier + (x - b->begin)));
        }
        lanes_store(to + x, weight);
    }
    return sum;
}

/* The state of attention_softmax from one block of keys to the next. */
typedef struct running {
    real *maximum, *sum; /* (rows) */
    real *output;        /* (rows, width) */
    int64_t width, output_row;
    bool fresh;
} running;

/* Raises the maximum of a row, and rescales its earlier sums. */
TH_INLINE void rescale(const running *state, int64_t r, real max)
{
    const real was = state->maximum[r];
    const real factor = was == (real)-INFINITY ? 0 : vec_exp(vec_broadcast(was - max))[0];
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
    const int64_t columns = b->end - b->begin, together = columns < MULTIPLIERS ? MULTIPLIERS / columns : 1;
    const int64_t rows = max < together ? max : together;
    dropout_multipliers(b->dropout, b->dropout_row + r, rows, b->dropout_column + b->begin, columns, multiplier,
                        columns);
    return rows;
}

/* Raises the maximum of some rows to their largest logits, and rescales their output. A row becomes NaN if it has
 * visible logits and all of them are -inf or NaN. */
TH_INLINE void raise_maximum(const th_attention_rows *b, const running *state, int64_t r, int64_t rows, lanes largest)
{
    real max[TH_LANES];
    lanes_store(max, largest);
    for (int64_t i = 0; i < rows; i++) {
        if (max[i] == (real)-INFINITY && any_visible(row_of(b, r + i)))
            max[i] = (real)NAN;
        if (state->fresh) {
            state->maximum[r + i] = max[i];
            continue;
        }
        const real was = state->maximum[r + i];
        rescale(state, r + i, was > max[i] || was != was ? was : max[i]);
    }
}

/* Computes the weights of all rows. *b is a copy of *shared, so that the compiler may keep it in registers. has_mask:
 * there are masks to read. drops: there is dropout. shaped: as in logits. */
TH_INLINE void softmax_rows(const th_attention_rows *b, const th_attention_rows *shared, const running *state,
                            bool has_mask, bool drops, bool shaped)
{
    real multiplier[MULTIPLIERS];
    for (int64_t r = 0; r < b->rows; r += TH_LANES) {
        const int64_t rows = b->rows - r < TH_LANES ? b->rows - r : TH_LANES;
        lanes part[TH_LANES]; /* of each row, before its lanes are reduced */
        for (int64_t i = 0; i < rows; i++) {
            const score_row row = row_of(b, r + i);
            part[i] = store_logits(&row, (real *)b->scores + (r + i) * b->stride, has_mask, shaped);
        }
        for (int64_t i = rows; i < TH_LANES; i++)
            part[i] = lanes_broadcast(0);
        raise_maximum(b, state, r, rows, reduce_rows(part, false));
        int64_t made = 0, made_from = 0; /* rows whose multipliers are computed */
        for (int64_t i = 0; i < rows; i++) {
            if (drops && i == made_from + made) {
                made_from = i;
                made = make_multipliers(shared, r + i, rows - i, multiplier);
            }
            const score_row row = row_of(b, r + i);
            part[i] = store_weights(b, &row, (real *)b->scores + (r + i) * b->stride, state->maximum[r + i],
                                    drops ? multiplier + (i - made_from) * (b->end - b->begin) : NULL, has_mask);
        }
        const lanes sum = reduce_rows(part, true);
        row_put(state->sum, r, b->rows, sum, !state->fresh);
    }
}

/* Turns scores into weights relative to a running maximum: exp(logit - maximum), with dropout. Updates maximum and sum
 * (rows), and rescales output (rows, width) to the new maximum. fresh: these three are not initialized yet. */
void TH_KERNEL(attention_softmax)(const th_attention_rows *b, bool fresh, void *maximum, void *sum, int64_t width,
                                  void *output, int64_t output_row)
{
    const running state = {maximum, sum, output, width, output_row, fresh};
    const th_attention_rows own = *b;
    if (is_shaped(b))
        softmax_rows(&own, b, &state, true, b->dropout != NULL, true);
    else if (b->keep || b->additive)
        softmax_rows(&own, b, &state, true, b->dropout != NULL, false);
    else if (b->dropout)
        softmax_rows(&own, b, &state, false, true, false);
    else
        softmax_rows(&own, b, &state, false, false, false);
}

/* -- backward -- */

/* The operands of one row of the gradient besides its scores. */
typedef struct gradient_row {
    real log_sum_exp, delta, factor;
    bool of_scores;         /* multiply by the cap's derivative */
    real *gradient;         /* dL/d weight, replaced by dL/d logit * factor; NULL: compute only the weights */
    const real *multiplier; /* begins at column begin; NULL: all are 1 */
} gradient_row;

TH_INLINE void gradient_at(const score_row *row, real *to, const gradient_row *g, const real *multiplier, int64_t x,
                           bool edge, bool has_mask, bool shaped)
{
    lanes tanh;
    const lanes z = logits(row, x, edge, has_mask, shaped, &tanh);
    lanes weight = lanes_exp(lanes_sub(z, lanes_broadcast(g->log_sum_exp)));
    lanes gradient = weight;
    if (g->gradient) {
        const lanes minus_delta = lanes_broadcast(-g->delta);
        gradient = lanes_load(g->gradient + x);
        if (multiplier)
            gradient = lanes_mul_add(gradient, lanes_load(multiplier), minus_delta);
        else
            gradient = lanes_add(gradient, minus_delta);
        gradient = lanes_mul(lanes_mul(weight, gradient), lanes_broadcast(g->factor));
        if (shaped && row->cap > 0 && g->of_scores)
            for (int r = 0; r < TH_REGISTERS; r++)
                gradient.part[r] *= vec_mul_add(-tanh.part[r], tanh.part[r], vec_broadcast(1));
        if (edge || has_mask)
            gradient = replace_masked(z, gradient, vec_broadcast(0));
        lanes_store(g->gradient + x, gradient);
    }
    if (edge || has_mask)
        weight = replace_masked(z, weight, masked_weight());
    if (multiplier)
        weight = lanes_mul(weight, lanes_load(multiplier));
    lanes_store(to + x, weight);
}

TH_INLINE void store_gradient(const th_attention_rows *b, const score_row *row, real *to, const gradient_row *g,
                              bool has_mask, bool shaped)
{
    lanes masked;
    for (int r = 0; r < TH_REGISTERS; r++)
        masked.part[r] = masked_weight();
    for (int64_t x = b->begin; x < b->end; x += TH_LANES) {
        const real *multiplier = g->multiplier ? g->multiplier + (x - b->begin) : NULL;
        if (x + TH_LANES <= row->visible.keys.first || x >= row->visible.keys.past) {
            lanes_store(to + x, masked);
            if (g->gradient)
                lanes_store(g->gradient + x, lanes_broadcast(0));
        } else if (at_edge(&row->visible, x)) {
            gradient_at(row, to, g, multiplier, x, true, has_mask, shaped);
        } else {
            gradient_at(row, to, g, multiplier, x, false, has_mask, shaped);
        }
    }
}

TH_INLINE void gradient_rows(const th_attention_rows *b, const th_attention_rows *shared, const real *log_sum_exp,
                             const real *delta, bool of_scores, real *gradient, bool has_mask, bool drops, bool shaped)
{
    real multiplier[MULTIPLIERS];
    for (int64_t r = 0, together; r < b->rows; r += together) {
        together = drops ? make_multipliers(shared, r, b->rows - r, multiplier) : b->rows;
        for (int64_t i = 0; i < together; i++) {
            const score_row row = row_of(b, r + i);
            const gradient_row g = {.log_sum_exp = log_sum_exp[r + i],
                                    .delta = gradient ? delta[r + i] : 0,
                                    .factor = of_scores ? (real)b->scale : 1,
                                    .of_scores = of_scores,
                                    .gradient = gradient ? gradient + (r + i) * b->stride : NULL,
                                    .multiplier = drops ? multiplier + i * (b->end - b->begin) : NULL};
            store_gradient(b, &row, (real *)b->scores + (r + i) * b->stride, &g, has_mask, shaped);
        }
    }
}

/* Turns scores into weights exp(logit - log_sum_exp), with dropout. gradient (rows, stride), or NULL, is the product dP
 * = dO vᵀ. It is replaced by the gradient of the logits, weight (multiplier dP - delta), or, of_scores, by the gradient
 * of the scores; 0 where masked. */
void TH_KERNEL(attention_gradient)(const th_attention_rows *b, const void *log_sum_exp, const void *delta,
                                   bool of_scores, void *gradient)
{
    const th_attention_rows own = *b;
    const bool drops = b->dropout != NULL;
    if (is_shaped(b))
        gradient_rows(&own, b, log_sum_exp, delta, of_scores, gradient, true, drops, true);
    else if (b->keep || b->additive)
        gradient_rows(&own, b, log_sum_exp, delta, of_scores, gradient, true, drops, false);
    else if (drops || !gradient) /* (separate, so that the most common case takes the fewest instructions) */
        gradient_rows(&own, b, log_sum_exp, delta, of_scores, gradient, false, drops, false);
    else
        gradient_rows(&own, b, log_sum_exp, delta, of_scores, gradient, false, false, false);
}

/* Exercise 10: the right results, the checks, and typical mistakes (marker.h). */
#include <math.h>

#include "marker.h"

enum { SCORES, V, TILE = 4 };

static th_tensor *unmasked(const scene *s)
{
    return th_greater(s->input[SCORES], th_full(s->ctx, TH_FLOAT64, TH_SHAPE(1), -INFINITY));
}

static th_tensor *weights(const scene *s)
{
    return th_masked_softmax(s->input[SCORES], &(th_mask){.keep = unmasked(s)});
}

static void compute(scene *s)
{
    s->output[0] = th_masked_matmul(weights(s), s->input[V], unmasked(s), TH_MASK_LEFT);
    s->output[1] = th_log_sum_exp(s->input[SCORES], TH_AXES(1), NULL);
}

/* -- mistakes: every term of a sum has a maximum in its exponent; each mistake leaves another one there -- */

typedef enum reference {
    LARGEST, /* the right one: the largest score of the row */
    SO_FAR,  /* the largest score up to the end of the term's tile: later maxima do not correct the term */
    OF_TILE, /* the largest score of the term's tile */
    TWICE,   /* twice SO_FAR, minus LARGEST: corrections have the opposite sign */
    FIRST,   /* only the first tile counts */
    LAST     /* only the last tile counts */
} reference;

static double largest(const double *score, int64_t first, int64_t end)
{
    double maximum = -INFINITY;
    for (int64_t j = first; j < end; j++)
        maximum = fmax(maximum, score[j]);
    return maximum;
}

/* Returns the term of key j of a row of S scores. */
static double term(const double *score, int64_t j, int64_t S, reference which)
{
    const int64_t first = j / TILE * TILE, end = first + TILE < S ? first + TILE : S;
    const double all = largest(score, 0, S), so_far = largest(score, 0, end);
    if (score[j] == -INFINITY || (which == FIRST && first > 0) || (which == LAST && end < S))
        return 0;
    switch (which) {
    case SO_FAR:
        return exp(score[j] - so_far);
    case OF_TILE:
        return exp(score[j] - largest(score, first, end));
    case TWICE:
        return exp(score[j] - 2 * so_far + all);
    default:
        return exp(score[j] - all);
    }
}

/* Returns the output if the terms of the output and of the sum have these maxima. */
static th_tensor *output_with(const scene *s, reference of_output, reference of_sum)
{
    const int64_t T = th_size(s->input[SCORES], 0), S = th_size(s->input[SCORES], 1), D = th_size(s->input[V], 1);
    const double *score = th_data_const(s->input[SCORES]), *v = th_data_const(s->input[V]);
    th_tensor *output = th_zeros(s->ctx, TH_FLOAT64, TH_SHAPE(T, D));
    double *o = th_data(output);
    for (int64_t t = 0; t < T; t++, score += S, o += D) {
        double sum = 0;
        for (int64_t j = 0; j < S; j++) {
            const double weight = term(score, j, S, of_output);
            sum += term(score, j, S, of_sum);
            for (int64_t d = 0; d < D && weight > 0; d++)
                o[d] += weight * v[j * D + d];
        }
        for (int64_t d = 0; d < D && sum > 0; d++)
            o[d] /= sum;
    }
    return output;
}

static th_tensor *nothing_corrected(const scene *s)
{
    return output_with(s, SO_FAR, SO_FAR);
}

static th_tensor *sum_stays(const scene *s)
{
    return output_with(s, LARGEST, SO_FAR);
}

static th_tensor *output_stays(const scene *s)
{
    return output_with(s, SO_FAR, LARGEST);
}

static th_tensor *tile_maximum(const scene *s)
{
    return output_with(s, OF_TILE, OF_TILE);
}

static th_tensor *opposite_correction(const scene *s)
{
    return output_with(s, TWICE, TWICE);
}

static th_tensor *first_tile(const scene *s)
{
    return output_with(s, FIRST, FIRST);
}

static th_tensor *last_tile(const scene *s)
{
    return output_with(s, LAST, LAST);
}

/* -- mistakes in the order of the steps: the lines of the solution, with one change -- */

typedef enum change { CORRECTED_AFTER, SUM_RESET, OUTPUT_RESET, VALUES_IN_SUM, KEYS_COUNTED, ASSIGNED } change;

/* Adds key j to the sum and the output of a query. */
static void add_key(double weight, const double *v, int64_t D, change which, double *sum, double *o)
{
    *sum += which == VALUES_IN_SUM ? 0 : which == KEYS_COUNTED ? 1 : weight;
    for (int64_t d = 0; d < D; d++) {
        *sum += which == VALUES_IN_SUM ? weight * v[d] : 0;
        o[d] = (which == ASSIGNED ? 0 : o[d]) + weight * v[d];
    }
}

static void correct(double correction, int64_t D, double *sum, double *o)
{
    *sum *= correction;
    for (int64_t d = 0; d < D; d++)
        o[d] *= correction;
}

/* Computes the output of one query. */
static void row_with(const double *score, const double *v, int64_t S, int64_t D, change which, double *o)
{
    double maximum = -INFINITY, sum = 0;
    for (int64_t first = 0; first < S; first += TILE) {
        const int64_t end = first + TILE < S ? first + TILE : S;
        const double larger = fmax(maximum, largest(score, first, end)), correction = exp(maximum - larger);
        if (larger == -INFINITY)
            continue;
        maximum = larger;
        if (which != CORRECTED_AFTER)
            correct(correction, D, &sum, o);
        sum = which == SUM_RESET ? 0 : sum;
        for (int64_t d = 0; d < D && which == OUTPUT_RESET; d++)
            o[d] = 0;
        for (int64_t j = first; j < end; j++) {
            const double weight = exp(score[j] - maximum);
            if (score[j] > -INFINITY)
                add_key(weight, v + j * D, D, which, &sum, o);
        }
        if (which == CORRECTED_AFTER)
            correct(correction, D, &sum, o);
    }
    for (int64_t d = 0; d < D && sum > 0; d++)
        o[d] /= sum;
}

static th_tensor *changed(const scene *s, change which)
{
    const int64_t T = th_size(s->input[SCORES], 0), S = th_size(s->input[SCORES], 1), D = th_size(s->input[V], 1);
    const double *score = th_data_const(s->input[SCORES]), *v = th_data_const(s->input[V]);
    th_tensor *output = th_zeros(s->ctx, TH_FLOAT64, TH_SHAPE(T, D));
    double *o = th_data(output);
    for (int64_t t = 0; t < T; t++)
        row_with(score + t * S, v, S, D, which, o + t * D);
    return output;
}

static th_tensor *corrected_after(const scene *s)
{
    return changed(s, CORRECTED_AFTER);
}

static th_tensor *sum_reset(const scene *s)
{
    return changed(s, SUM_RESET);
}

static th_tensor *output_reset(const scene *s)
{
    return changed(s, OUTPUT_RESET);
}

static th_tensor *values_in_sum(const scene *s)
{
    return changed(s, VALUES_IN_SUM);
}

static th_tensor *keys_counted(const scene *s)
{
    return changed(s, KEYS_COUNTED);
}

static th_tensor *assigned(const scene *s)
{
    return changed(s, ASSIGNED);
}

static th_tensor *maximum_stays(const scene *s)
{
    const double *score = th_data_const(s->input[SCORES]);
    if (largest(score, 0, th_numel(s->input[SCORES])) > 700) /* exp overflows: log_sum is not a number */
        return NULL;
    return th_full(s->ctx, TH_FLOAT64, TH_SHAPE(th_size(s->input[SCORES], 0)), -INFINITY);
}

#define NOT_A_NUMBER                                                                                                   \
    "o is not a number: subtract a maximum that is at least the old one and each score of the tile; skip keys whose "  \
    "score is -INFINITY, and tiles that have no other keys"

static const mark_mistake mistakes[] = {
    {OUTPUT(0), "neither sum nor o is corrected when a tile raises the maximum", nothing_corrected},
    {OUTPUT(0), "sum is not corrected when a tile raises the maximum", sum_stays},
    {OUTPUT(0), "o is not corrected when a tile raises the maximum", output_stays},
    {OUTPUT(0), "each tile uses its own maximum: keep the larger one of the old maximum and the tile's", tile_maximum},
    {OUTPUT(0), "the correction has the opposite sign: it is exp(old maximum - new maximum)", opposite_correction},
    {OUTPUT(0), "o contains the first tile only", first_tile},
    {OUTPUT(0), "o contains the last tile only: add to sum and o", last_tile},
    {OUTPUT(0), NOT_A_NUMBER, NULL},
    {OUTPUT(1), "log_sum is maximum + log(sum), and -infinity: your lines must also raise maximum", maximum_stays},
    {OUTPUT(0),
     "the terms of the tile are corrected too: correct sum and o before you add the tile, whose terms have the new "
     "maximum",
     corrected_after},
    {OUTPUT(0), "sum begins at 0 in each tile, but it must contain the tiles before", sum_reset},
    {OUTPUT(0), "o begins at 0 in each tile, but it must contain the tiles before", output_reset},
    {OUTPUT(0), "sum adds the weights times v, but it must add the weights alone", values_in_sum},
    {OUTPUT(0), "sum counts the keys, but it must add exp(score - maximum)", keys_counted},
    {OUTPUT(0), "o has the last key only: use +=", assigned},
    {.sentence = NULL},
};

#define SIZES(T, S, D)                                                                                                 \
    {.shape = TH_SIZES(T, S), .low = -3, .high = 3},                                                                   \
    {                                                                                                                  \
        .shape = TH_SIZES(S, D)                                                                                        \
    }
#define MASK -INFINITY
static const double rising[] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, falling[] = {8, 7, 6, 5, 4, 3, 2, 1, 0};
static const double masked[] = {1, MASK, 2, 0, MASK, MASK, 1, 3, MASK, 0, 1, 1, MASK, MASK, 2, MASK};
static const double masked_v[] = {1, 2, 3, 4, 5, 6, 7, 8};
static const double first_hidden[] = {MASK, MASK, MASK, MASK, 1, 2, MASK, MASK, MASK, MASK, 3};
static const double hidden_v[] = {NAN, INFINITY, NAN, NAN, 1, -2, NAN, INFINITY, NAN, NAN, 3};
static const double none[] = {MASK, MASK, MASK, MASK, MASK, MASK};
static const double large[] = {3000, 2999, 2998, -1000, 1000, 900, 0, -5000, 3001}; /* falls far, then rises */
#define FIVE(x) x, x + 90, x + 180, x + 270, x + 360
/* Without the maximum of the last tiles, exp overflows. */
static const double steep[] = {FIVE(0),    FIVE(450),  FIVE(900),  FIVE(1350),
                               FIVE(1800), FIVE(2250), FIVE(2700), FIVE(3150)};

static const mark_check checks[] = {
    {.name = "one tile", .input = {SIZES(2, 4, 2)}},
    {.name = "random numbers", .input = {SIZES(3, 14, 3)}},
    {.name = "rising scores", .input = {SIZES(1, 9, 2)}, .values = {rising}},
    {.name = "falling scores", .input = {SIZES(1, 9, 2)}, .values = {falling}},
    {.name = "masked keys", .input = {SIZES(2, 8, 1)}, .values = {masked, masked_v}},
    {.name = "masked tiles with NaN in v", .input = {SIZES(1, 11, 1)}, .values = {first_hidden, hidden_v}},
    {.name = "all keys masked", .input = {SIZES(1, 6, 2)}, .values = {none}},
    {.name = "strided memory", .input = {SIZES(2, 6, 3)}, .strided = true},
    {.name = "large scores", .input = {SIZES(1, 9, 2)}, .values = {large}},
    {.name = "no keys", .input = {SIZES(2, 0, 2)}},
    {.name = LARGE, .input = {SIZES(LONG, LONG + 1, LONG + 2)}},
    {.name = "a long row of rising scores", .input = {SIZES(1, 40, 2)}, .values = {steep}},
    {.name = NULL},
};

const mark_subject running_subject = {
    .name = "running_softmax",
    .title = "attention in tiles with a running softmax",
    .n_inputs = 2,
    .n_outputs = 2,
    .input_name = {"s", "v"},
    .output_name = {"o", "log_sum"},
    .compute = compute,
    .checks = checks,
    .mistakes = mistakes,
    .step = {{"the weights p", weights}},
};

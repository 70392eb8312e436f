/* Exercise 7: the right results, the checks, and typical mistakes (marker.h). */
#include "marker.h"

enum { TABLE, TOKEN };

static void compute(scene *s)
{
    s->output[0] = th_embedding(s->input[TABLE], s->input[TOKEN]);
}

/* Returns a gradient: occurrence n contributes with this factor. If the factor is negative, occurrence n replaces
 * the earlier ones. */
typedef double factor_of(const int64_t *token, int64_t n, int64_t N);
static th_tensor *gradient_with(const scene *s, factor_of *factor)
{
    const int64_t N = th_numel(s->input[TOKEN]), E = th_size(s->input[TABLE], 1);
    const int64_t *token = th_data_const(s->input[TOKEN]);
    const double *dy = th_data_const(s->dy);
    th_tensor *gradient = th_zeros(s->ctx, TH_FLOAT64, th_shape_of(s->input[TABLE]));
    double *d = th_data(gradient);
    for (int64_t n = 0; n < N; n++)
        for (int64_t e = 0; e < E; e++) {
            const double f = factor(token, n, N);
            double *element = &d[token[n] * E + e];
            *element = f < 0 ? dy[n * E + e] : *element + f * dy[n * E + e];
        }
    return gradient;
}

static double replaces(const int64_t *token, int64_t n, int64_t N)
{
    (void)token, (void)n, (void)N;
    return -1;
}

static double first_only(const int64_t *token, int64_t n, int64_t N)
{
    (void)N;
    for (int64_t i = 0; i < n; i++)
        if (token[i] == token[n])
            return 0;
    return 1;
}

static double mean(const int64_t *token, int64_t n, int64_t N)
{
    int64_t count = 0;
    for (int64_t i = 0; i < N; i++)
        count += token[i] == token[n];
    return 1 / (double)count;
}

static int64_t rows; /* V */
static double in_table(const int64_t *token, int64_t n, int64_t N)
{
    (void)token, (void)N;
    return n < rows;
}

/* Marks the elements of rows that no token uses as not written. */
static th_tensor *used_rows(const scene *s, th_tensor *gradient)
{
    const int64_t N = th_numel(s->input[TOKEN]), E = th_size(s->input[TABLE], 1);
    const int64_t *token = th_data_const(s->input[TOKEN]);
    double *d = th_data(gradient);
    for (int64_t i = 0; i < th_numel(gradient); i++) {
        bool used = false;
        for (int64_t n = 0; n < N; n++)
            used = used || token[n] == i / E;
        d[i] = used ? d[i] : UNWRITTEN;
    }
    return gradient;
}

static th_tensor *last_occurrence(const scene *s)
{
    th_tensor *gradient = gradient_with(s, replaces);
    return s->add ? used_rows(s, gradient) : gradient;
}

static th_tensor *first_occurrence(const scene *s)
{
    return gradient_with(s, first_only);
}

static th_tensor *mean_of_occurrences(const scene *s)
{
    return gradient_with(s, mean);
}

static th_tensor *first_positions(const scene *s)
{
    rows = th_size(s->input[TABLE], 0);
    return gradient_with(s, in_table);
}

/* Row n of the table gets the gradient of position n. */
static th_tensor *by_position(const scene *s)
{
    const int64_t N = th_numel(s->input[TOKEN]), V = th_size(s->input[TABLE], 0), E = th_size(s->input[TABLE], 1);
    const double *dy = th_data_const(s->dy);
    th_tensor *gradient = th_zeros(s->ctx, TH_FLOAT64, th_shape_of(s->input[TABLE]));
    double *d = th_data(gradient);
    for (int64_t i = 0; i < (N < V ? N : V) * E; i++)
        d[i] = dy[i];
    return gradient;
}

static double without_token_0(const int64_t *token, int64_t n, int64_t N)
{
    (void)N;
    return token[n] != 0;
}

static double without_first(const int64_t *token, int64_t n, int64_t N)
{
    (void)token, (void)N;
    return n > 0;
}

static double without_last(const int64_t *token, int64_t n, int64_t N)
{
    (void)token;
    return n < N - 1;
}

static th_tensor *no_token_0(const scene *s)
{
    return gradient_with(s, without_token_0);
}

static th_tensor *no_first(const scene *s)
{
    return gradient_with(s, without_first);
}

static th_tensor *no_last(const scene *s)
{
    return gradient_with(s, without_last);
}

static th_tensor *mean_over_positions(const scene *s)
{
    return th_scale(s->gradient[TABLE], 1 / (double)th_numel(s->input[TOKEN]));
}

/* Each token sets its row, and no other row is written. */
static th_tensor *rows_of_tokens(const scene *s)
{
    return s->add ? s->gradient[TABLE] : used_rows(s, gradient_with(s, replaces));
}

static const mark_mistake mistakes[] = {
    {TABLE, "a token that occurs several times gets the gradient of its last occurrence only: use +=", last_occurrence},
    {TABLE, "a token that occurs several times gets the gradient of its first occurrence only", first_occurrence},
    {TABLE, "the gradient of a token is a mean over its occurrences, but it must be their sum", mean_of_occurrences},
    {TABLE, "row n of dtable gets the gradient of position n: it belongs to row token_n", by_position},
    {TABLE, "only the first V positions count, but there are N: the loop over the positions ends too early",
     first_positions},
    {TABLE, "row 0 gets no gradient, but token 0 is a token as the others are", no_token_0},
    {TABLE, "the first position is missing: the loop over the positions begins at 0", no_first},
    {TABLE, "the last position is missing: the loop over the positions ends at N", no_last},
    {TABLE, "dtable is divided by the number of positions, but it must be their sum", mean_over_positions},
    {TABLE,
     "a row that no token uses must be 0, and a row of two tokens is a sum: unless c->add, set dtable to 0 first, and "
     "then use +=",
     rows_of_tokens},
    {.sentence = NULL},
};

#define SIZES(V, E, N)                                                                                                 \
    {.shape = TH_SIZES(V, E)},                                                                                         \
    {                                                                                                                  \
        .shape = TH_SIZES(N), .kind = TH_SAMPLE_INDEX, .high = V                                                       \
    }
static const double once[] = {2, 0, 1}, repeated[] = {1, 3, 1, 1, 0, 3};

static const mark_check checks[] = {
    {.name = "each token once", .input = {SIZES(3, 2, 3)}, .values = {NULL, once}},
    {.name = "tokens that occur twice and never", .input = {SIZES(5, 2, 6)}, .values = {NULL, repeated}},
    {.name = "a gradient that must be added", .input = {SIZES(4, 3, 3)}, .add = true},
    {.name = "repeated tokens, and add", .input = {SIZES(4, 2, 6)}, .values = {NULL, repeated}, .add = true},
    {.name = "strided memory", .input = {SIZES(4, 3, 5)}, .strided = true},
    {.name = "no tokens", .input = {SIZES(3, 2, 0)}},
    {.name = "no tokens, and add", .input = {SIZES(3, 2, 0)}, .add = true},
    {.name = LARGE, .input = {SIZES(LONG, LONG + 1, LONG + 2)}},
    {.name = NULL},
};

const mark_subject embedding_subject = {
    .name = "embedding",
    .title = "backward of an embedding",
    .n_inputs = 2,
    .n_outputs = 1,
    .input_name = {"table", "token"},
    .output_name = {"y"},
    .compute = compute,
    .checks = checks,
    .mistakes = mistakes,
};

/* Exercise 7: backward of an embedding.
 *
 *     y_n = table[token_n]              table (V, E), token (N) -> y (N, E): row n is the vector of token n
 *
 * A word that occurs three times in a text uses its row of the table three times. So its row receives three gradients.
 * A word that does not occur has the gradient 0.
 *
 * Here you answer the two questions of exercise 1 yourself, without start_gradient. Remember what c->add means: the
 * gradient may already contain numbers of another operation, or uninitialized memory.
 *
 * The marker checks: the gradients, tokens that occur twice and never, a gradient that must be added, strided memory, no
 * tokens. */
#include "exercise.h"

enum { TABLE, TOKEN };

static th_status embedding_shape(th_call *c) /* table (V, E), token (N) -> y (N, E) */
{
    const th_array *table = &c->input[TABLE], *token = &c->input[TOKEN];
    if (require_float64(c))
        return TH_ERROR_TYPE;
    if (table->ndim != 2 || token->ndim != 1 || token->dtype != TH_INT64)
        return th_call_fail(c, TH_ERROR_SHAPE, "table must be (V, E) and token (N) of int64, not %s and %s",
                            TH_TEXT(table), TH_TEXT(token));
    th_call_output(c, 0, TH_FLOAT64, 2, (const int64_t[]){token->size[0], table->size[1]}, NULL);
    return TH_OK;
}

static void embedding_forward(const th_call *c)
{
    const th_array *table = &c->input[TABLE], *token = &c->input[TOKEN], *y = &c->output[0];
    for (int64_t n = 0; n < token->size[0]; n++)
        for (int64_t e = 0; e < table->size[1]; e++)
            at(y, n, e) = at(table, integer_at(token, n), e);
}

static void embedding_backward(const th_call *c)
{
    const th_array *token = &c->input[TOKEN], *dy = &c->output_gradient[0]; /* (N), (N, E) */
    const th_array *dtable = &c->input_gradient[TABLE];                     /* (V, E) */
    const int64_t N = token->size[0], V = dtable->size[0], E = dtable->size[1];

    /* ---- your lines: dtable; the token has no gradient ---- */
    NOT_YET;
    /* ---- end of your lines ---- */
}

static const th_sample embedding_samples[] = {
    {.name = "six tokens of four",
     .n_inputs = 2,
     .input = {{.shape = TH_SIZES(4, 3)}, {.shape = TH_SIZES(6), .kind = TH_SAMPLE_INDEX, .high = 4}}},
    {.name = "two tokens of five",
     .n_inputs = 2,
     .input = {{.shape = TH_SIZES(5, 2)}, {.shape = TH_SIZES(2), .kind = TH_SAMPLE_INDEX, .high = 5}}},
    {.name = NULL},
};

const th_op exercise = {
    .name = "embedding",
    .value = "y = table[token]",
    .n_inputs = 2,
    .saves = TH_INPUT(TOKEN),
    .shape = embedding_shape,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .samples = embedding_samples,
};

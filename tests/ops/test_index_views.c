/* Positions, rows and lengths as views: every function gives the same bits for a view of indices as for a contiguous
 * copy of them, whatever the strides. B sequences, T tokens, V vocabulary. */
#include <stdlib.h>
#include <string.h>

#include "tapehead/models.h"

#include "context.h"

enum { B = 3, T = 4, V = 9, WIDTH = 8, LENGTH = 16 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

/* -- views -- */

enum { CONTIGUOUS, TRANSPOSED, COLUMNS, EVERY_SECOND_COLUMN, EVERY_SECOND_ROW, LAST_ROWS, VIEWS };

/* Returns value (rows, columns) as a view of this kind; the other elements of its storage are `other`. */
static th_tensor *view_of(const int64_t *value, int64_t rows, int64_t columns, th_dtype dtype, int kind, int64_t other)
{
    static const struct {
        int64_t row_step, column_step, first_row, first_column;
    } kinds[VIEWS] = {{1, 1, 0, 0}, {1, 1, 0, 0}, {1, 1, 0, 2}, {1, 2, 0, 1}, {2, 1, 1, 0}, {1, 1, 2, 0}};
    const int64_t row_step = kinds[kind].row_step, column_step = kinds[kind].column_step;
    const int64_t first_row = kinds[kind].first_row, first_column = kinds[kind].first_column;
    const int64_t all_rows = first_row + rows * row_step, all_columns = first_column + columns * column_step;
    int64_t *all = malloc((size_t)(all_rows * all_columns) * sizeof *all);
    for (int64_t i = 0; i < all_rows * all_columns; i++)
        all[i] = other;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            const int64_t row = first_row + r * row_step, column = first_column + c * column_step;
            all[kind == TRANSPOSED ? column * all_rows + row : row * all_columns + column] = value[r * columns + c];
        }
    const th_shape shape = kind == TRANSPOSED ? TH_SHAPE(all_columns, all_rows) : TH_SHAPE(all_rows, all_columns);
    th_tensor *t = th_cast(th_from_data(ctx, TH_INT64, shape, all), dtype);
    free(all);
    if (kind == TRANSPOSED)
        t = th_transpose(t, TH_AXES(1, 0));
    t = th_slice(t, 0, first_row, first_row + (rows - 1) * row_step + 1, row_step);
    t = th_slice(t, 1, first_column, first_column + (columns - 1) * column_step + 1, column_step);
    assert_shape(t, TH_SHAPE(rows, columns));
    return t;
}

/* Returns value (count) as a view: a row, or a column of a wider tensor. */
static th_tensor *vector_of(const int64_t *value, int64_t count, th_dtype dtype, int kind, int64_t other)
{
    const bool column = kind % 2;
    th_tensor *t = view_of(value, column ? count : 1, column ? 1 : count, dtype, kind, other);
    return th_select(t, column ? 1 : 0, 0);
}

/* -- functions that take indices: each returns a result for a view of this kind -- */

static const int64_t positions[B * T] = {0, 3, 1, 2, 7, 5, 6, 4, 2, 9, 3, 8}, few[T] = {4, 0, 9, 2};
static const int64_t lengths[B] = {2, 4, 1}, chosen[B] = {3, 0, 2};
static const int64_t tokens[B * T] = {1, 5, 2, 7, 3, 4, 8, 0, 6, 2, 8, 1};

static th_tensor *x, *scores;
static th_module *attention, *model, *translator;

static th_tensor *rotated(th_dtype dtype, int kind)
{
    return th_rotary(x, &(th_rotary_options){.positions = view_of(positions, B, T, dtype, kind, 100)});
}

static th_tensor *rotated_alike(th_dtype dtype, int kind)
{
    return th_rotary(x, &(th_rotary_options){.positions = vector_of(few, T, dtype, kind, 100)});
}

static th_tensor *masked_by_positions(th_dtype dtype, int kind)
{
    return th_masked_softmax(
        scores, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT, .positions = view_of(positions, B, T, dtype, kind, 0)});
}

static th_tensor *masked_by_lengths(th_dtype dtype, int kind)
{
    return th_masked_softmax(scores, &(th_mask){.valid_lengths = vector_of(lengths, B, dtype, kind, 0)});
}

static th_tensor *masked_by_query_lengths(th_dtype dtype, int kind)
{
    return th_masked_softmax(scores, &(th_mask){.valid_lengths = view_of(positions, B, T, dtype, kind, 0)});
}

/* Stores keys at the positions; then attends to all of them. */
static th_tensor *cached(th_dtype dtype, int kind)
{
    th_tensor *y = NULL, *all = view_of(positions, B, T, dtype, kind, LENGTH - 1), *input = th_select(x, 1, 0);
    th_no_grad_begin(ctx);
    th_cache *cache = th_cache_new(attention, B, LENGTH);
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT, .positions = all};
    const th_attend_options options = {.mask = &mask, .positions = all, .cache = cache};
    for (int turn = 0; turn < 2; turn++)
        y = th_attend(attention, input, input, input, &options);
    y = y ? th_keep(th_contiguous(y)) : NULL;
    th_cache_free(cache);
    th_no_grad_end(ctx);
    return y;
}

static th_tensor *logits_at_positions(th_dtype dtype, int kind)
{
    return th_language_model_logits(
        model, view_of(tokens, B, T, dtype, kind, 0),
        &(th_language_model_logits_options){.positions = view_of(positions, B, T, dtype, kind, 0)});
}

static th_tensor *logits_of_rows(th_dtype dtype, int kind)
{
    return th_language_model_logits(model, view_of(tokens, B, T, dtype, kind, 0),
                                    &(th_language_model_logits_options){.rows = vector_of(chosen, B, dtype, kind, 1)});
}

static th_tensor *decoded(th_dtype dtype, int kind)
{
    th_tensor *source = view_of(tokens, B, T, dtype, kind, 0), *length = vector_of(lengths, B, dtype, kind, 3);
    return th_transformer_decode(translator, source, th_transformer_encode(translator, source, length),
                                 &(th_transformer_decode_options){
                                     .memory_lengths = length, .positions = view_of(positions, B, T, dtype, kind, 0)});
}

static th_tensor *generated(th_module *from, const th_generate_options *options)
{
    th_generated result;
    ck_assert_msg(th_generate(from, options, &result) == TH_OK, "%s", th_error_message(ctx));
    return th_cast(result.tokens, TH_INT64);
}

static th_tensor *generated_from_prompts(th_dtype dtype, int kind)
{
    return generated(model, &(th_generate_options){.prompts = view_of(tokens, B, T, dtype, kind, 0),
                                                   .lengths = vector_of(lengths, B, dtype, kind, 3),
                                                   .max_new_tokens = 6});
}

static th_tensor *generated_from_sources(th_dtype dtype, int kind)
{
    return generated(translator, &(th_generate_options){.source = view_of(tokens, B, T, dtype, kind, 0),
                                                        .source_lengths = vector_of(lengths, B, dtype, kind, 3),
                                                        .beams = kind % 2 ? 1 : 0,
                                                        .max_new_tokens = 6});
}

static th_tensor *loss_of_targets(th_dtype dtype, int kind)
{
    return th_cross_entropy(th_select(x, 1, 0), view_of(positions, B, T, dtype, kind, 100),
                            &(th_cross_entropy_options){TH_IGNORE(9)});
}

static const struct {
    const char *name;
    th_tensor *(*result)(th_dtype dtype, int kind);
} functions[] = {
    {"rotary, (B, T)", rotated},
    {"rotary, (T)", rotated_alike},
    {"positions of a mask", masked_by_positions},
    {"lengths of a mask, (B)", masked_by_lengths},
    {"lengths of a mask, (B, T)", masked_by_query_lengths},
    {"positions in a cache", cached},
    {"positions of a language model", logits_at_positions},
    {"rows of a language model", logits_of_rows},
    {"transformer", decoded},
    {"prompts", generated_from_prompts},
    {"sources", generated_from_sources},
    {"targets", loss_of_targets},
};

/* -- tests -- */

static void make_operands(void)
{
    x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, 2, T, WIDTH + 2));
    scores = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, 2, T, LENGTH));
    attention =
        th_multi_head_attention_new(ctx, WIDTH + 2, 1, &(th_multi_head_attention_options){.scores = {.rotary = true}});
    model = th_language_model_new(ctx, &(th_language_model_options){.vocabulary = V,
                                                                    .length = LENGTH,
                                                                    .width = WIDTH,
                                                                    .heads = 2,
                                                                    .layers = 1,
                                                                    .block = {.scores = {.rotary = true}}});
    translator = th_transformer_new(ctx, &(th_transformer_options){.source_vocabulary = V,
                                                                   .target_vocabulary = V,
                                                                   .length = LENGTH,
                                                                   .width = WIDTH,
                                                                   .heads = 2,
                                                                   .encoder_layers = 1,
                                                                   .decoder_layers = 1});
    no_error();
    for (int i = 0; i < 2; i++)
        for (th_parameter_iterator p = th_module_parameters(i ? translator : model); th_parameter_next(&p);)
            if (th_ndim(p.tensor) > 1)
                ck_assert_int_eq(th_fill_normal(p.tensor, 0, 0.5), TH_OK);
}

static void assert_same_bits(th_tensor *a, th_tensor *b, int function, int kind)
{
    no_error();
    const size_t bytes = (size_t)th_numel(a) * th_dtype_size(th_dtype_of(a));
    char *of_a = malloc(bytes), *of_b = malloc(bytes);
    ck_assert_int_eq(th_numel(a), th_numel(b));
    ck_assert(th_copy_out(a, of_a, bytes) == TH_OK && th_copy_out(b, of_b, bytes) == TH_OK);
    ck_assert_msg(memcmp(of_a, of_b, bytes) == 0, "%s: view %d", functions[function].name, kind);
    free(of_a);
    free(of_b);
}

/* _i: the function. */
START_TEST(views_of_indices_give_the_same_bits)
{
    make_operands();
    th_set_training(ctx, false);
    th_tensor *expected = functions[_i].result(TH_INT64, CONTIGUOUS);
    for (int kind = 0; kind < VIEWS; kind++)
        for (int type = 0; type < 2; type++)
            assert_same_bits(functions[_i].result(type ? TH_INT64 : TH_INT32, kind), expected, _i, kind);
}
END_TEST

/* Every sequence, and every token of it, has its own position: the result equals that of each token alone. */
START_TEST(each_token_has_its_position)
{
    make_operands();
    for (int kind = 0; kind < VIEWS; kind++) {
        th_tensor *y = rotated(TH_INT32, kind);
        for (int64_t b = 0; b < B; b++)
            for (int64_t t = 0; t < T; t++) {
                th_tensor *row = th_slice(th_slice(x, 0, b, b + 1, 1), 2, t, t + 1, 1);
                th_tensor *position = th_full(ctx, TH_INT64, TH_SHAPE(1), (double)positions[b * T + t]);
                assert_same_bits(th_slice(th_slice(y, 0, b, b + 1, 1), 2, t, t + 1, 1),
                                 th_rotary(row, &(th_rotary_options){.positions = position}), 0, kind);
            }
    }
}
END_TEST

/* One row of positions for all sequences, expanded without a copy. */
START_TEST(expanded_positions)
{
    make_operands();
    th_tensor *row = vector_of(few, T, TH_INT64, CONTIGUOUS, 0);
    th_tensor *all = th_expand(th_unsqueeze(row, 0), TH_SHAPE(B, T));
    assert_same_bits(th_rotary(x, &(th_rotary_options){.positions = all}), rotated_alike(TH_INT32, CONTIGUOUS), 0, 0);
    th_tensor *expected =
        th_masked_softmax(scores, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT, .positions = th_contiguous(all)});
    assert_same_bits(th_masked_softmax(scores, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT, .positions = all}), expected, 2,
                     0);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("index_views", setup, close_context);
    tcase_add_loop_test(tests, views_of_indices_give_the_same_bits, 0, sizeof functions / sizeof *functions);
    tcase_add_test(tests, each_token_has_its_position);
    tcase_add_test(tests, expanded_positions);
    return run_suites();
}

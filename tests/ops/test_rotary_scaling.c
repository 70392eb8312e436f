/* Scaling of rotary positions. The expected frequencies and attention factors are those of transformers 5.23.0:
 * ROPE_INIT_FUNCTIONS[rope_type](config, seq_len=length) for a LlamaConfig with max_position_embeddings =
 * original_length for "dynamic". transformers computes them in float32. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

static const double short_factor[6] = {1.0, 1.05, 1.25, 1.5, 2.0, 3.0},
                    long_factor[6] = {1.1, 2.5, 7.0, 12.0, 20.5, 33.0};

#define LONGROPE                                                                                                       \
    .kind = TH_ROTARY_LONGROPE, .factor = 8, .original_length = 32, .short_factor = short_factor,                      \
    .long_factor = long_factor, .n_factors = 6

enum { MOST = 12 };
static const struct {
    th_rotary_options options; /* base, scaling */
    int64_t length, pairs;
    double attention_factor, frequency[MOST];
} cases[] = {
    {{.scaling = {TH_ROTARY_DYNAMIC, .factor = 4, .original_length = 32}},
     32,
     4,
     1,
     {1, 0.100000001, 0.00999999978, 0.00100000005}},
    {{.scaling = {TH_ROTARY_DYNAMIC, .factor = 4, .original_length = 32}},
     33,
     4,
     1,
     {1, 0.0961499736, 0.00924481731, 0.000888888899}},
    {{.base = 500, .scaling = {TH_ROTARY_DYNAMIC, .factor = 2.5, .original_length = 32}},
     1000,
     4,
     1,
     {1, 0.0497890674, 0.00247895136, 0.000123424674}},
    {{.scaling = {TH_ROTARY_YARN, .factor = 4, .original_length = 2048}},
     10,
     12,
     1.13862944,
     {1, 0.464158893, 0.215443447, 0.100000001, 0.039453499, 0.0150810443, 0.00549999997, 0.00185663579, 0.000538608583,
      0.000250000012, 0.000116039737, 5.38608547e-05}},
    {{.scaling = {TH_ROTARY_YARN, .factor = 4, .original_length = 2048, .beta_fast = 20, .beta_slow = 3,
                  .no_truncate = true}},
     10,
     12,
     1.13862944,
     {1, 0.464158893, 0.215443447, 0.100000001, 0.0412943624, 0.0126299113, 0.00282796798, 0.00116039743,
      0.000538608583, 0.000250000012, 0.000116039737, 5.38608547e-05}},
    {{.base = 100,
      .scaling = {TH_ROTARY_YARN, .factor = 40, .original_length = 4, .mscale = 1.5, .mscale_all_dim = 0.7}},
     10,
     6,
     1.23454562,
     {1, 0.0116039729, 0.00538608618, 0.00249999994, 0.00116039708, 0.0005386087}}, /* at most one rotation */
    {{.scaling = {TH_ROTARY_YARN, .factor = 16, .original_length = 512, .attention_factor = 0.8, .mscale = 1.5,
                  .mscale_all_dim = 0.7}},
     10,
     6,
     0.8,
     {1, 0.148117363, 0.0174059551, 0.000624999986, 0.000134652146, 2.90099342e-05}},
    {{.scaling = {TH_ROTARY_YARN, .factor = 0.5, .original_length = 512}},
     10,
     6,
     1,
     {1, 0.28725794, 0.077359803, 0.0199999996, 0.00430886867, 0.000928317895}},
    {{.scaling = {LONGROPE}},
     32,
     6,
     1.26491106,
     {1, 0.205184266, 0.0371327065, 0.00666666683, 0.00107721717, 0.000154719659}},
    {{.scaling = {LONGROPE}},
     33,
     6,
     1.26491106,
     {0.909090877, 0.0861773789, 0.00663083978, 0.000833333354, 0.000105094354, 1.40654229e-05}},
    {{.scaling = {LONGROPE, .attention_factor = 1.5}},
     33,
     6,
     1.5,
     {0.909090877, 0.0861773789, 0.00663083978, 0.000833333354, 0.000105094354, 1.40654229e-05}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Pairs (1, 0) at position 1 become (c cos f, c sin f). The second position makes the sequence as long as the case. */
START_TEST(frequencies_are_those_of_transformers)
{
    const int64_t pairs = cases[_i].pairs, position[2] = {1, cases[_i].length - 1};
    th_tensor *one = th_ones(ctx, TH_FLOAT64, TH_SHAPE(2, pairs)),
              *zero = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(2, pairs));
    th_rotary_options o = cases[_i].options;
    o.positions = th_from_data(ctx, TH_INT64, TH_SHAPE(2), position);
    th_tensor *y = th_rotary(th_concat((th_tensor *[]){one, zero}, 2, 1), &o);
    no_error();
    for (int64_t i = 0; i < pairs; i++) {
        const double a = th_get(y, TH_INDEX(0, i)), b = th_get(y, TH_INDEX(0, pairs + i)),
                     frequency = cases[_i].frequency[i];
        ck_assert_double_eq_tol(hypot(a, b), cases[_i].attention_factor, 1e-7);
        ck_assert_msg(fabs(atan2(b, a) - frequency) <= 4e-7 * frequency, "pair %d: %.9g instead of %.9g", (int)i,
                      atan2(b, a), frequency);
    }
}
END_TEST

static const void *data_of(th_tensor *t)
{
    no_error();
    return th_data(th_contiguous(t));
}

/* Sequences of a batch, and one of them alone, have the same bits, whether or not others are longer. */
START_TEST(a_sequence_has_its_own_length)
{
    enum { B = 3, H = 2, T = 4, D = 12 };
    static const int64_t position[B * T] = {0, 1, 2, 3, 30, 31, 32, 33, 40, 1, 0, 31};
    const th_rotary_scaling dynamic = {TH_ROTARY_DYNAMIC, .factor = 3, .original_length = 32}, longrope = {LONGROPE};
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, H, T, D));
    th_rotary_options o = {.scaling = _i ? longrope : dynamic,
                           .positions = th_from_data(ctx, TH_INT64, TH_SHAPE(B, T), position)};
    th_tensor *y = th_rotary(x, &o);
    for (int64_t b = 0; b < B; b++) {
        o.positions = th_from_data(ctx, TH_INT64, TH_SHAPE(T), position + b * T);
        th_tensor *alone = th_rotary(th_slice(x, 0, b, b + 1, 1), &o);
        ck_assert_mem_eq(data_of(alone), data_of(th_slice(y, 0, b, b + 1, 1)), H * T * D * sizeof(double));
    }
    o.scaling = (th_rotary_scaling){.kind = TH_ROTARY_UNSCALED};
    o.positions = th_from_data(ctx, TH_INT64, TH_SHAPE(B, T), position);
    th_tensor *unscaled = th_rotary(x, &o);
    for (int64_t b = 0; b < B && _i == 0; b++) { /* dynamic scaling changes long sequences only */
        const bool same = memcmp(data_of(th_slice(unscaled, 0, b, b + 1, 1)), data_of(th_slice(y, 0, b, b + 1, 1)),
                                 H * T * D * sizeof(double)) == 0;
        ck_assert_int_eq(same, b == 0);
    }
}
END_TEST

/* Without positions the length is T, and a tensor without rows has no length. */
START_TEST(without_positions)
{
    enum { T = 33, D = 12 };
    th_rotary_options o = {.scaling = {LONGROPE}};
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(T, D)), *y = th_rotary(x, &o);
    o.positions = th_arange(ctx, TH_INT32, 0, T, 1);
    ck_assert_mem_eq(data_of(y), data_of(th_rotary(x, &o)), T * D * sizeof(double));
    o.positions = NULL;
    ck_assert_int_eq(th_size(th_rotary(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(0, D)), &o), 0), 0);
    o.positions = th_zeros(ctx, TH_INT32, TH_SHAPE(2, 0));
    ck_assert_int_eq(th_size(th_rotary(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(2, 0, D)), &o), 1), 0);
    no_error();
}
END_TEST

/* -- who owns the factors -- */

/* Layers and models work after the arrays that their options pointed to have changed. */
START_TEST(layers_and_models_copy_the_factors)
{
    double factors[2][6];
    memcpy(factors[0], short_factor, sizeof short_factor);
    memcpy(factors[1], long_factor, sizeof long_factor);
    th_language_model_options o = {
        .vocabulary = 9,
        .length = 64,
        .width = 24,
        .heads = 2,
        .layers = 2,
        .positions = TH_POSITIONS_NONE,
        .block = {.scores = {.rotary = true, .rotary_scaling = {LONGROPE}}},
    };
    o.block.scores.rotary_scaling.short_factor = factors[0];
    o.block.scores.rotary_scaling.long_factor = factors[1];
    th_transformer_options pair = {.source_vocabulary = 9,
                                   .target_vocabulary = 9,
                                   .length = 64,
                                   .width = 24,
                                   .heads = 2,
                                   .encoder_layers = 1,
                                   .decoder_layers = 1,
                                   .positions = TH_POSITIONS_NONE,
                                   .block = o.block};
    th_module *model = th_language_model_new(ctx, &o), *both = th_transformer_new(ctx, &pair);
    th_no_grad_begin(ctx);
    th_tensor *tokens = th_zeros(ctx, TH_INT64, TH_SHAPE(1, 40));
    th_tensor *before = th_module_forward(model, tokens), *of_pair = th_transformer_encode(both, tokens, NULL);
    no_error();
    memset(factors, 0, sizeof factors);
    const size_t bytes = 40 * 9 * sizeof(double);
    ck_assert_mem_eq(data_of(before), data_of(th_module_forward(model, tokens)), bytes);
    ck_assert_mem_eq(data_of(of_pair), data_of(th_transformer_encode(both, tokens, NULL)), 40 * 24 * sizeof(double));
    const th_rotary_scaling *stored = &th_language_model_options_of(model)->block.scores.rotary_scaling;
    ck_assert_mem_eq(stored->short_factor, short_factor, sizeof short_factor);
    ck_assert_mem_eq(stored->long_factor, long_factor, sizeof long_factor);
    stored = &th_transformer_options_of(both)->block.scores.rotary_scaling;
    ck_assert_mem_eq(stored->long_factor, long_factor, sizeof long_factor);

    th_module *copy = th_language_model_new(ctx, th_language_model_options_of(model));
    th_module_free(model); /* the copy owns other arrays */
    ck_assert_mem_eq(th_language_model_options_of(copy)->block.scores.rotary_scaling.long_factor, long_factor,
                     sizeof long_factor);
    th_module_free(copy);
    th_no_grad_end(ctx);
}
END_TEST

/* Options of another kind may point anywhere, and the model forgets it. */
/* Memory that is released gets other content. */
static void *allocate(void *user, size_t bytes)
{
    (void)user;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void overwrite(void *user, void *memory, size_t bytes)
{
    (void)user;
    for (size_t i = 0; i < bytes; i++) /* volatile: compilers leave out a memset before free */
        ((volatile unsigned char *)memory)[i] = 0xff;
    free(memory);
}

/* Backward of what a layer has computed works after the layer is freed. */
START_TEST(backward_reads_the_factors_of_a_freed_layer)
{
    th_context_free(ctx);
    ctx = th_context_new(&(th_context_options){.threads = 2, .seed = 5, .allocator = {allocate, overwrite, NULL}});
    static float gradient[2][40 * 24];
    for (int freed = 0; freed < 2; freed++) {
        const th_multi_head_attention_options o = {.scores = {.rotary = true, .rotary_scaling = {LONGROPE}}};
        th_set_seed(ctx, 7);
        th_module *attention = th_multi_head_attention_new(ctx, 24, 2, &o);
        th_tensor *x = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(1, 40, 24), -1, 1), true);
        th_tensor *y = th_attend(attention, x, x, x, NULL);
        if (freed)
            th_module_free(attention);
        ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
        memcpy(gradient[freed], data_of(th_gradient(x)), sizeof gradient[freed]);
        th_tape_clear(ctx);
    }
    ck_assert_mem_eq(gradient[0], gradient[1], sizeof gradient[0]);
}
END_TEST

START_TEST(other_kinds_have_no_factors)
{
    th_language_model_options o = {
        .vocabulary = 9,
        .length = 8,
        .width = 24,
        .heads = 2,
        .layers = 1,
        .block = {.scores = {.rotary = true, .rotary_scaling = {LONGROPE}}},
    };
    o.block.scores.rotary_scaling.kind = TH_ROTARY_YARN;
    o.block.scores.rotary_scaling.n_factors = 1000;
    const th_module *model = th_language_model_new(ctx, &o);
    no_error();
    ck_assert_ptr_null(th_language_model_options_of(model)->block.scores.rotary_scaling.short_factor);
    ck_assert_ptr_null(th_language_model_options_of(model)->block.scores.rotary_scaling.long_factor);
}
END_TEST

/* -- errors -- */

static const double negative[6] = {1, 1, 1, -1, 1, 1}, no_number[6] = {1, 1, 1, 1, 1, NAN};

#define YARN .kind = TH_ROTARY_YARN, .factor = 4, .original_length = 16

static const struct {
    th_rotary_options options;
    const char *words;
} errors[] = {
    {{.scaling = {.kind = 6}}, "scaling: kind is 6, which is not a th_rotary_scaling_kind"},
    {{.scaling = {.kind = TH_ROTARY_DYNAMIC, .original_length = 4}}, "factor = 0 must be a positive number"},
    {{.scaling = {.kind = TH_ROTARY_DYNAMIC, .factor = 2}}, "original_length = 0 must be a number of positions"},
    {{.width = 2, .scaling = {.kind = TH_ROTARY_DYNAMIC, .factor = 2, .original_length = 4}}, "more than one pair"},
    {{.scaling = {.kind = TH_ROTARY_YARN, .factor = INFINITY}}, "factor = inf"},
    {{.scaling = {.kind = TH_ROTARY_YARN, .factor = 2, .original_length = -1}}, "original_length = -1"},
    {{.base = 1, .scaling = {YARN}}, "yarn needs a base above 1, it is 1"},
    {{.scaling = {YARN, .beta_slow = 40}}, "beta_slow = 40 must be positive and at most beta_fast = 32"},
    {{.scaling = {YARN, .beta_fast = NAN}}, "beta_fast = nan"},
    {{.scaling = {YARN, .beta_slow = -1}}, "beta_slow = -1"},
    {{.scaling = {YARN, .mscale = -1, .mscale_all_dim = 1}}, "mscale = -1 and mscale_all_dim = 1 must be positive"},
    {{.scaling = {YARN, .mscale_all_dim = NAN}}, "mscale_all_dim = nan"},
    {{.scaling = {YARN, .attention_factor = -1}}, "attention_factor = -1 must be a positive number"},
    {{.scaling = {LONGROPE, .attention_factor = INFINITY}}, "attention_factor = inf"},
    {{.width = 10, .scaling = {LONGROPE}}, "short_factor and long_factor have 6 numbers, but 5 pairs are rotated"},
    {{.scaling = {TH_ROTARY_LONGROPE, .factor = 2, .original_length = 4, .long_factor = long_factor, .n_factors = 6}},
     "short_factor is NULL"},
    {{.scaling = {TH_ROTARY_LONGROPE, .factor = 2, .original_length = 4, .short_factor = long_factor, .n_factors = 6}},
     "long_factor is NULL"},
    {{.scaling = {TH_ROTARY_LONGROPE, .factor = 2, .original_length = 1}}, "original_length of at least 2"},
    {{.scaling = {TH_ROTARY_LONGROPE, .factor = 2, .original_length = 4, .short_factor = negative,
                  .long_factor = long_factor, .n_factors = 6}},
     "short_factor[3] = -1 must be a positive number"},
    {{.scaling = {TH_ROTARY_LONGROPE, .factor = 2, .original_length = 4, .short_factor = long_factor,
                  .long_factor = no_number, .n_factors = 6}},
     "long_factor[5] = nan"},
};

enum { ERRORS = sizeof errors / sizeof *errors };

START_TEST(numbers_are_checked)
{
    const th_rotary_options *o = &errors[_i].options;
    assert_error(th_rotary(th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 12)), o), TH_ERROR_ARGUMENT, errors[_i].words);
    const th_multi_head_attention_options layer = {
        .scores = {.rotary = true, .rotary_base = o->base, .rotary_width = o->width, .rotary_scaling = o->scaling}};
    assert_error(th_multi_head_attention_new(ctx, 24, 2, &layer), TH_ERROR_ARGUMENT, errors[_i].words);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("rotary scaling", setup, close_context);
    tcase_add_loop_test(tests, frequencies_are_those_of_transformers, 0, CASES);
    tcase_add_loop_test(tests, a_sequence_has_its_own_length, 0, 2);
    tcase_add_test(tests, without_positions);
    tcase_add_test(tests, layers_and_models_copy_the_factors);
    tcase_add_test(tests, backward_reads_the_factors_of_a_freed_layer);
    tcase_add_test(tests, other_kinds_have_no_factors);
    tcase_add_loop_test(tests, numbers_are_checked, 0, ERRORS);
    return run_suites();
}

/* Which parameters Muon updates, and how its steps treat groups, learning rates, clipping, refused gradients, conversions and
 * memory. test_torch_muon.c has the numbers, test_muon_bits.c threads and processes. */
#include <math.h>
#include <string.h>

#include "tapehead/tapehead.h"
#include "tensor/context.h"
#include "training/moments.h"

#include "context.h"

static const th_muon_options usual = {.learning_rate = 0.02, .adam_learning_rate = 0.003};

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 4, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

/* -- which parameters -- */

/* Returns how many matrices the optimizer sees in a parameter; 0: AdamW updates it. */
static int parts_of(const th_optimizer *o, const th_module *m, const char *name)
{
    const th_tensor *parameter = th_module_find_parameter(m, name);
    ck_assert_msg(parameter != NULL, "there is no %s", name);
    for (int64_t i = 0; i < o->count; i++)
        if (o->parameters[i].tensor->handle == parameter)
            return o->parameters[i].parts;
    ck_abort_msg("the optimizer does not have %s", name);
}

/* Checks the matrices in all parameters of o: `wanted` lists names with more than 0. */
static void assert_matrices(const th_optimizer *o, th_module *m, int count, const char *const *wanted, const int *parts)
{
    int found = 0;
    ck_assert_ptr_nonnull(o);
    for (int64_t i = 0; i < o->count; i++)
        found += o->parameters[i].parts > 0;
    ck_assert_int_eq(found, count);
    for (int i = 0; i < count; i++)
        ck_assert_msg(parts_of(o, m, wanted[i]) == parts[i], "%s has %d parts", wanted[i], parts_of(o, m, wanted[i]));
}

static th_module *language_model_new(bool untied, int64_t kv_heads)
{
    return th_language_model_new(ctx, &(th_language_model_options){.vocabulary = 11,
                                                                   .length = 6,
                                                                   .width = 8,
                                                                   .heads = 2,
                                                                   .layers = 1,
                                                                   .untied = untied,
                                                                   .block = {.gated = untied, .kv_heads = kv_heads}});
}

START_TEST(embeddings_classifiers_norms_and_biases_are_no_matrices)
{
    static const char *const names[] = {"layers.0.self_attn.in_proj_weight", "layers.0.self_attn.out_proj.weight",
                                        "layers.0.linear1.weight", "layers.0.linear2.weight", "layers.0.gate.weight"};
    static const int parts[] = {3, 1, 1, 1, 1};
    th_module *m = language_model_new(_i, 0);
    assert_matrices(th_muon_new(m, &usual), m, _i ? 5 : 4, names, parts);
}
END_TEST

START_TEST(projections_with_their_own_weights_are_one_matrix_each)
{
    static const char *const names[] = {"layers.0.self_attn.q_proj_weight", "layers.0.self_attn.k_proj_weight",
                                        "layers.0.self_attn.v_proj_weight", "layers.0.self_attn.out_proj.weight",
                                        "layers.0.linear1.weight",          "layers.0.linear2.weight"};
    static const int parts[] = {1, 1, 1, 1, 1, 1};
    th_module *m = language_model_new(false, 1);
    assert_matrices(th_muon_new(m, &usual), m, 6, names, parts);
}
END_TEST

START_TEST(a_transformer_classifies_with_adam_w)
{
    th_module *m = th_transformer_new(ctx, &(th_transformer_options){.source_vocabulary = 7,
                                                                     .target_vocabulary = 9,
                                                                     .length = 5,
                                                                     .width = 8,
                                                                     .heads = 2,
                                                                     .encoder_layers = 1,
                                                                     .decoder_layers = 1,
                                                                     .untied = true});
    const th_optimizer *o = th_muon_new(m, &usual);
    no_error();
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        const bool hidden = th_ndim(p.tensor) == 2 && (strstr(p.name, "linear") || strstr(p.name, "attn"));
        ck_assert_msg((parts_of(o, m, p.name) > 0) == hidden, "%s", p.name);
    }
}
END_TEST

START_TEST(factors_of_adapters_are_matrices)
{
    static const char *const names[] = {"layers.0.self_attn.q_lora.A", "layers.0.self_attn.v_lora.B",
                                        "layers.0.linear1.lora.A", "layers.0.linear1.lora.B"};
    const char *const patterns[] = {"in_proj", "linear1"}; /* query, key and value share A */
    th_module *m = language_model_new(false, 0);
    ck_assert_int_eq(th_lora_attach(m, &(th_lora_options){.rank = 2, .patterns = patterns, .n_patterns = 2}), TH_OK);
    const th_optimizer *o = th_muon_new(m, &usual);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(parts_of(o, m, names[i]), 1);
}
END_TEST

START_TEST(groups_choose_parameters)
{
    static const char *const names[] = {"embedding.weight", "layers.0.self_attn.in_proj_weight",
                                        "layers.0.self_attn.out_proj.weight"};
    static const int parts[] = {1, 3, 1};
    const th_parameter_group groups[] = {{.pattern = "*.linear?.*", .muon = TH_MUON_NEVER},
                                         {.pattern = "embedding.*", .muon = TH_MUON_ALWAYS},
                                         {.pattern = "*.in_proj_weight", .muon = TH_MUON_ALWAYS}};
    th_muon_options options = usual;
    options.groups = groups;
    options.n_groups = 3;
    th_module *m = language_model_new(false, 0);
    assert_matrices(th_muon_new(m, &options), m, 3, names, parts);
}
END_TEST

START_TEST(own_modules_need_a_group)
{
    const th_parameter_group group = {.pattern = "own", .muon = TH_MUON_ALWAYS};
    th_module *m = th_module_new(ctx, sizeof *m, "model", NULL);
    th_module_add_parameter(m, "own", TH_SHAPE(3, 4));
    th_muon_options options = usual;
    ck_assert_int_eq(parts_of(th_muon_new(m, &options), m, "own"), 0);
    options.groups = &group;
    options.n_groups = 1;
    ck_assert_int_eq(parts_of(th_muon_new(m, &options), m, "own"), 1);
}
END_TEST

/* -- errors -- */

START_TEST(wrong_options_are_refused)
{
    const struct {
        th_muon_options options;
        const char *words;
    } cases[] = {
        {{.adam_learning_rate = 1}, "a learning rate must be given"},
        {{.learning_rate = 1}, "adam_learning_rate, the rate of the parameters that are not matrices, must be given"},
        {{.learning_rate = 1, .adam_learning_rate = -1}, "adam_learning_rate = -1 is outside"},
        {{.learning_rate = 1, .adam_learning_rate = 1, .momentum = 1}, "momentum = 1 is outside"},
        {{.learning_rate = 1, .adam_learning_rate = 1, .steps = 17}, "steps = 17 is outside"},
        {{.learning_rate = 1, .adam_learning_rate = 1, .steps = -1}, "steps = -1 is outside"},
        {{.learning_rate = 1, .adam_learning_rate = 1, .eps = -1}, "eps = -1 is outside"},
        {{.learning_rate = 1, .adam_learning_rate = 1, .coefficients = {INFINITY}}, "a coefficient = inf is outside"},
        {{.learning_rate = 1, .adam_learning_rate = 1, .iteration = (th_muon_iteration)2}, "iteration = 2 is outside"},
        {{.learning_rate = 1, .adam_learning_rate = 1, .iteration = TH_MUON_POLAR_EXPRESS, .coefficients = {1, 1, 1}},
         "TH_MUON_POLAR_EXPRESS has its own coefficients"},
        {{.learning_rate = 1, .adjustment = (th_muon_adjustment)2}, "adjustment = 2 is outside"},
        {{.learning_rate = 1, .adam_learning_rate = 1, .adam_beta1 = 1}, "adam_beta1 = 1 is outside"},
        {{.learning_rate = 1, .adam_learning_rate = 1, .adam_beta2 = -1}, "adam_beta2 = -1 is outside"},
        {{.learning_rate = 1, .adam_learning_rate = 1, .adam_eps = -1}, "adam_eps = -1 is outside"},
        {{.learning_rate = 1, .adam_learning_rate = 1, .adam_weight_decay = -1}, "adam_weight_decay = -1 is outside"},
    };
    th_module *m = th_dense_new(ctx, 3, 4, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_ptr_null(th_muon_new(m, &cases[i].options));
        expect_error(TH_ERROR_ARGUMENT, cases[i].words);
    }
}
END_TEST

START_TEST(impossible_choices_are_refused)
{
    th_parameter_group group = {.pattern = "*", .muon = TH_MUON_ALWAYS};
    th_muon_options options = usual;
    options.groups = &group;
    options.n_groups = 1;
    th_module *m = th_dense_new(ctx, 3, 4, NULL);
    ck_assert_ptr_null(th_muon_new(m, &options));
    expect_error(TH_ERROR_ARGUMENT, "bias has 1 axes, and only a parameter with 2 axes is a matrix");
    group.muon = (th_muon_use)3;
    ck_assert_ptr_null(th_muon_new(m, &options));
    expect_error(TH_ERROR_ARGUMENT, "muon = 3 of group 0 is not a th_muon_use");
    group.muon = TH_MUON_NEVER;
    ck_assert_ptr_null(th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .groups = &group, .n_groups = 1}));
    expect_error(TH_ERROR_ARGUMENT, "only th_muon_new can use this");
}
END_TEST

/* -- steps -- */

/* Computes gradients: those of `factor` times a loss. */
static th_status backward(th_module *m, double factor)
{
    float x[12];
    for (int i = 0; i < 12; i++)
        x[i] = (float)sin(i + 1);
    th_tensor *y = th_module_forward(m, th_cast(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(4, 3), x),
                                                th_dtype_of(th_module_find_parameter(m, "weight"))));
    const th_status status = th_backward(th_scale(th_sum(th_mul(y, y), TH_ALL_AXES, NULL), factor), NULL);
    th_tape_clear(ctx);
    return status;
}

static void step(th_module *m, th_optimizer *o, double factor)
{
    ck_assert_int_eq(backward(m, factor), TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
}

static double at(th_module *m, const char *name, int i)
{
    th_tensor *t = th_module_find_parameter(m, name);
    return th_dtype_of(t) == TH_FLOAT32 ? (double)((const float *)th_data_const(t))[i]
                                        : ((const double *)th_data_const(t))[i];
}

/* A dense layer with the same values in each test. */
static th_module *dense_new(void)
{
    th_module *m = th_dense_new(ctx, 3, 5, NULL);
    float *weight = th_data(th_module_find_parameter(m, "weight")),
          *bias = th_data(th_module_find_parameter(m, "bias"));
    for (int i = 0; i < 15; i++)
        weight[i] = (float)cos(i);
    for (int i = 0; i < 5; i++)
        bias[i] = (float)i;
    return m;
}

START_TEST(groups_scale_both_kinds)
{
    const th_parameter_group group = {.pattern = "*", .learning_rate_factor = 0.5, .weight_decay = 0.25};
    th_muon_options options = usual;
    th_module *half = dense_new(), *m = dense_new();
    options.groups = &group;
    options.n_groups = 1;
    step(half, th_muon_new(half, &options), 1);
    options = (th_muon_options){
        .learning_rate = 0.01, .weight_decay = 0.25, .adam_learning_rate = 0.0015, .adam_weight_decay = 0.25};
    step(m, th_muon_new(m, &options), 1);
    ck_assert_uint_eq(th_module_crc32c(half), th_module_crc32c(m));
}
END_TEST

START_TEST(a_group_can_keep_a_matrix)
{
    const th_parameter_group group = {.pattern = "weight", .no_update = true};
    th_muon_options options = usual;
    th_module *m = dense_new();
    options.groups = &group;
    options.n_groups = 1;
    step(m, th_muon_new(m, &options), 1);
    ck_assert_double_eq(at(m, "weight", 1), (double)(float)cos(1));
    ck_assert_double_ne(at(m, "bias", 1), 1);
}
END_TEST

START_TEST(the_learning_rate_scales_both_kinds)
{
    const th_muon_options doubled = {.learning_rate = 0.04, .adam_learning_rate = 0.006};
    th_module *set = dense_new(), *m = dense_new();
    th_optimizer *o = th_muon_new(set, &usual);
    ck_assert_int_eq(th_optimizer_set_learning_rate(o, 0.04), TH_OK);
    step(set, o, 1);
    step(m, th_muon_new(m, &doubled), 1);
    ck_assert_uint_eq(th_module_crc32c(set), th_module_crc32c(m));
}
END_TEST

START_TEST(one_rate_suffices_if_it_is_adjusted_to_adam_w)
{
    const th_muon_options one = {.learning_rate = 0.01, .adjustment = TH_MUON_MATCH_RMS_ADAMW};
    th_muon_options two = one;
    two.adam_learning_rate = 0.01;
    th_module *a = dense_new(), *b = dense_new();
    step(a, th_muon_new(a, &one), 1);
    step(b, th_muon_new(b, &two), 1);
    ck_assert_uint_eq(th_module_crc32c(a), th_module_crc32c(b));
}
END_TEST

/* The step of a matrix with more rows than columns has about orthogonal columns of length 1, times sqrt(5 / 3). */
START_TEST(both_iterations_make_steps_orthogonal)
{
    const th_muon_options options = {.learning_rate = 1, .adam_learning_rate = 1, .iteration = (th_muon_iteration)_i};
    th_module *m = dense_new();
    float g[15];
    for (int i = 0; i < 15; i++)
        g[i] = (float)sin(i * i + 1);
    th_tensor *cotangent = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(5, 3), g);
    ck_assert_int_eq(th_backward(th_module_find_parameter(m, "weight"), &(th_backward_options){.cotangent = cotangent}),
                     TH_OK);
    ck_assert_int_eq(th_optimizer_step(th_muon_new(m, &options)), TH_OK);
    for (int a = 0; a < 3; a++)
        for (int b = 0; b <= a; b++) {
            double sum = 0;
            for (int row = 0; row < 5; row++)
                sum += (at(m, "weight", row * 3 + a) - cos(row * 3 + a)) *
                       (at(m, "weight", row * 3 + b) - cos(row * 3 + b));
            ck_assert_double_eq_tol(sum * 3 / 5, a == b, 0.6);
        }
}
END_TEST

START_TEST(clipped_gradients_enter_the_moments)
{
    th_module *measured = dense_new(), *clipped = dense_new(), *m = dense_new();
    th_muon_options options = usual;
    double norm;
    ck_assert_int_eq(backward(measured, 1), TH_OK);
    ck_assert_int_eq(th_clip_gradients(measured, 1e9, &norm), TH_OK);
    options.max_norm = norm / 8;
    th_optimizer *a = th_muon_new(clipped, &options), *b = th_muon_new(m, &usual);
    step(clipped, a, 1);
    step(m, b, 0.125);
    const float *first = (const void *)th_moment_part_of(&a->parameters[0], 0).data,
                *second = (const void *)th_moment_part_of(&b->parameters[0], 0).data;
    for (int i = 0; i < 15; i++) {
        ck_assert_double_eq_tol(at(clipped, "weight", i), at(m, "weight", i), 1e-5);
        ck_assert_double_eq_tol((double)first[i], (double)second[i], 1e-5);
    }
}
END_TEST

START_TEST(a_refused_step_changes_nothing)
{
    th_module *m = dense_new(), *same = dense_new();
    th_optimizer *o = th_muon_new(m, &usual), *other = th_muon_new(same, &usual);
    step(m, o, 1);
    step(same, other, 1);
    ck_assert_int_eq(backward(m, NAN), TH_OK);
    expect_status(th_optimizer_step(o), TH_ERROR_VALUE, "weight");
    step(m, o, 2);
    step(same, other, 2);
    ck_assert_uint_eq(th_module_crc32c(m), th_module_crc32c(same));
}
END_TEST

START_TEST(huge_gradients_give_finite_steps)
{
    th_module *m = dense_new();
    th_optimizer *o = th_muon_new(m, &usual);
    for (int i = 0; i < 3; i++)
        step(m, o, 1e36);
    for (int i = 0; i < 15; i++)
        ck_assert(fabs(at(m, "weight", i) - cos(i)) < 0.2);
}
END_TEST

START_TEST(a_matrix_without_gradient_only_decays)
{
    th_muon_options options = usual;
    options.weight_decay = 0.5;
    th_module *m = dense_new();
    step(m, th_muon_new(m, &options), 0);
    ck_assert_double_eq_tol(at(m, "weight", 1), cos(1) * (1 - 0.02 * 0.5), 1e-6);
}
END_TEST

START_TEST(frozen_matrices_do_not_change)
{
    th_module *m = dense_new();
    th_optimizer *o = th_muon_new(m, &usual);
    th_set_requires_gradient(th_module_find_parameter(m, "weight"), false);
    step(m, o, 1);
    ck_assert_double_eq(at(m, "weight", 1), (double)(float)cos(1));
    th_set_requires_gradient(th_module_find_parameter(m, "weight"), true);
    step(m, o, 1);
    ck_assert_double_ne(at(m, "weight", 1), (double)(float)cos(1));
}
END_TEST

/* Steps with some of the matrices give them the bits of steps with all. */
START_TEST(matrices_do_not_depend_on_each_other)
{
    enum { LAYERS = 5 };
    th_module *all = th_module_list_new(ctx), *some = th_module_list_new(ctx);
    for (int i = 0; i < LAYERS; i++) {
        th_module_list_add(all, dense_new());
        th_module_list_add(some, dense_new());
    }
    th_optimizer *o = th_muon_new(all, &usual), *other = th_muon_new(some, &usual);
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < LAYERS; i++) {
            ck_assert_int_eq(backward(th_module_list_at(all, i), i + 1), TH_OK);
            if (i != turn && i != 1)
                ck_assert_int_eq(backward(th_module_list_at(some, i), i + 1), TH_OK);
        }
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
        ck_assert_int_eq(th_optimizer_step(other), TH_OK);
    }
    ck_assert_uint_eq(th_module_crc32c(th_module_list_at(some, 3)), th_module_crc32c(th_module_list_at(all, 3)));
    ck_assert_uint_eq(th_module_crc32c(th_module_list_at(some, 4)), th_module_crc32c(th_module_list_at(all, 4)));
    ck_assert_double_eq(at(th_module_list_at(some, 1), "weight", 1), (double)(float)cos(1));
}
END_TEST

/* -- memory -- */

START_TEST(matrices_have_one_moment)
{
    th_module *m = th_module_list_new(ctx);
    for (int i = 0; i < 3; i++)
        th_module_list_add(m, th_dense_new(ctx, 64, 64, NULL));
    th_optimizer *o = th_muon_new(m, &usual);
    ck_assert_int_eq(
        th_backward(th_sum(th_module_forward(m, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 64))), TH_ALL_AXES, NULL), NULL),
        TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    const th_moments *moments = o->moments;
    ck_assert_uint_eq(th_moment_offset(moments, 0, moments->end), 3 * (64 + 1) * 64 * sizeof(float));
    ck_assert_uint_eq(th_moment_offset(moments, 1, moments->end), 3 * 64 * sizeof(float));
    ck_assert_int_eq(th_moments_of(o, &o->parameters[0]), 1);
    ck_assert_int_eq(th_moments_of(o, &o->parameters[1]), 2);
}
END_TEST

/* The moments of a model that was float64 for a while continue where they were. */
START_TEST(moments_follow_a_conversion)
{
    th_module *m = dense_new(), *same = dense_new();
    th_optimizer *o = th_muon_new(m, &usual), *other = th_muon_new(same, &usual);
    for (int i = 0; i < 2; i++) {
        step(m, o, 1 + i);
        step(same, other, 1 + i);
    }
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT32), TH_OK);
    step(m, o, 3);
    step(same, other, 3);
    ck_assert_uint_eq(th_module_crc32c(m), th_module_crc32c(same));
}
END_TEST

START_TEST(a_conversion_of_one_matrix_moves_its_moment)
{
    th_module *m = th_module_list_new(ctx), *first = th_module_list_add(m, th_dense_new(ctx, 3, 3, NULL));
    th_module_list_add(m, th_dense_new(ctx, 3, 3, NULL));
    th_optimizer *o = th_muon_new(m, &usual);
    th_tensor *x = th_full(ctx, TH_FLOAT32, TH_SHAPE(2, 3), 0.5);
    ck_assert_int_eq(th_backward(th_sum(th_module_forward(m, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    th_tape_clear(ctx);
    float before[9];
    memcpy(before, th_moment_part_of(&o->parameters[0], 0).data, sizeof before);
    ck_assert_int_eq(th_module_cast(first, TH_FLOAT64), TH_OK);
    const th_moment_part after = th_moment_part_of(&o->parameters[0], 0);
    for (int i = 0; i < 9; i++)
        ck_assert_double_eq(((const double *)(const void *)after.data)[i], (double)before[i]);
    ck_assert_int_eq(o->parameters[0].moments->n_matrices, 1);
}
END_TEST

/* A vector, alone or with its matrix, moves to where a larger matrix was that has been freed. The moments of that block have
 * no second moment there. */
START_TEST(a_conversion_reuses_the_place_of_a_freed_matrix)
{
    const th_dense_layer_options no_bias = {.no_bias = true};
    th_module *m = th_module_list_new(ctx), *last = _i ? th_rms_norm_new(ctx, 3, NULL) : th_dense_new(ctx, 3, 3, NULL);
    th_module *layer[] = {th_dense_new(ctx, 3, 3, NULL), th_dense_new(ctx, 3, 20, &no_bias), last};
    for (int i = 0; i < 3; i++)
        th_module_list_add(m, layer[i]);
    th_optimizer *o = th_muon_new(m, &usual);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(backward(layer[i], 1), TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    float before[3];
    memcpy(before, th_moment_part_of(&o->parameters[o->count - 1], 1).data, sizeof before);
    ck_assert_int_eq(th_module_cast(layer[0], TH_FLOAT64), TH_OK);
    ck_assert_int_eq(th_module_cast(layer[1], TH_FLOAT64), TH_OK);
    th_module_free(layer[1]);
    ck_assert_int_eq(th_module_cast(last, TH_FLOAT64), TH_OK);
    const th_optimizer_parameter *vector = &o->parameters[o->count - 1];
    const th_moment_part after = th_moment_part_of(vector, 1);
    const char *first = vector->moments->moment[1];
    ck_assert_int_eq(vector->tensor->ndim, 1);
    ck_assert(after.data >= first &&
              after.data + after.end <= first + th_moment_offset(vector->moments, 1, vector->moments->end));
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq(((const double *)(const void *)after.data)[i], (double)before[i]);
}
END_TEST

START_TEST(shapes_only_contexts_forecast_the_memory)
{
    int64_t bytes[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *c = th_context_new(&(th_context_options){.shapes_only = shapes_only, .threads = 2});
        th_module *m = th_dense_new(c, 40, 50, NULL);
        th_optimizer *o = th_muon_new(m, &usual);
        ck_assert_int_eq(
            th_backward(th_sum(th_module_forward(m, th_zeros(c, TH_FLOAT32, TH_SHAPE(2, 40))), TH_ALL_AXES, NULL),
                        NULL),
            TH_OK);
        ck_assert_int_eq(th_optimizer_step(o), TH_OK);
        bytes[shapes_only] = (int64_t)th_memory(c).peak;
        th_context_free(c);
    }
    ck_assert_int_eq(bytes[0], bytes[1]);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("Muon", setup, close_context);
    tcase_add_loop_test(tests, embeddings_classifiers_norms_and_biases_are_no_matrices, 0, 2);
    tcase_add_test(tests, projections_with_their_own_weights_are_one_matrix_each);
    tcase_add_test(tests, a_transformer_classifies_with_adam_w);
    tcase_add_test(tests, factors_of_adapters_are_matrices);
    tcase_add_test(tests, groups_choose_parameters);
    tcase_add_test(tests, own_modules_need_a_group);
    tcase_add_test(tests, wrong_options_are_refused);
    tcase_add_test(tests, impossible_choices_are_refused);
    tcase_add_test(tests, groups_scale_both_kinds);
    tcase_add_test(tests, a_group_can_keep_a_matrix);
    tcase_add_test(tests, the_learning_rate_scales_both_kinds);
    tcase_add_test(tests, one_rate_suffices_if_it_is_adjusted_to_adam_w);
    tcase_add_loop_test(tests, both_iterations_make_steps_orthogonal, TH_MUON_JORDAN, TH_MUON_POLAR_EXPRESS + 1);
    tcase_add_test(tests, clipped_gradients_enter_the_moments);
    tcase_add_test(tests, a_refused_step_changes_nothing);
    tcase_add_test(tests, huge_gradients_give_finite_steps);
    tcase_add_test(tests, a_matrix_without_gradient_only_decays);
    tcase_add_test(tests, frozen_matrices_do_not_change);
    tcase_add_test(tests, matrices_do_not_depend_on_each_other);
    tcase_add_test(tests, matrices_have_one_moment);
    tcase_add_test(tests, moments_follow_a_conversion);
    tcase_add_test(tests, a_conversion_of_one_matrix_moves_its_moment);
    tcase_add_loop_test(tests, a_conversion_reuses_the_place_of_a_freed_matrix, 0, 2);
    tcase_add_test(tests, shapes_only_contexts_forecast_the_memory);
    return run_suites();
}

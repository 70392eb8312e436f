/* Tests modules: names, iteration, scopes, modes, conversion, freeing; and the memory blocks of parameters
 * (src/tensor/parameter.c). */
#include <math.h>
#include <string.h>

#include "tapehead/tapehead.h"
#include "tensor/parameter.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 7, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

/* A model as a user writes it: an embedding, a list of dense layers, an output tied to the embedding. */
typedef struct {
    th_module base;
    th_module *embedding, *layers;
    th_tensor *scale, *output;
} model;

static th_tensor *model_forward(th_module *base, th_tensor *tokens)
{
    const model *m = (const model *)base;
    th_tensor *h = th_module_forward(m->embedding, tokens);
    for (int64_t i = 0; i < th_module_list_length(m->layers); i++)
        h = th_module_forward(th_module_list_at(m->layers, i), h);
    return th_dense(h, m->output, NULL);
}

static th_module *model_new(void)
{
    model *m = th_module_new(ctx, sizeof *m, "model", model_forward);
    ck_assert_ptr_nonnull(m);
    m->scale = th_module_add_parameter(&m->base, "scale", TH_SCALAR);
    m->embedding = th_module_add(&m->base, "embedding", th_embedding_new(ctx, 5, 4));
    m->layers = th_module_add(&m->base, "layers", th_module_list_new(ctx));
    for (int i = 0; i < 2; i++)
        th_module_list_add(m->layers, th_dense_new(ctx, 4, 4, NULL));
    m->output = th_module_tie_parameter(&m->base, "output", th_module_find_parameter(m->embedding, "weight"));
    no_error();
    return &m->base;
}

START_TEST(names_and_order)
{
    th_module *m = model_new();
    static const char *const expected[] = {"scale",         "output",          "layers.0.weight",
                                           "layers.0.bias", "layers.1.weight", "layers.1.bias"};
    int count = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p); count++) {
        ck_assert_int_lt(count, 6);
        ck_assert_str_eq(p.name, expected[count]);
        ck_assert_ptr_eq(th_module_find_parameter(m, p.name), p.tensor);
        ck_assert(th_requires_gradient(p.tensor));
    }
    ck_assert_int_eq(count, 6); /* the tied parameter is visited once, at its first use */
    ck_assert_ptr_eq(th_module_find_parameter(m, "embedding.weight"), th_module_find_parameter(m, "output"));
    ck_assert_int_eq(th_module_count(m), 1 + 20 + 2 * (16 + 4));
    ck_assert_ptr_null(th_module_find_parameter(m, "layers.2.weight"));
    ck_assert_ptr_null(th_module_find_parameter(m, "layer.0.weight"));
    ck_assert_ptr_null(th_module_find_parameter(m, "weight"));
    th_module *second = th_module_find(m, "layers.1");
    ck_assert_ptr_nonnull(second);
    char name[TH_FULL_NAME_SIZE];
    ck_assert_str_eq(th_module_full_name(second, name), "layers.1");
    ck_assert_str_eq(th_module_full_name(m, name), "");
    ck_assert_ptr_eq(th_module_find(m, ""), m);
    /* Names are relative to the member. */
    th_parameter_iterator p = th_module_parameters(second);
    ck_assert(th_parameter_next(&p));
    ck_assert_str_eq(p.name, "weight");
    /* The embedding alone has its weight. */
    ck_assert_int_eq(th_module_count(th_module_find(m, "embedding")), 20);
    no_error();
}
END_TEST

START_TEST(errors_of_the_tree)
{
    th_module *m = model_new(), *spare = th_dense_new(ctx, 2, 2, NULL);
    th_context *other = th_context_new(NULL);
    th_module *foreign = th_dense_new(other, 2, 2, NULL);
    char longest[TH_NAME_SIZE + 1];
    memset(longest, 'x', TH_NAME_SIZE);
    longest[TH_NAME_SIZE] = 0;

    ck_assert_ptr_null(th_module_add(m, "a.b", spare));
    expect_error(TH_ERROR_ARGUMENT, "without a dot");
    ck_assert_ptr_null(th_module_add(m, "", spare));
    expect_error(TH_ERROR_ARGUMENT, "needs a name");
    ck_assert_ptr_null(th_module_add(m, NULL, spare));
    expect_error(TH_ERROR_ARGUMENT, "needs a name");
    ck_assert_ptr_null(th_module_add(m, longest, spare));
    expect_error(TH_ERROR_ARGUMENT, "1 to 63 bytes");
    ck_assert_ptr_null(th_module_add(m, "layers", spare));
    expect_error(TH_ERROR_ARGUMENT, "already has a member \"layers\"");
    ck_assert_ptr_null(th_module_add_parameter(m, "scale", TH_SCALAR));
    expect_error(TH_ERROR_ARGUMENT, "already has a member \"scale\"");
    ck_assert_ptr_null(th_module_add(m, "self", m));
    expect_error(TH_ERROR_ARGUMENT, "contain itself");
    ck_assert_ptr_null(th_module_add(th_module_find(m, "layers.0"), "up", m));
    expect_error(TH_ERROR_ARGUMENT, "contain itself");
    ck_assert_ptr_null(th_module_add(spare, "stolen", th_module_find(m, "embedding")));
    expect_error(TH_ERROR_ARGUMENT, "already is the member \"embedding\" of model");
    ck_assert_ptr_null(th_module_add(m, "foreign", foreign));
    expect_error(TH_ERROR_ARGUMENT, "another context");
    ck_assert_ptr_null(th_module_add_parameter(m, "p", TH_SHAPE(-1)));
    expect_error(TH_ERROR_SHAPE, "negative");
    ck_assert_ptr_null(th_module_add_parameter(m, "p", TH_SHAPE(INT64_MAX, 2)));
    expect_error(TH_ERROR_SHAPE, "overflow");
    ck_assert_ptr_null(th_module_list_at(th_module_find(m, "layers"), 2));
    expect_error(TH_ERROR_INDEX, "index 2 is outside a list of 2");
    ck_assert_ptr_null(th_module_list_at(m, 0));
    expect_error(TH_ERROR_ARGUMENT, "not a list");
    ck_assert_ptr_null(th_module_tie_parameter(m, "tied", th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2))));
    expect_error(TH_ERROR_ARGUMENT, "parameter of a module");
    ck_assert_ptr_null(th_module_forward(NULL, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2))));
    expect_error(TH_ERROR_ARGUMENT, "the module is NULL");
    ck_assert_ptr_null(th_module_forward(spare, NULL));
    expect_error(TH_ERROR_ARGUMENT, "dense: x is NULL");
    ck_assert_int_eq(th_module_cast(m, TH_INT32), TH_ERROR_TYPE);
    expect_error(TH_ERROR_TYPE, "not int32");
    ck_assert_ptr_null(th_module_new(ctx, 8, "tiny", NULL));
    expect_error(TH_ERROR_ARGUMENT, "needs a type name");
    /* Names have a maximum length. */
    th_module *deep = m;
    longest[TH_NAME_SIZE - 1] = 0;
    for (int i = 0; i < 5 && deep; i++)
        deep = th_module_add(deep, longest, th_module_list_new(ctx));
    ck_assert_ptr_null(deep);
    expect_error(TH_ERROR_ARGUMENT, "longer than 255 bytes");
    /* With an error pending, calls do nothing and return NULL. */
    ck_assert_ptr_null(th_module_add(m, "", spare));
    ck_assert_ptr_null(th_dense_new(ctx, 2, 2, NULL));
    ck_assert_ptr_null(th_module_add(m, "child", th_dense_new(ctx, 2, 2, NULL)));
    ck_assert_ptr_null(th_module_new(ctx, sizeof(th_module), "m", NULL));
    expect_error(TH_ERROR_ARGUMENT, "needs a name");
    th_context_free(other);
}
END_TEST

START_TEST(scopes_have_the_names_of_modules)
{
    th_module *m = model_new();
    th_tensor *tokens = th_zeros(ctx, TH_INT32, TH_SHAPE(3));
    th_tensor *y = th_module_forward(m, tokens);
    ck_assert_ptr_nonnull(y);
    bool embedding = false, second = false;
    for (int64_t i = 0; i < th_tape_length(ctx); i++) {
        th_node_info info;
        ck_assert_int_eq(th_tape_node(ctx, i, &info), TH_OK);
        embedding |= strcmp(info.operation, "embedding") == 0 && strcmp(info.module, "embedding") == 0;
        second |= strcmp(info.operation, "dense") == 0 && strcmp(info.module, "layers.1") == 0;
    }
    ck_assert(embedding);
    ck_assert(second);
    /* An error message contains the name of the module. */
    th_tape_clear(ctx);
    th_module *layer = th_module_find(m, "layers.1");
    ck_assert_ptr_null(th_module_forward(layer, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 3))));
    expect_error(TH_ERROR_SHAPE, "layers.1");
    no_error();
}
END_TEST

/* A module that records the mode while it runs, and calls its child. */
static bool seen_training;

static th_tensor *look_forward(th_module *m, th_tensor *x)
{
    seen_training = th_is_training(m->ctx);
    return m->first ? th_module_forward(m->first, x) : th_scale(x, 2);
}

START_TEST(pinned_to_evaluation)
{
    th_module *outer = th_module_new(ctx, sizeof(th_module), "outer", look_forward);
    th_module *inner = th_module_add(outer, "inner", th_module_new(ctx, sizeof(th_module), "inner", look_forward));
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2));
    ck_assert(th_module_is_training(inner));
    th_module_forward(outer, x);
    ck_assert(seen_training);
    th_module_pin_evaluation(outer, true);
    ck_assert(!th_module_is_training(outer));
    ck_assert(!th_module_is_training(inner)); /* its parent is pinned */
    th_module_forward(outer, x);
    ck_assert(!seen_training);
    ck_assert(th_is_training(ctx)); /* the mode outside has not changed */
    th_module_forward(inner, x);
    ck_assert(!seen_training);
    th_module_pin_evaluation(outer, false);
    th_module_pin_evaluation(inner, true);
    ck_assert(th_module_is_training(outer));
    th_module_forward(outer, x);
    ck_assert(!seen_training);
    ck_assert(th_is_training(ctx));
    th_module_pin_evaluation(inner, false);
    th_set_training(ctx, false);
    ck_assert(!th_module_is_training(outer));
    no_error();
}
END_TEST

START_TEST(evaluating_between_steps)
{
    th_module *m = th_module_new(ctx, sizeof(th_module), "m", look_forward);
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), true);
    th_tensor *y = th_module_evaluate(m, x);
    ck_assert(!seen_training);
    ck_assert(!th_requires_gradient(y));
    ck_assert(th_is_training(ctx) && th_is_recording(ctx));
    ck_assert_int_eq(th_tape_length(ctx), 0);
    th_module_forward(m, x);
    ck_assert(seen_training);
    ck_assert_int_eq(th_tape_length(ctx), 1);
    ck_assert_ptr_null(th_module_evaluate(m, NULL));
    expect_error(TH_ERROR_ARGUMENT, "x is NULL");
    ck_assert(th_is_training(ctx) && th_is_recording(ctx));
}
END_TEST

START_TEST(a_failed_forward_leaves_the_mode_and_the_scopes)
{
    th_module *outer = th_module_new(ctx, sizeof(th_module), "outer", look_forward);
    th_module_add(outer, "inner", th_dense_new(ctx, 3, 3, NULL));
    th_module_pin_evaluation(outer, true);
    ck_assert_ptr_null(th_module_forward(outer, th_ones(ctx, TH_FLOAT32, TH_SHAPE(2))));
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_SHAPE);
    th_error_clear(ctx);
    ck_assert(th_is_training(ctx));
    ck_assert_ptr_nonnull(th_module_forward(outer, th_ones(ctx, TH_FLOAT32, TH_SHAPE(3))));
    th_module_free(outer); /* an error while its forward runs */
    no_error();
}
END_TEST

START_TEST(freezing)
{
    th_module *m = model_new();
    const int64_t all = th_module_count(m);
    ck_assert_int_eq(th_module_count_trainable(m), all);
    th_module *layers = th_module_find(m, "layers");
    th_tensor *tokens = th_zeros(ctx, TH_INT32, TH_SHAPE(3)), *weight = th_module_find_parameter(m, "layers.0.weight");
    ck_assert_int_eq(th_backward(th_mean(th_module_forward(m, tokens), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_ptr_nonnull(th_gradient(weight));
    th_tape_clear(ctx);
    ck_assert_int_eq(th_module_freeze(layers, true), TH_OK);
    ck_assert_int_eq(th_module_count_trainable(m), all - 40);
    ck_assert_int_eq(th_backward(th_mean(th_module_forward(m, tokens), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_ptr_null(th_gradient(weight));
    ck_assert_ptr_nonnull(th_gradient(th_module_find_parameter(m, "output")));
    th_tape_clear(ctx);
    ck_assert_int_eq(th_module_freeze(layers, false), TH_OK);
    ck_assert_int_eq(th_module_count_trainable(m), all);
    ck_assert_ptr_null(th_gradient(weight)); /* it was emptied */
    no_error();
}
END_TEST

START_TEST(conversion_in_place)
{
    th_module *m = model_new();
    th_tensor *weight = th_module_find_parameter(m, "layers.1.weight"), *tokens = th_zeros(ctx, TH_INT32, TH_SHAPE(3));
    float before[16], after[16];
    ck_assert_int_eq(th_copy_out(weight, before, sizeof before), TH_OK);
    const uint32_t crc = th_module_crc32c(m);
    ck_assert_int_eq(th_backward(th_mean(th_module_forward(m, tokens), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_ERROR_STATE); /* the tape uses them */
    expect_error(TH_ERROR_STATE, "th_tape_clear first");
    ck_assert_int_eq(th_dtype_of(weight), TH_FLOAT32);
    th_tape_clear(ctx);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
    ck_assert_int_eq(th_dtype_of(weight), TH_FLOAT64);
    ck_assert_ptr_null(th_gradient(weight));
    ck_assert(th_module_crc32c(m) != crc);
    double wide[16];
    ck_assert_int_eq(th_copy_out(weight, wide, sizeof wide), TH_OK);
    for (int i = 0; i < 16; i++)
        ck_assert(wide[i] == (double)before[i]);
    ck_assert_int_eq(th_dtype_of(th_module_forward(m, tokens)), TH_FLOAT64);
    ck_assert_int_eq(th_backward(th_mean(th_module_forward(m, tokens), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_int_eq(th_dtype_of(th_gradient(weight)), TH_FLOAT64);
    th_tape_clear(ctx);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT32), TH_OK);
    ck_assert_int_eq(th_copy_out(weight, after, sizeof after), TH_OK);
    ck_assert_int_eq(memcmp(before, after, sizeof before), 0);
    ck_assert_uint_eq(th_module_crc32c(m), crc);
    no_error();
}
END_TEST

START_TEST(conversion_out_of_memory_changes_nothing)
{
    th_context *small = th_context_new(&(th_context_options){.threads = 1, .memory_limit = 2 << 20});
    th_module *m = th_dense_new(small, 256, 512, NULL); /* half a MiB; another MiB for float64 exceeds the limit */
    ck_assert_ptr_nonnull(m);
    const uint32_t crc = th_module_crc32c(m);
    th_tensor *rest = th_empty(small, TH_FLOAT32, TH_SHAPE(1 << 17));
    (void)rest;
    const size_t live = th_memory(small).live;
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_ERROR_MEMORY);
    th_error_clear(small);
    ck_assert_uint_eq(th_memory(small).live, live);
    ck_assert_uint_eq(th_module_crc32c(m), crc);
    ck_assert_int_eq(th_dtype_of(th_module_find_parameter(m, "weight")), TH_FLOAT32);
    th_context_free(small);
}
END_TEST

START_TEST(freeing_releases_all_memory)
{
    th_tensor *tokens = th_zeros(ctx, TH_INT32, TH_SHAPE(3));
    size_t live[6];
    for (int i = 0; i < 6; i++) {
        th_module *m = model_new();
        ck_assert_int_eq(th_backward(th_mean(th_module_forward(m, tokens), TH_ALL_AXES, NULL), NULL), TH_OK);
        th_tensor *weight = th_module_find_parameter(m, "layers.0.weight");
        th_tensor_free(weight); /* does nothing: the module owns it */
        ck_assert_int_eq(th_numel(weight), 16);
        th_module_free(th_module_find(m, "layers.0")); /* frees a member while the tape uses its parameters */
        ck_assert_int_eq(th_module_count(m), 1 + 20 + 20);
        th_module_free(m);
        th_module_free(NULL);
        ck_assert_ptr_nonnull(ctx->parameter_blocks); /* freed by th_tape_clear */
        th_tape_clear(ctx);
        ck_assert_ptr_null(ctx->parameter_blocks);
        live[i] = th_memory(ctx).live;
    }
    ck_assert_uint_eq(live[5], live[4]); /* the first rounds allocate pages of handles */
    ck_assert_uint_eq(live[4], live[3]);
    no_error();
}
END_TEST

START_TEST(a_tied_parameter_lives_as_long_as_an_owner)
{
    th_module *embedding = th_embedding_new(ctx, 3, 2), *user = th_module_new(ctx, sizeof(th_module), "user", NULL);
    th_tensor *weight = th_module_find_parameter(embedding, "weight");
    th_module_tie_parameter(user, "weight", weight);
    const double value = th_get(weight, TH_INDEX(2, 1));
    th_module_free(embedding);
    ck_assert(th_get(weight, TH_INDEX(2, 1)) == value);
    ck_assert_int_eq(th_module_count(user), 6);
    th_module_free(user);
    ck_assert_ptr_null(ctx->parameter_blocks);
    no_error();
}
END_TEST

static int destroyed;

static void count_destroy(th_module *m)
{
    ck_assert_ptr_nonnull(m->ctx);
    destroyed++;
}

static th_tensor *forward_that_frees_its_module(th_module *m, th_tensor *x)
{
    th_module_free(m->parent);
    return x;
}

START_TEST(destroy_hooks_and_freeing_at_the_wrong_moment)
{
    destroyed = 0;
    th_module *outer = th_module_new(ctx, sizeof(th_module), "outer", look_forward);
    th_module *inner =
        th_module_add(outer, "inner", th_module_new(ctx, sizeof(th_module), "inner", forward_that_frees_its_module));
    outer->destroy = inner->destroy = count_destroy;
    ck_assert_ptr_null(th_module_forward(outer, th_ones(ctx, TH_FLOAT32, TH_SHAPE(2))));
    expect_error(TH_ERROR_STATE, "while its forward runs");
    ck_assert_int_eq(destroyed, 0);
    th_module_free(outer);
    ck_assert_int_eq(destroyed, 2);
    th_context *another = th_context_new(NULL);
    th_module *left = th_module_new(another, sizeof(th_module), "left", NULL);
    left->destroy = count_destroy;
    th_context_free(another);
    ck_assert_int_eq(destroyed, 3);
}
END_TEST

START_TEST(parameters_are_in_blocks_that_never_move)
{
    th_module *list = th_module_list_new(ctx);
    th_module *first = th_module_list_add(list, th_dense_new(ctx, 7, 5, NULL));
    const char *weight = th_data(th_module_find_parameter(first, "weight")),
               *bias = th_data(th_module_find_parameter(first, "bias"));
    ck_assert_uint_eq((uintptr_t)weight % 64, 0);
    ck_assert_int_eq(bias - weight, 192); /* 35 floats, rounded up to cache lines */
    for (int i = 0; i < 40; i++)
        th_module_list_add(list, th_dense_new(ctx, 64, 64, NULL));
    ck_assert_ptr_eq(th_data(th_module_find_parameter(first, "weight")), weight);
    int blocks = 0;
    for (const th_parameter_block *b = ctx->parameter_blocks; b; b = b->next)
        blocks++;
    ck_assert_int_ge(blocks, 2);
    ck_assert_int_le(blocks, 7); /* each is at least half as large as all earlier blocks together */
    /* Gradients have the same layout. */
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 7));
    ck_assert_int_eq(th_backward(th_mean(th_module_forward(first, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    const char *dw = th_data(th_gradient(th_module_find_parameter(first, "weight")));
    const char *db = th_data(th_gradient(th_module_find_parameter(first, "bias")));
    ck_assert_int_eq(db - dw, 192);
    /* Reused memory contains zeros, for the gradient too. */
    th_module *last = th_module_list_add(list, th_dense_new(ctx, 4, 4, NULL));
    const char *memory = th_data(th_module_find_parameter(last, "weight"));
    th_module_free(last);
    th_module *holder = th_module_new(ctx, sizeof(th_module), "holder", NULL);
    th_tensor *again = th_module_add_parameter(holder, "again", TH_SHAPE(4, 4));
    ck_assert_ptr_eq(th_data(again), memory);
    for (int i = 0; i < 16; i++)
        ck_assert(((const float *)th_data(again))[i] == 0);
    no_error();
}
END_TEST

START_TEST(checksums)
{
    th_module *m = th_module_new(ctx, sizeof(th_module), "m", NULL);
    ck_assert_uint_eq(th_module_crc32c(m), 0); /* no bytes */
    th_tensor *p = th_module_add_parameter(m, "p", TH_SHAPE(8));
    ck_assert_uint_eq(th_module_crc32c(m), 0x8A9136AA); /* 32 zero bytes: RFC 3720, B.4 */
    memset(th_data(p), 0xFF, 32);
    ck_assert_uint_eq(th_module_crc32c(m), 0x62A8AB43); /* 32 bytes 0xFF */
    unsigned char *bytes = th_data(p);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    ck_assert_uint_eq(th_module_crc32c(m), 0x46DD794E); /* the bytes 0 .. 31 */
    /* Several parameters give the same. */
    th_module *parts = th_module_new(ctx, sizeof(th_module), "parts", NULL);
    th_tensor *a = th_module_add_parameter(parts, "a", TH_SHAPE(3)),
              *b = th_module_add_parameter(parts, "b", TH_SHAPE(5));
    memcpy(th_data(a), bytes, 12);
    memcpy(th_data(b), bytes + 12, 20);
    ck_assert_uint_eq(th_module_crc32c(parts), 0x46DD794E);
    no_error();
}
END_TEST

START_TEST(gradients_are_listed_as_ranges_of_memory)
{
    enum { CAPACITY = 8 };
    th_gradient_range range[CAPACITY];
    th_module *m = th_transformer_block_new(ctx, 32, 2, NULL), *big = th_dense_new(ctx, 256, 256, NULL);
    th_module *both = th_module_list_new(ctx);
    th_module_list_add(both, m);
    th_module_list_add(both, big);
    ck_assert_int_eq(th_module_gradients(both, range, CAPACITY), 0);
    th_tensor *loss = th_sum(th_module_forward(m, th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 3, 32))), TH_ALL_AXES, NULL);
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 256));
    loss = th_add(loss, th_sum(th_module_forward(big, x), TH_ALL_AXES, NULL));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    const int64_t n = th_module_gradients(both, range, CAPACITY);
    ck_assert_int_ge(n, 1);
    ck_assert_int_le(n, 3);
    ck_assert_int_eq(th_module_gradients(both, NULL, 0), n);
    double listed = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        ck_assert_int_eq(range[i].dtype, TH_FLOAT32);
        for (int64_t k = 0; k < range[i].count; k++)
            listed += (double)((float *)range[i].data)[k];
    }
    for (th_parameter_iterator p = th_module_parameters(both); th_parameter_next(&p);)
        all += th_item(th_sum(th_cast(th_gradient(p.tensor), TH_FLOAT64), TH_ALL_AXES, NULL));
    ck_assert_double_eq_tol(listed, all, 1e-9 * fabs(all));
    /* Without the gradient of one parameter, its neighbors are in two ranges. */
    th_empty_gradient(th_module_find_parameter(m, "linear1.weight"));
    ck_assert_int_eq(th_module_gradients(both, range, CAPACITY), n + 1);
    *(float *)range[0].data = 123;
    ck_assert_int_eq(th_module_gradients(NULL, range, CAPACITY), 0);
    expect_error(TH_ERROR_ARGUMENT, "the module is NULL");
}
END_TEST

START_TEST(shapes_only)
{
    th_context *dry = th_context_new(&(th_context_options){.threads = 1, .shapes_only = true});
    th_module *m = th_dense_new(dry, 1024, 4096, NULL), *wet = th_dense_new(ctx, 1024, 4096, NULL);
    ck_assert_ptr_nonnull(m);
    ck_assert_ptr_nonnull(wet);
    ck_assert_uint_ge(th_memory(dry).live, 1024 * 4096 * 4);
    ck_assert_uint_eq(th_module_crc32c(m), 0);
    th_tensor *x = th_zeros(dry, TH_FLOAT32, TH_SHAPE(2, 1024));
    ck_assert_int_eq(th_backward(th_mean(th_module_forward(m, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_uint_ge(th_memory(dry).live, 2 * 1024 * 4096 * 4);
    ck_assert_uint_ge(th_memory(dry).reserved, th_memory(dry).live); /* counted as with data */
    ck_assert_msg(th_error_code(dry) == TH_OK, "%s", th_error_message(dry));
    th_context_free(dry);
}
END_TEST

int main(void)
{
    TCase *tree = new_suite("module", setup, close_context);
    tcase_add_test(tree, names_and_order);
    tcase_add_test(tree, errors_of_the_tree);
    tcase_add_test(tree, scopes_have_the_names_of_modules);
    tcase_add_test(tree, pinned_to_evaluation);
    tcase_add_test(tree, evaluating_between_steps);
    tcase_add_test(tree, a_failed_forward_leaves_the_mode_and_the_scopes);
    tcase_add_test(tree, freezing);
    tcase_add_test(tree, conversion_in_place);
    tcase_add_test(tree, conversion_out_of_memory_changes_nothing);
    tcase_add_test(tree, freeing_releases_all_memory);
    tcase_add_test(tree, a_tied_parameter_lives_as_long_as_an_owner);
    tcase_add_test(tree, destroy_hooks_and_freeing_at_the_wrong_moment);
    tcase_add_test(tree, parameters_are_in_blocks_that_never_move);
    tcase_add_test(tree, checksums);
    tcase_add_test(tree, gradients_are_listed_as_ranges_of_memory);
    tcase_add_test(tree, shapes_only);
    return run_suites();
}

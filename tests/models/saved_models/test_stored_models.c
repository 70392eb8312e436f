/* Stored weights in files and in generation: safetensors, checkpoints that resume with the same bits, generated text. */
#include <math.h>
#include <string.h>

#include "tapehead/models.h"

#include "models.h"

#include "folder.h"

#include "context.h"

static const th_dtype stored[] = {TH_BFLOAT16, TH_FLOAT16, TH_Q8_0, TH_Q4_0};
enum { STORED = sizeof stored / sizeof *stored, VOCABULARY = 50, WIDTH = 64, LENGTH = 12 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
    make_folder();
}

static void teardown(void)
{
    remove_folder();
    close_context();
}

static th_module *model_new(void)
{
    th_module *model = th_language_model_new(ctx, &(th_language_model_options){.vocabulary = VOCABULARY,
                                                                               .length = LENGTH,
                                                                               .width = WIDTH,
                                                                               .heads = 4,
                                                                               .layers = 2,
                                                                               .block = {.mlp_width = 96}});
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (th_ndim(p.tensor) == 2)
            th_set_requires_gradient(p.tensor, false);
    return model;
}

static th_module *stored_model_new(th_dtype dtype)
{
    th_module *model = model_new();
    ck_assert_int_eq(th_module_store(model, dtype), TH_OK);
    return model;
}

/* A new context, as a new process has. */
static void begin_again(uint64_t seed)
{
    th_context_free(ctx);
    ctx = th_context_new(&(th_context_options){.seed = seed, .threads = 2});
}

static th_optimizer *adam_of(th_module *model)
{
    return th_adam_new(model, &(th_adam_options){.learning_rate = 1e-3});
}

static double steps(th_module *model, th_optimizer *adam, int count)
{
    double last = 0;
    for (int i = 0; i < count; i++) {
        th_tensor *tokens = th_random_integers(ctx, TH_INT32, TH_SHAPE(2, LENGTH), 0, VOCABULARY);
        last = step_down(th_language_model_loss(model, tokens, tokens, NULL), adam);
        th_tensor_free(tokens);
    }
    return last;
}

START_TEST(a_checkpoint_resumes_with_the_same_bits)
{
    const th_dtype dtype = stored[_i];
    const char *path = in_folder("checkpoint");
    th_module *model = stored_model_new(dtype);
    th_optimizer *adam = adam_of(model);
    steps(model, adam, 2);
    ck_assert_int_eq(th_checkpoint_save(path, &(th_checkpoint){.model = model, .optimizer = adam}), TH_OK);
    ck_assert_int_eq(th_checkpoint_verify(ctx, path), TH_OK);
    const double expected = steps(model, adam, 3);
    const uint32_t checksum = th_module_crc32c(model);
    begin_again(77);
    model = stored_model_new(dtype);
    adam = adam_of(model);
    ck_assert_int_eq(th_checkpoint_load(path, &(th_checkpoint){.model = model, .optimizer = adam}), TH_OK);
    ck_assert(!th_requires_gradient(th_module_find_parameter(model, "embedding.weight")));
    ck_assert(steps(model, adam, 3) == expected);
    ck_assert_uint_eq(th_module_crc32c(model), checksum);
    /* another type of the model is an error that names the types */
    for (int other = 0; other < STORED; other++) {
        begin_again(1);
        model = stored_model_new(stored[other]);
        const uint32_t before = th_module_crc32c(model);
        th_status status = th_checkpoint_load(path, &(th_checkpoint){.model = model, .optimizer = adam_of(model)});
        if (stored[other] == dtype) {
            ck_assert_int_eq(status, TH_OK);
            continue;
        }
        expect_status(status, TH_ERROR_FILE, "embedding.weight");
        ck_assert_uint_eq(th_module_crc32c(model), before);
    }
    begin_again(1);
    model = model_new();
    adam = adam_of(model);
    expect_status(th_checkpoint_load(path, &(th_checkpoint){.model = model, .optimizer = adam}), TH_ERROR_FILE,
                  "embedding.weight");
}
END_TEST

START_TEST(weights_are_rounded_when_they_are_loaded)
{
    const th_dtype dtype = stored[_i];
    const char *path = in_folder("weights");
    th_module *model = model_new();
    ck_assert_int_eq(th_weights_save(model, path), TH_OK);
    ck_assert_int_eq(th_module_store(model, dtype), TH_OK);
    const uint32_t checksum = th_module_crc32c(model);
    begin_again(88);
    model = stored_model_new(dtype);
    ck_assert_uint_ne(th_module_crc32c(model), checksum);
    ck_assert_int_eq(th_weights_load(model, path, NULL), TH_OK); /* float32 to the storage type */
    ck_assert_uint_eq(th_module_crc32c(model), checksum);
    ck_assert_int_eq(th_weights_save(model, path), TH_OK);
    begin_again(99);
    model = stored_model_new(dtype);
    ck_assert_int_eq(th_weights_load(model, path, NULL), TH_OK); /* as they were stored */
    ck_assert_uint_eq(th_module_crc32c(model), checksum);
    ck_assert_int_eq(th_module_store(model, TH_FLOAT32), TH_OK);
    const uint32_t converted = th_module_crc32c(model);
    begin_again(11);
    model = model_new();
    const th_status status = th_weights_load(model, path, NULL);
    if (th_dtype_numbers(dtype) > 1) { /* U8 is not float32 */
        expect_status(status, TH_ERROR_FILE, "embedding.weight");
    } else {
        ck_assert_int_eq(status, TH_OK);
        ck_assert_uint_eq(th_module_crc32c(model), converted);
    }
}
END_TEST

START_TEST(safetensors_store_each_type)
{
    static const th_dtype read_as[] = {TH_FLOAT32, TH_FLOAT32, TH_INT32, TH_INT32};
    const char *path = in_folder("tensors");
    th_named_tensor tensors[STORED + 2];
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    for (int i = 0; i < STORED; i++)
        tensors[i] =
            (th_named_tensor){names[i], th_cast(th_randn(ctx, TH_FLOAT32, TH_SHAPE(700, i < 2 ? 3 : 96)), stored[i])};
    tensors[STORED] = (th_named_tensor){"e", th_slice(tensors[2].tensor, 1, 1, 2, 1)}; /* strided blocks */
    tensors[STORED + 1] = (th_named_tensor){"f", th_ones(ctx, TH_BOOL, TH_SHAPE(3))};
    ck_assert_int_eq(th_safetensors_write(ctx, path, tensors, STORED + 2, NULL, 0), TH_OK);
    th_safetensors *file = th_safetensors_open(ctx, path);
    ck_assert_msg(file != NULL, "%s", th_error_message(ctx));
    for (int i = 0; i < STORED + 1; i++) {
        const th_dtype dtype = th_dtype_of(tensors[i].tensor);
        th_tensor *t = th_zeros(ctx, dtype, th_shape_of(tensors[i].tensor));
        ck_assert_int_eq(th_safetensors_read_into(file, names[i], t), TH_OK);
        ck_assert_mem_eq(th_data_const(t), th_data_const(th_keep(tensors[i].tensor)),
                         (size_t)th_numel(t) * th_dtype_size(dtype));
        th_tensor *plain = th_safetensors_read(file, names[i]);
        ck_assert_int_eq(th_dtype_of(plain), read_as[i < STORED ? i : 2]);
        if (i < 2)
            ck_assert_mem_eq(th_data_const(plain), th_data_const(th_cast(t, TH_FLOAT32)), 700 * 3 * sizeof(float));
        else
            ck_assert_int_eq(th_size(plain, 1), th_size(t, 1) * (int64_t)th_dtype_size(dtype));
        expect_status(th_safetensors_read_into(file, names[i], th_zeros(ctx, dtype, TH_SHAPE(699, 1))), TH_ERROR_SHAPE,
                      "(699, 1)");
    }
    expect_status(th_safetensors_read_into(file, "c", th_zeros(ctx, TH_BFLOAT16, TH_SHAPE(700, 102))), TH_ERROR_TYPE,
                  "bfloat16");
    th_safetensors_close(file);
}
END_TEST

START_TEST(what_arrays_and_pages_refuse)
{
    th_module *model = stored_model_new(TH_Q8_0);
    th_tensor *weight = th_module_find_parameter(model, "embedding.weight");
    expect_status(th_npy_write(weight, in_folder("array.npy")), TH_ERROR_TYPE, "q8_0");
    th_keep_values(ctx, true);
    th_tensor *tokens = th_zeros(ctx, TH_INT32, TH_SHAPE(1, 4));
    th_tensor *loss = th_language_model_loss(model, tokens, tokens, NULL);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    expect_status(th_tape_write_html(ctx, in_folder("page.html"), NULL), TH_ERROR_TYPE, "stored as q8_0");
    expect_status(th_tape_write_python(ctx, in_folder("tape.py"), NULL), TH_ERROR_TYPE, "stored as q8_0");
    FILE *file = fopen(in_folder("tape"), "w+");
    ck_assert_int_eq(th_tape_print(ctx, file, NULL), TH_OK);
    ck_assert_int_eq(th_tape_print_dot(ctx, file), TH_OK);
    fclose(file);
    size_t bytes;
    char *text = read_bytes(in_folder("tape"), &bytes);
    ck_assert_ptr_nonnull(strstr(text, "q8_0"));
    free(text);
    th_tape_clear(ctx);
}
END_TEST

START_TEST(generation_from_a_stored_model)
{
    for (int type = 0; type < STORED; type++) {
        th_module *model = model_new();
        ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
        ck_assert_int_eq(th_module_store(model, stored[type]), TH_OK);
        th_tensor *prompts = th_zeros(ctx, TH_INT32, TH_SHAPE(2, 3)), *text[2];
        for (int converted = 0; converted < 2; converted++) {
            const th_generate_options options = {.prompts = prompts, .max_new_tokens = 8};
            th_generated result = {0};
            ck_assert_int_eq(th_generate(model, &options, &result), TH_OK);
            text[converted] = th_keep(result.tokens);
            th_tape_clear(ctx);
            ck_assert_int_eq(th_module_store(model, TH_FLOAT32), TH_OK);
        }
        ck_assert_mem_eq(th_data_const(text[0]), th_data_const(text[1]), 16 * sizeof(int32_t));
        th_module_free(model);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("stored models", setup, teardown);
    tcase_add_loop_test(tests, a_checkpoint_resumes_with_the_same_bits, 0, STORED);
    tcase_add_loop_test(tests, weights_are_rounded_when_they_are_loaded, 0, STORED);
    tcase_add_test(tests, safetensors_store_each_type);
    tcase_add_test(tests, what_arrays_and_pages_refuse);
    tcase_add_test(tests, generation_from_a_stored_model);
    return run_suites();
}

/* Files of weights, and the weights of checkpoints: copies between models, other names, missing and tied weights. */
#include "tapehead/models.h"

#include "checkpoint_pair.h"

static const char *renamed(const char *parameter, void *user)
{
    static char name[64];
    snprintf(name, sizeof name, "%s%s", (const char *)user, parameter);
    return strcmp(parameter, "first.bias") == 0 ? NULL : name;
}

START_TEST(weights_are_copied_between_models)
{
    step();
    save();
    const uint32_t crc = th_module_crc32c(model);
    char weights[256];
    strcpy(weights, in_folder("weights.safetensors"));
    ck_assert_int_eq(th_weights_save(model, weights), TH_OK);
    for (int from_checkpoint = 0; from_checkpoint < 2; from_checkpoint++) {
        th_module *fresh = pair_new(3);
        ck_assert_uint_ne(th_module_crc32c(fresh), crc);
        ck_assert_msg(th_weights_load(fresh, from_checkpoint ? path : weights, NULL) == TH_OK, "%s",
                      th_error_message(ctx));
        ck_assert_uint_eq(th_module_crc32c(fresh), crc);
    }
    th_module *wide = pair_new(3);
    ck_assert_int_eq(th_module_cast(wide, TH_FLOAT64), TH_OK);
    ck_assert_int_eq(th_weights_load(wide, weights, NULL), TH_OK);
    ck_assert_double_eq(th_get(th_module_find_parameter(wide, "first.weight"), TH_INDEX(1, 2)),
                        th_get(th_module_find_parameter(model, "first.weight"), TH_INDEX(1, 2)));
    ck_assert_int_eq(th_module_cast(wide, TH_FLOAT32), TH_OK);
    ck_assert_uint_eq(th_module_crc32c(wide), crc);
}
END_TEST

static void flip_byte(size_t from_the_end)
{
    size_t count;
    char *bytes = read_bytes(path, &count);
    bytes[count - from_the_end] ^= 1;
    write_bytes(path, bytes, count);
    free(bytes);
}

/* Weights are loaded from a checkpoint whose moments are damaged. Loading the whole checkpoint is an error. */
START_TEST(only_damage_in_the_part_that_is_read_is_an_error)
{
    step();
    save();
    ck_assert_int_eq(th_checkpoint_verify(ctx, path), TH_OK);
    const uint32_t crc = th_module_crc32c(model);
    th_module *fresh = pair_new(3);
    flip_byte(100); /* in a moment */
    ck_assert_msg(th_weights_load(fresh, path, NULL) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_uint_eq(th_module_crc32c(fresh), crc);
    expect_status(load(), TH_ERROR_FILE, "the checksum of tensor \".optimizer.");
    expect_status(th_checkpoint_verify(ctx, path), TH_ERROR_FILE, "the checksum of tensor \".optimizer.");
    flip_byte(100);
    flip_byte(10 * 4 + 2 * 56 + 20); /* in a weight: before it are 10 checksums, and two moments of 56 bytes */
    expect_status(th_weights_load(fresh, path, NULL), TH_ERROR_FILE, "the checksum of tensor \"");
    ck_assert_ptr_null(strstr(th_error_message(ctx), ".optimizer"));
    expect_status(th_checkpoint_verify(ctx, in_folder("nothing")), TH_ERROR_FILE, "No such file");
    ck_assert_int_eq(th_weights_save(model, path), TH_OK);
    expect_status(th_checkpoint_verify(ctx, path), TH_ERROR_FILE, "it is not a checkpoint");
    expect_status(th_checkpoint_verify(ctx, NULL), TH_ERROR_ARGUMENT, "NULL");
}
END_TEST

START_TEST(weights_can_be_renamed_skipped_or_missing)
{
    th_tensor *weight = th_randn(ctx, TH_FLOAT64, TH_SHAPE(3, 3)), *scale = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2));
    const th_named_tensor tensors[] = {{"model.first.weight", weight}, {"model.second.scale", scale}, {"head", scale}};
    ck_assert_int_eq(th_safetensors_write(ctx, path, tensors, 3, NULL, 0), TH_OK);
    th_weights_options options = {
        .name_in_file = renamed, .user = "model.", .report = receive_line, .report_user = lines};
    const double bias = th_get(th_module_find_parameter(model, "first.bias"), TH_INDEX(0));
    lines[0] = 0;
    expect_status(th_weights_load(model, path, &options), TH_ERROR_FILE, "unexpected: head (2) (in all: 1 unexpected)");
    ck_assert_str_eq(lines, "unexpected: head (2)\n");
    FILE *output = tmpfile();
    th_weights_options printing = options;
    printing.report = th_report_print;
    printing.report_user = output;
    expect_status(th_weights_load(model, path, &printing), TH_ERROR_FILE, "unexpected");
    rewind(output);
    char line[64] = "";
    ck_assert_str_eq(fgets(line, sizeof line, output), "unexpected: head (2)\n");
    ck_assert_ptr_null(fgets(line, sizeof line, output));
    fclose(output);
    options.allow_unexpected = true;
    ck_assert_int_eq(th_weights_load(model, path, &options), TH_OK);
    ck_assert_double_eq(th_get(th_module_find_parameter(model, "first.bias"), TH_INDEX(0)), bias);
    ck_assert_double_eq(th_get(th_module_find_parameter(model, "first.weight"), TH_INDEX(2, 1)),
                        (float)th_get(weight, TH_INDEX(2, 1)));
    options.name_in_file = NULL;
    expect_status(
        th_weights_load(model, path, &options), TH_ERROR_FILE,
        "missing: first.weight (3, 3); missing: first.bias (3); missing: second.scale (2) (in all: 3 missing)");
    options.allow_missing = true;
    ck_assert_int_eq(th_weights_load(model, path, &options), TH_OK);
    const th_named_tensor integers = {"second.scale", th_zeros(ctx, TH_INT64, TH_SHAPE(2))};
    ck_assert_int_eq(th_safetensors_write(ctx, path, &integers, 1, NULL, 0), TH_OK);
    expect_status(th_weights_load(model, path, &options), TH_ERROR_FILE,
                  "different type: second.scale is I64 in the file");
}
END_TEST

/* A tied parameter may also be saved under its second name, as some programs do. */
START_TEST(tied_weights_may_be_stored_twice)
{
    const th_named_tensor tensors[] = {{"first.weight", th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 3))},
                                       {"second.weight", th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 3))},
                                       {"first.bias", th_ones(ctx, TH_FLOAT32, TH_SHAPE(3))},
                                       {"second.scale", th_ones(ctx, TH_FLOAT32, TH_SHAPE(2))}};
    ck_assert_int_eq(th_safetensors_write(ctx, path, tensors, 4, NULL, 0), TH_OK);
    ck_assert_msg(th_weights_load(model, path, NULL) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_double_eq(th_get(th_module_find_parameter(model, "second.weight"), TH_INDEX(0, 0)), 1);
}
END_TEST

/* Gradients of the old weights are gone after loading. */
START_TEST(loading_empties_gradients)
{
    char weights[256];
    strcpy(weights, in_folder("weights.safetensors"));
    ck_assert_int_eq(th_weights_save(model, weights), TH_OK);
    th_tensor *w = th_module_find_parameter(model, "first.weight");
    ck_assert_int_eq(th_backward(th_sum(th_mul(w, w), TH_ALL_AXES, NULL), NULL), TH_OK);
    th_tape_clear(ctx);
    ck_assert_ptr_nonnull(th_gradient(w));
    ck_assert_int_eq(th_weights_load(model, weights, NULL), TH_OK);
    ck_assert_ptr_null(th_gradient(w));
    th_error_clear(ctx);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("weights", setup, teardown);
    tcase_add_test(tests, weights_are_copied_between_models);
    tcase_add_test(tests, only_damage_in_the_part_that_is_read_is_an_error);
    tcase_add_test(tests, weights_can_be_renamed_skipped_or_missing);
    tcase_add_test(tests, tied_weights_may_be_stored_twice);
    tcase_add_test(tests, loading_empties_gradients);
    return run_suites();
}

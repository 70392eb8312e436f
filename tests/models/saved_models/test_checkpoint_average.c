/* Averages of weights in checkpoints: they are restored, differences are named, and the model alone can be loaded with
 * them. */
#include "tapehead/models.h"
#include "training/weight_average.h"

#include "checkpoint_pair.h"

static th_weight_average *average;

static const th_weight_average_options options = {.decay = 0.9, .warm_up = true};

static void setup_with_average(void)
{
    setup();
    average = th_weight_average_new(model, &options);
}

static th_checkpoint averaged_run(void)
{
    th_checkpoint c = run();
    c.average = average;
    return c;
}

static void train(int steps)
{
    for (int i = 0; i < steps; i++) {
        step();
        ck_assert_int_eq(th_weight_average_update(average), TH_OK);
    }
}

static void save_averaged(void)
{
    const th_checkpoint c = averaged_run();
    ck_assert_msg(th_checkpoint_save(path, &c) == TH_OK, "%s", th_error_message(ctx));
}

static th_status load_averaged(void)
{
    const th_checkpoint c = averaged_run();
    lines[0] = 0;
    return th_checkpoint_load(path, &c);
}

static uint32_t crc_of_averages(void)
{
    ck_assert_int_eq(th_weight_average_swap(average), TH_OK);
    const uint32_t crc = th_module_crc32c(model);
    ck_assert_int_eq(th_weight_average_swap(average), TH_OK);
    return crc;
}

START_TEST(averages_continue_with_the_same_bits)
{
    train(3);
    save_averaged();
    train(4);
    const uint32_t weights = th_module_crc32c(model), averages = crc_of_averages();
    model = pair_new(3); /* a model without averages yet */
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.1});
    average = th_weight_average_new(model, &options);
    for (int repetition = 0; repetition < 2; repetition++) { /* the second one replaces averages */
        ck_assert_msg(load_averaged() == TH_OK, "%s", th_error_message(ctx));
        train(4);
        ck_assert_uint_eq(th_module_crc32c(model), weights);
        ck_assert_uint_eq(crc_of_averages(), averages);
        ck_assert_int_eq(average->parameters[0].updates, 7);
    }
}
END_TEST

START_TEST(loading_ends_an_exchange)
{
    train(2);
    save_averaged();
    const uint32_t weights = th_module_crc32c(model), averages = crc_of_averages();
    train(1);
    ck_assert_int_eq(th_weight_average_swap(average), TH_OK);
    ck_assert_int_eq(load_averaged(), TH_OK);
    ck_assert(!th_weight_average_is_swapped(average));
    ck_assert_uint_eq(th_module_crc32c(model), weights);
    ck_assert_uint_eq(crc_of_averages(), averages);
}
END_TEST

START_TEST(a_checkpoint_before_the_first_update_has_no_averages)
{
    save_averaged();
    train(2);
    ck_assert_int_eq(load_averaged(), TH_OK);
    const uint32_t weights = th_module_crc32c(model);
    ck_assert_uint_eq(crc_of_averages(), weights);
    ck_assert_int_eq(average->parameters[0].updates, 0);
}
END_TEST

START_TEST(without_averages_the_file_does_not_name_them)
{
    step();
    save();
    th_safetensors *file = th_safetensors_open(ctx, path);
    ck_assert_ptr_null(strstr(th_safetensors_metadata(file, "tapehead.state"), "average"));
    th_safetensors_close(file);
}
END_TEST

START_TEST(a_swapped_model_is_saved_only_without_its_averages)
{
    train(2);
    ck_assert_int_eq(th_weight_average_swap(average), TH_OK);
    const th_checkpoint c = averaged_run(), alone = {.model = model};
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_STATE, "call th_weight_average_swap before you save");
    const uint32_t averages = th_module_crc32c(model);
    ck_assert_int_eq(th_checkpoint_save(path, &alone), TH_OK);
    ck_assert_int_eq(th_weight_average_swap(average), TH_OK);
    ck_assert_int_eq(th_weights_load(model, path, NULL), TH_OK);
    ck_assert_uint_eq(th_module_crc32c(model), averages);
}
END_TEST

/* -- differences -- */

START_TEST(other_averages_are_differences)
{
    train(1);
    save_averaged();
    expect_status(load(), TH_ERROR_FILE, "the file has averages of weights, the program does not");
    average = th_weight_average_new(model, &(th_weight_average_options){.decay = 0.5});
    expect_status(load_averaged(), TH_ERROR_FILE, "different option");
    ck_assert_ptr_nonnull(strstr(lines, "the decay of the averages is 0.9"));
    ck_assert_ptr_nonnull(strstr(lines, "warms up in the file, but here it does not"));
    th_checkpoint c = averaged_run();
    c.other_options = true;
    ck_assert_int_eq(th_checkpoint_load(path, &c), TH_OK);
    save();
    expect_status(load_averaged(), TH_ERROR_FILE, "the file lacks averages of weights, the program has them");
}
END_TEST

START_TEST(averages_of_another_model_are_an_error)
{
    average = th_weight_average_new(pair_new(4), &options);
    const th_checkpoint c = averaged_run();
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT, "do not belong to pair");
}
END_TEST

/* The file has an average that the program's averages, of a part of the model, cannot have. */
START_TEST(averages_of_a_part_of_the_model)
{
    train(1);
    save_averaged();
    average = th_weight_average_new(th_module_find(model, "second"), &options);
    expect_status(load_averaged(), TH_ERROR_FILE, "first.bias has an average in the file, but not here");
    train(1);
    save_averaged();
    const uint32_t averages = crc_of_averages();
    train(1);
    ck_assert_int_eq(load_averaged(), TH_OK);
    ck_assert_uint_eq(crc_of_averages(), averages);
}
END_TEST

START_TEST(memory_may_run_out_anywhere)
{
    train(2);
    save_averaged();
    const uint32_t averages = crc_of_averages();
    model = pair_new(3);
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.1});
    average = th_weight_average_new(model, &options);
    const uint32_t before = th_module_crc32c(model);
    th_status status = TH_ERROR_MEMORY;
    int failures = 0;
    for (int call = 1; status != TH_OK; call++) {
        memory.fail_at = memory.calls + call;
        status = load_averaged();
        memory.fail_at = 0;
        if (status == TH_OK)
            break;
        failures++;
        expect_error(TH_ERROR_MEMORY, "out of memory");
        ck_assert_uint_eq(th_module_crc32c(model), before);
    }
    ck_assert_int_ge(failures, 5);
    ck_assert_uint_eq(crc_of_averages(), averages);
}
END_TEST

/* -- the model alone -- */

START_TEST(the_model_alone_has_the_averages)
{
    train(3);
    save_averaged();
    const uint32_t averages = crc_of_averages();
    model = pair_new(3);
    const th_checkpoint c = {.model = model, .only_model = true};
    ck_assert_msg(th_checkpoint_load(path, &c) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_uint_eq(th_module_crc32c(model), averages);
}
END_TEST

START_TEST(the_model_alone_without_averages)
{
    step();
    save();
    const uint32_t weights = th_module_crc32c(model);
    model = pair_new(3);
    const th_checkpoint c = {.model = model, .only_model = true}, with_optimizer = {.model = model};
    ck_assert_msg(th_checkpoint_load(path, &c) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_uint_eq(th_module_crc32c(model), weights);
    expect_status(th_checkpoint_load(path, &with_optimizer), TH_ERROR_FILE, "different optimizer");
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.1});
    th_checkpoint contradiction = run();
    contradiction.only_model = true;
    expect_status(th_checkpoint_load(path, &contradiction), TH_ERROR_ARGUMENT, "only_model needs no optimizer");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("checkpoint_average", setup_with_average, teardown);
    tcase_add_test(tests, averages_continue_with_the_same_bits);
    tcase_add_test(tests, loading_ends_an_exchange);
    tcase_add_test(tests, a_checkpoint_before_the_first_update_has_no_averages);
    tcase_add_test(tests, without_averages_the_file_does_not_name_them);
    tcase_add_test(tests, a_swapped_model_is_saved_only_without_its_averages);
    tcase_add_test(tests, other_averages_are_differences);
    tcase_add_test(tests, averages_of_another_model_are_an_error);
    tcase_add_test(tests, averages_of_a_part_of_the_model);
    tcase_add_test(tests, memory_may_run_out_anywhere);
    tcase_add_test(tests, the_model_alone_has_the_averages);
    tcase_add_test(tests, the_model_alone_without_averages);
    return run_suites();
}

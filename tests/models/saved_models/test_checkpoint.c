/* Checkpoints: what they restore, and how they differ from the program. Every difference is named. */
#include "tapehead/models.h"
#include "tensor/random_state.h"

#include "checkpoint_pair.h"

/* -- contents -- */

START_TEST(a_checkpoint_has_everything)
{
    step();
    ck_assert_int_eq(th_set_precision(ctx, TH_PRECISION_BFLOAT16X3), TH_OK);
    save();
    const uint32_t crc = th_module_crc32c(model);
    ck_assert_int_eq(th_set_precision(ctx, TH_PRECISION_FLOAT32), TH_OK);
    step();
    position = 0;
    best = 0;
    ck_assert_int_eq(th_optimizer_set_learning_rate(adam, 0.7), TH_OK);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    th_set_seed(ctx, 6);
    ck_assert_uint_ne(th_module_crc32c(model), crc);
    ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
    ck_assert_uint_eq(th_module_crc32c(model), crc);
    ck_assert_int_eq(position, 42);
    ck_assert_double_eq(best, 0.5);
    ck_assert_double_eq(th_optimizer_learning_rate(adam), 0.1);
    ck_assert_int_eq(th_step(ctx), 1);
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_BFLOAT16X3);
    ck_assert_int_eq(th_module_count_trainable(model), th_module_count(model));
    ck_assert_str_eq(th_checkpoint_configuration(ctx, path), "{\"width\": 3}");
    th_safetensors *file = th_safetensors_open(ctx, path);
    static const char *const names[] = {"first.weight",
                                        "first.bias",
                                        "second.scale",
                                        ".optimizer.exp_avg.first.weight",
                                        ".optimizer.exp_avg_sq.first.weight",
                                        ".optimizer.exp_avg.first.bias",
                                        ".optimizer.exp_avg_sq.first.bias",
                                        ".optimizer.exp_avg.second.scale",
                                        ".optimizer.exp_avg_sq.second.scale",
                                        ".checksums"};
    ck_assert_int_eq(th_safetensors_count(file), 10);
    for (int i = 0; i < 10; i++)
        ck_assert_str_eq(th_safetensors_at(file, i)->name, names[i]);
    ck_assert_str_eq(lines, "");
}
END_TEST

/* All random streams continue, also in a repeated step. */
START_TEST(random_streams_continue)
{
    step();
    for (int i = 0; i < 5; i++) {
        th_random_state state = th_random_state_get(ctx);
        state.step += i;
        state.seed = UINT64_C(0xfedcba9876543210) + (uint64_t)i;
        state.calls_at_clear = (uint32_t)(100 + i);
        for (int k = 0; k < TH_STREAM_COUNT; k++)
            state.calls[k] = UINT32_MAX - (uint32_t)(10 * k + i);
        th_random_state_set(ctx, &state);
        save();
        th_random_state_set(ctx, &(th_random_state){.seed = 1});
        ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
        const th_random_state again = th_random_state_get(ctx);
        ck_assert_uint_eq(again.seed, state.seed);
        ck_assert_int_eq(again.step, state.step);
        ck_assert_uint_eq(again.calls_at_clear, state.calls_at_clear);
        for (int k = 0; k < TH_STREAM_COUNT; k++)
            ck_assert_uint_eq(again.calls[k], state.calls[k]);
    }
}
END_TEST

/* The parameters change, so gradients of the old ones do not stay. */
START_TEST(loading_empties_gradients)
{
    save();
    ck_assert_int_eq(th_backward(th_sum(th_module_find_parameter(model, "second.scale"), TH_ALL_AXES, NULL), NULL),
                     TH_OK);
    ck_assert_ptr_nonnull(th_gradient(th_module_find_parameter(model, "second.scale")));
    th_tape_clear(ctx);
    ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
    ck_assert_ptr_null(th_gradient(th_module_find_parameter(model, "second.scale")));
    no_error();
}
END_TEST

/* Numbers of all kinds are restored bit for bit, in any locale. */
START_TEST(numbers_are_restored_exactly)
{
    static const double reals[] = {0.1, -0.0, 1e-310, 1.7976931348623157e308, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0};
    static const int64_t integers[] = {0, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 7; i++) {
        best = reals[i];
        position = integers[i % 3];
        save();
        best = 1;
        position = 1;
        ck_assert_msg(load() == TH_OK, "%s", th_error_message(ctx));
        ck_assert(i == 6 ? best != best : memcmp(&best, &reals[i], sizeof best) == 0);
        ck_assert_int_eq(position, integers[i % 3]);
    }
    th_set_seed(ctx, UINT64_MAX);
    save();
    const double drawn = th_item(th_randn(ctx, TH_FLOAT32, TH_SHAPE(1)));
    ck_assert_int_eq(load(), TH_OK);
    ck_assert_double_eq(th_item(th_randn(ctx, TH_FLOAT32, TH_SHAPE(1))), drawn);
}
END_TEST

/* -- differences -- */

START_TEST(every_difference_is_named)
{
    step();
    save();
    th_module *other = pair_new(4);
    th_module_add_parameter(other, "more", TH_SHAPE(7));
    th_optimizer *sgd = th_sgd_new(other, &(th_sgd_options){.learning_rate = 1});
    th_checkpoint c = run();
    const double was = best;
    const th_checkpoint_number asked_for[] = {{.name = "epoch", .integer = &position},
                                              {.name = "best", .integer = &position}};
    c.model = other;
    c.optimizer = sgd;
    c.numbers = asked_for;
    lines[0] = 0;
    expect_status(
        th_checkpoint_load(path, &c), TH_ERROR_FILE,
        "model (in all: 2 missing, 2 of a different shape, 1 of a different type, 1 different options); at test_");
    ck_assert_str_eq(
        lines,
        "different optimizer: adam_w in the file, sgd here\nmissing: the number \"epoch\"\ndifferent type: the number "
        "\"best\" is not of type integer in the file\nmissing: more (7)\ndifferent shape: first.weight is (3, 3) in "
        "the file and (4, 4) in the model\ndifferent shape: first.bias is (3) in the file and (4) in the model\n");
    ck_assert_double_eq(best, was);
    th_module_free(th_module_find(model, "second"));
    expect_status(load(), TH_ERROR_FILE, "unexpected: second.scale (2) (in all: 1 unexpected)");
}
END_TEST

START_TEST(changed_options_are_an_error_unless_allowed)
{
    step();
    save();
    th_optimizer_free(adam);
    const th_parameter_group rate = {.pattern = "first.*", .no_weight_decay = true};
    adam =
        th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.3, .beta2 = 0.99, .groups = &rate, .n_groups = 1});
    expect_status(load(), TH_ERROR_FILE, "beta2 of the optimizer is 0.999");
    ck_assert_int_eq(count(lines, "different option: "), 3);
    ck_assert_int_eq(count(lines, "has 1 groups in the file and 2 here"), 1);
    ck_assert_int_eq(count(lines, "second.scale is in group 0 of the optimizer in the file and in group 1 here"), 1);
    th_checkpoint c = run();
    c.other_options = true;
    ck_assert_int_eq(th_checkpoint_load(path, &c), TH_OK);
    ck_assert_double_eq(th_optimizer_learning_rate(adam), 0.1);
    th_optimizer_free(adam);
    adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 0.3, .amsgrad = true});
    c.optimizer = adam;
    expect_status(th_checkpoint_load(path, &c), TH_ERROR_FILE, "adam_w in the file, adam_w amsgrad here");
    c.optimizer = NULL;
    expect_status(th_checkpoint_load(path, &c), TH_ERROR_FILE, "adam_w in the file, none here");
    th_module *dense = th_module_find(model, "first");
    c.optimizer = th_adam_w_new(dense, &(th_adam_options){.learning_rate = 0.1, .weight_decay = 0.1});
    c.other_options = false;
    expect_status(th_checkpoint_load(path, &c), TH_ERROR_FILE,
                  "second.scale is one of the optimizer's parameters in the file, but here it is not");
}
END_TEST

START_TEST(wrong_calls_are_rejected)
{
    th_checkpoint c = run();
    expect_status(th_checkpoint_save(NULL, &c), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_checkpoint_load(NULL, &c), TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(th_checkpoint_save(path, NULL), TH_ERROR_ARGUMENT, "the module is NULL");
    expect_status(th_weights_load(NULL, path, NULL), TH_ERROR_ARGUMENT, "the module is NULL");
    expect_failure(th_checkpoint_configuration(ctx, NULL) == NULL, TH_ERROR_ARGUMENT, "the path is NULL");
    expect_status(load(), TH_ERROR_FILE, "No such file");
    const th_checkpoint_number twice[] = {{.name = "a", .real = &best}, {.name = "a", .real = &best}},
                               both = {"a", &position, &best}, neither = {.name = "a"};
    c.numbers = twice;
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT, "number 1 needs a unique name");
    c.n_numbers = 1;
    c.numbers = &both;
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT, "number 0 needs");
    c.numbers = &neither;
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT, "number 0 needs");
    c.numbers = NULL;
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT, "there are 1 numbers, but their list is NULL");
    c.n_numbers = 0;
    c.configuration = "\xff";
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT, "is NULL, not UTF-8");
    c.configuration = NULL;
    c.model = th_module_find(model, "second");
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_ARGUMENT,
                  "1 of the 3 parameters of the optimizer (adam_w) do not belong");
    c.model = model;
    th_tensor *scale = th_module_find_parameter(model, "second.scale");
    ck_assert_int_eq(th_backward(th_sum(scale, TH_ALL_AXES, NULL), NULL), TH_OK);
    expect_status(th_checkpoint_save(path, &c), TH_ERROR_STATE,
                  "second.scale has a gradient that no step has used yet");
    ck_assert_int_eq(th_optimizer_step(adam), TH_OK);
    th_tape_clear(ctx);
    ck_assert_int_eq(count_files(), 0);
    ck_assert_int_eq(th_checkpoint_save(path, &c), TH_OK);
    ck_assert_str_eq(th_checkpoint_configuration(ctx, path), "");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("checkpoints", setup, teardown);
    tcase_add_test(tests, a_checkpoint_has_everything);
    tcase_add_test(tests, random_streams_continue);
    tcase_add_test(tests, loading_empties_gradients);
    tcase_add_test(tests, numbers_are_restored_exactly);
    tcase_add_test(tests, every_difference_is_named);
    tcase_add_test(tests, changed_options_are_an_error_unless_allowed);
    tcase_add_test(tests, wrong_calls_are_rejected);
    return run_suites();
}

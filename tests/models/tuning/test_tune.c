/* Tests a tuner: answers that it learns, its micro-batches, its examples, its files and its errors. */
#include <math.h>
#include <stdlib.h>

#include "tapehead/models.h"

#include "folder.h"
#include "tuner.h"

static void setup(void)
{
    make_folder();
    ctx = th_context_new(&(th_context_options){.threads = 1});
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

/* The first answer tokens of the model, as a text. The caller frees it. */
static char *answer_to(const tuned_model *m, const char *question)
{
    const th_chat_message messages[] = {{"user", question}};
    th_token_list prompt = {0};
    th_text text = {0};
    th_generated generated;
    const int64_t end = 257;
    ck_assert_int_eq(th_chat_encode(m->chat, m->tokenizer, messages, 1, NULL, &prompt, NULL), TH_OK);
    th_step_begin(ctx);
    const th_generate_options options = {
        .prompts = th_from_data(ctx, TH_INT32, TH_SHAPE(1, (int64_t)prompt.count), prompt.token),
        .max_new_tokens = 8,
        .end_tokens = &end,
        .n_end_tokens = 1};
    ck_assert_int_eq(th_generate(m->model, &options, &generated), TH_OK);
    const size_t count = (size_t)th_get(generated.lengths, TH_SHAPE(0));
    ck_assert_int_eq(th_tokenizer_decode(m->tokenizer, th_data_const(generated.tokens), count, &text), TH_OK);
    th_tape_clear(ctx);
    th_token_list_free(&prompt);
    return text.bytes;
}

START_TEST(answers_are_learned)
{
    tuned_model m = tuner_new(&(th_tune_options){.learning_rate = 0.005});
    teach(&m, "sky?", "blue");
    teach(&m, "grass?", "green");
    take_steps(&m, 1);
    const double before = th_tune_progress_of(m.tune).loss;
    take_steps(&m, 200);
    const th_tune_progress after = th_tune_progress_of(m.tune);
    ck_assert_double_gt(before, 5);
    ck_assert_double_lt(after.loss, 0.1);
    ck_assert_int_eq(after.steps, 201);
    char *sky = answer_to(&m, "sky?"), *grass = answer_to(&m, "grass?");
    ck_assert_str_eq(sky, "blue<|im_end|>");
    ck_assert_str_eq(grass, "green<|im_end|>");
    free(sky);
    free(grass);
    tuner_free(&m);
}
END_TEST

/* Examples in one micro-batch do not see each other: its loss is the mean over the targets of both. */
START_TEST(a_micro_batch_packs_examples)
{
    static const char *const questions[] = {"sky?", "is the grass green?"}, *const answers[] = {"blue", "yes, it is"};
    double sum = 0, targets = 0;
    for (int i = 0; i < 2; i++) {
        tuned_model alone = tuner_new(NULL);
        teach(&alone, questions[i], answers[i]);
        take_steps(&alone, 1);
        const th_tune_progress p = th_tune_progress_of(alone.tune);
        sum += p.loss * (double)p.targets;
        targets += (double)p.targets;
        tuner_free(&alone);
    }
    tuned_model both = tuner_new(NULL);
    for (int i = 0; i < 2; i++)
        teach(&both, questions[i], answers[i]);
    take_steps(&both, 1);
    const th_tune_progress p = th_tune_progress_of(both.tune);
    ck_assert_double_eq((double)p.targets, targets);
    ck_assert_double_eq_tol(p.loss, sum / targets, 1e-6);
    ck_assert_int_eq(p.passes, 1);
    tuner_free(&both);
}
END_TEST

/* The gradient of a step is the mean over all targets, in one micro-batch or in several. */
START_TEST(micro_batches_make_one_step)
{
    double norm[2];
    for (int i = 0; i < 2; i++) {
        tuned_model m = tuner_new(&(th_tune_options){.length = i == 0 ? 0 : 40, .micro_batches = i == 0 ? 1 : 3});
        teach_colors(&m);
        take_steps(&m, i == 0 ? 1 : 2);
        ck_assert_int_eq(th_tune_progress_of(m.tune).micro_batches, i == 0 ? 0 : 2);
        take_steps(&m, i == 0 ? 0 : 1);
        ck_assert_int_eq(th_tune_progress_of(m.tune).steps, 1);
        ck_assert_int_eq(th_tune_progress_of(m.tune).passes, 1);
        norm[i] = th_optimizer_gradient_norm(th_tune_optimizer(m.tune));
        tuner_free(&m);
    }
    ck_assert_double_gt(norm[0], 0);
    ck_assert_double_eq_tol(norm[1], norm[0], 1e-5 * norm[0]);
}
END_TEST

/* An example that is longer than a micro-batch is divided. All its targets count once in a pass. */
START_TEST(a_long_example_is_divided)
{
    tuned_model m = tuner_new(&(th_tune_options){.length = 16});
    teach(&m, "What is a long word?", "incomprehensibilities, of course");
    int64_t targets = 0;
    do {
        take_steps(&m, 1);
        const th_tune_progress p = th_tune_progress_of(m.tune);
        ck_assert_int_le(p.tokens, 16);
        ck_assert_int_gt(p.targets, 0);
        targets += p.targets;
    } while (th_tune_progress_of(m.tune).passes == 0);
    ck_assert_int_eq(targets, (int64_t)strlen("incomprehensibilities, of course") + 2);
    tuner_free(&m);
}
END_TEST

/* An example that comes during a pass belongs to the next one. */
START_TEST(later_examples_join_the_next_pass)
{
    tuned_model m = tuner_new(&(th_tune_options){.length = 40});
    teach_colors(&m);
    take_steps(&m, 1);
    teach(&m, "coal?", "black");
    take_steps(&m, 2);
    ck_assert_int_eq(th_tune_progress_of(m.tune).passes, 1);
    take_steps(&m, 3);
    ck_assert_int_eq(th_tune_progress_of(m.tune).passes, 1);
    take_steps(&m, 1);
    ck_assert_int_eq(th_tune_progress_of(m.tune).passes, 2);
    ck_assert_int_eq(th_tune_progress_of(m.tune).examples, 4);
    tuner_free(&m);
}
END_TEST

START_TEST(a_line_of_json_is_an_example)
{
    static const char line[] = "{\"prompt\": \"sky?\", \"completion\": \"blue\"}",
                      broken[] = "{\"question\": \"sky?\"}";
    tuned_model m = tuner_new(NULL);
    ck_assert_int_eq(th_tune_add_json(m.tune, line, sizeof line - 1, NULL), TH_OK);
    expect_status(th_tune_add_json(m.tune, broken, sizeof broken - 1, "data.jsonl, line 2"), TH_ERROR_VALUE,
                  "data.jsonl, line 2");
    take_steps(&m, 1);
    ck_assert_int_eq(th_tune_progress_of(m.tune).targets, 5);
    ck_assert_int_eq(th_tune_progress_of(m.tune).examples, 1);
    tuner_free(&m);
}
END_TEST

/* A number that shows a change of any adapter, whatever the order in which they were attached. */
static double sum_of_adapters(const th_module *model)
{
    th_lora_adapter adapter;
    double sum = 0;
    for (int64_t i = 0; th_lora_find(model, i, &adapter); i++)
        sum += (double)(i + 1) *
               (th_item(th_sum(adapter.a, TH_ALL_AXES, NULL)) + 3 * th_item(th_sum(adapter.b, TH_ALL_AXES, NULL)));
    th_tape_clear(ctx);
    return sum;
}

/* The modes of the context stay, and evaluation gives the same before and after loading the saved adapters. */
START_TEST(saved_adapters_are_the_tuned_ones)
{
    tuned_model m = tuner_new(&(th_tune_options){.base_model = "base"});
    teach_colors(&m);
    th_set_training(ctx, false);
    take_steps(&m, 3);
    ck_assert(!th_is_training(ctx));
    ck_assert_int_eq(th_tune_save(m.tune, in_folder("adapter")), TH_OK);
    ck_assert_int_eq(th_tune_save(m.tune, in_folder("adapter.gguf")), TH_OK);
    size_t bytes;
    char *file = read_bytes(in_folder("adapter.gguf"), &bytes);
    ck_assert(bytes > 100 && memcmp(file, "GGUF", 4) == 0);
    free(file);
    take_steps(&m, 1); /* tuning continues */
    const double later = sum_of_adapters(m.model);
    th_tune_free(m.tune);
    m.tune = NULL;
    ck_assert_int_eq(th_lora_detach(m.model), TH_OK);
    ck_assert_int_eq(th_lora_load(m.model, in_folder("adapter")), TH_OK);
    const double saved = sum_of_adapters(m.model);
    tuner_free(&m);

    tuned_model again = tuner_new(NULL);
    teach_colors(&again);
    take_steps(&again, 3);
    ck_assert_double_eq(sum_of_adapters(again.model), saved);
    take_steps(&again, 1);
    ck_assert_double_eq(sum_of_adapters(again.model), later);
    tuner_free(&again);
}
END_TEST

/* The adapters that a model has already are trained, and options.lora is not used. */
START_TEST(adapters_of_the_model_are_trained)
{
    tuned_model m = tuner_new(&(th_tune_options){.lora = {.rank = 3}});
    teach_colors(&m);
    take_steps(&m, 1);
    th_tune_free(m.tune);
    m.tune = th_tune_new(m.model, m.tokenizer, m.chat, &(th_tune_options){.lora = {.rank = 7}});
    teach_colors(&m);
    take_steps(&m, 1);
    th_lora_adapter adapter;
    ck_assert(th_lora_find(m.model, 0, &adapter));
    ck_assert_int_eq(th_size(adapter.a, 0), 3);
    tuner_free(&m);
}
END_TEST

START_TEST(wrong_calls_are_errors)
{
    tuned_model m = tuner_new(NULL);
    const th_chat_message question = {"user", "sky?"};
    expect_status(th_tune_step(m.tune), TH_ERROR_STATE, "has no examples");
    expect_status(th_tune_add(m.tune, &question, 1), TH_ERROR_VALUE, "needs an answer");
    ck_assert_int_eq(th_tune_progress_of(m.tune).examples, 0);
    teach_colors(&m);
    th_no_grad_begin(ctx);
    expect_status(th_tune_step(m.tune), TH_ERROR_STATE, "recording is off");
    th_no_grad_end(ctx);
    expect_status(th_tune_save(m.tune, NULL), TH_ERROR_ARGUMENT, "the folder is NULL");
    expect_status(th_tune_step(NULL), TH_ERROR_ARGUMENT, "the tuner is NULL");
    take_steps(&m, 1);

    assert_error(th_tune_new(m.model, NULL, m.chat, NULL), TH_ERROR_ARGUMENT, "the tokenizer is NULL");
    assert_error(th_tune_new(m.model, m.tokenizer, m.chat, &(th_tune_options){.length = 161}), TH_ERROR_ARGUMENT,
                 "1 to 160");
    assert_error(th_tune_new(m.model, m.tokenizer, m.chat, &(th_tune_options){.micro_batches = -1}), TH_ERROR_ARGUMENT,
                 "micro-batches");
    tuner_free(&m);
    ck_assert_int_eq(th_tune_progress_of(NULL).steps, 0);
    ck_assert_ptr_null(th_tune_optimizer(NULL));
}
END_TEST

/* After an error the model has no new adapters. */
START_TEST(a_refused_tuner_leaves_no_adapters)
{
    tuned_model m = tuner_new(&(th_tune_options){.learning_rate = -1});
    expect_failure(m.tune == NULL, TH_ERROR_ARGUMENT, "learning_rate");
    ck_assert_int_eq(th_lora_count(m.model), 0);
    tuner_free(&m);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("tune", setup, teardown);
    tcase_add_test(tests, answers_are_learned);
    tcase_add_test(tests, a_micro_batch_packs_examples);
    tcase_add_test(tests, micro_batches_make_one_step);
    tcase_add_test(tests, a_long_example_is_divided);
    tcase_add_test(tests, later_examples_join_the_next_pass);
    tcase_add_test(tests, a_line_of_json_is_an_example);
    tcase_add_test(tests, saved_adapters_are_the_tuned_ones);
    tcase_add_test(tests, adapters_of_the_model_are_trained);
    tcase_add_test(tests, wrong_calls_are_errors);
    tcase_add_test(tests, a_refused_tuner_leaves_no_adapters);
    return run_suites();
}

/* The settings of examples/language_model.c come back from a checkpoint as they were: a member that is forgotten in the
 * tables of settings.c would be lost on resume without a word. */
#include "../examples/language_model/settings.c"

#include "suite.h"

/* Members by their places, not their names, so that the compiler warns when there is one more. None is zero, but for
 * cross_attention, which no language model has. Static: what lies between the members is zero. */
#define SCALING                                                                                                        \
    {                                                                                                                  \
        TH_ROTARY_LLAMA3, 11, 12, 13, 14                                                                               \
    }
#define SCORES                                                                                                         \
    {                                                                                                                  \
        true, TH_ROTARY_NEIGHBOURS, 9, 10, SCALING, true, true, 0.0625, 15, 16                                         \
    }
#define BLOCK                                                                                                          \
    {                                                                                                                  \
        6, true, true, true, false, TH_SILU, TH_RMS_NORM, 0.375, true, 0.5, true, true, true, 7, 8, SCORES, 0.125,     \
            true                                                                                                       \
    }
static const th_language_model_options every = {1, 2, 3, 4, 5, TH_POSITIONS_NONE, true, 0.125, 0.25, BLOCK};

START_TEST(test_every_member_of_the_model_comes_back)
{
    memcpy(&chosen.model, &every, sizeof every);
    char *text = settings_to_json();
    memset(&chosen.model, 0, sizeof every);
    settings_from_json(text, "test");
    ck_assert_int_eq(memcmp(&chosen.model, &every, sizeof every), 0);
    free(text);
}
END_TEST

START_TEST(test_other_settings_come_back)
{
    chosen.length = 33;
    chosen.end_token = -1;
    chosen.tokenizer_hash = UINT32_MAX;
    chosen.training_tokens = 1000000000000;
    chosen.lr = 0.1;
    chosen.precision = "bfloat16x3";
    chosen.llama = true;
    chosen.prompt = "a \"é\"\n";
    chosen.freeze = NULL;
    char *text = settings_to_json();
    chosen = (settings){.freeze = "all"};
    settings_from_json(text, "test");
    ck_assert(chosen.length == 33 && chosen.end_token == -1 && chosen.tokenizer_hash == UINT32_MAX &&
              chosen.training_tokens == 1000000000000 && chosen.lr == 0.1 && chosen.llama && chosen.freeze == NULL);
    ck_assert_str_eq(chosen.prompt, "a \"é\"\n");
    ck_assert_str_eq(chosen.tokenizer, "characters");
    ck_assert_str_eq(chosen.precision, "bfloat16x3");
    free(text);
}
END_TEST

/* Runs that are older than the choice of a precision go on in float32. */
START_TEST(test_older_settings_are_of_float32)
{
    char *text = settings_to_json();
    char *precision = strstr(text, "\"precision\"");
    ck_assert_ptr_nonnull(precision);
    precision[1] = 'P';
    chosen.precision = "bfloat16";
    settings_from_json(text, "test");
    ck_assert_str_eq(chosen.precision, "float32");
    free(text);
}
END_TEST

/* A pretrained model is tuned at a lower rate than a new one is trained, a wide one at a lower one still. */
START_TEST(test_default_learning_rates)
{
    chosen.length = 0;
    chosen.min_lr = -1;
    settle();
    ck_assert(chosen.lr == 0.003 && chosen.min_lr == 0.0003 && chosen.length == 64 && chosen.batch == 12);
    ck_assert_str_eq(chosen.tokenizer, "characters");
    chosen.from = "folder";
    chosen.min_lr = -1;
    settle();
    ck_assert_str_eq(chosen.tokenizer, "folder");
    chosen.model.width = 64;
    settle_rates();
    ck_assert(chosen.lr == 0.0003 && fabs(chosen.min_lr - 0.00003) < 1e-12);
    chosen.model.width = 768;
    settle_rates();
    ck_assert(fabs(chosen.lr - 5e-5) < 1e-12);
    was_given.lr = was_given.tokenizer = true;
    chosen.tokenizer = "bytes";
    chosen.lr = 0.01;
    settle();
    settle_rates();
    ck_assert(chosen.lr == 0.01);
    ck_assert_str_eq(chosen.tokenizer, "bytes");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("settings", NULL, NULL);
    tcase_add_test(tests, test_every_member_of_the_model_comes_back);
    tcase_add_test(tests, test_other_settings_come_back);
    tcase_add_test(tests, test_older_settings_are_of_float32);
    tcase_add_test(tests, test_default_learning_rates);
    return run_suites();
}

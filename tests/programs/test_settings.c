/* Tests that checkpoints preserve all settings of programs/language_model. A member that is missing in the tables of
 * settings_json.c would be lost on resume without a message. */
#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

#include "language_model/settings.h"
#include "tapehead/models.h"

#include "memory.h"
#include "suite.h"

/* Members without names, so that the compiler warns about an additional one. All are nonzero, except cross_attention
 * and the head, which the program does not train, and arrays, which another test restores. Static, so that padding bytes are zero. */
#define SCALING                                                                                                        \
    {                                                                                                                  \
        TH_ROTARY_LONGROPE, 11, 12, 13, 14, 15, 16, 17, 18, 19, true, NULL, NULL, 0                                    \
    }
#define SCORES                                                                                                         \
    {                                                                                                                  \
        true, TH_ROTARY_NEIGHBORS, 9, 10, SCALING, true, true, true, true, true, 0.0625, 15, 16                        \
    }
#define BLOCK                                                                                                          \
    {                                                                                                                  \
        6, true, true, true, true, true, true, true, 22, false, TH_RELU_SQUARED, TH_RMS_NORM, true, 0.375, true, 0.5,  \
            true, true, true, true, 7, 8, 17, SCORES, 0.125, true, true, true, true                                    \
    }
static const bool other[5] = {true, false, false, true};
#define ENCODER true, true, true, {0}, true, 24, true, 26, 27
#define MULTIPLIERS 0.125, 0.25, 18, 21, true, 23, 19
static const th_language_model_options every = {
    1,           2,     3,      14,    5,    TH_POSITIONS_NONE,          25, true, ENCODER,
    MULTIPLIERS, BLOCK, SCORES, other, true, {0.5, 20, true, true, true}};

static void set_every(void)
{
    memcpy(&chosen.model, &every, sizeof every);
    chosen.length = 2;
    chosen.min_lr = 0;
}

START_TEST(test_every_member_of_the_model_is_restored)
{
    char *text = settings_to_json();
    memset(&chosen.model, 0, sizeof every);
    settings_from_json(text, "test");
    ck_assert_ptr_ne(chosen.model.other_layers, other);
    ck_assert_int_eq(memcmp(chosen.model.other_layers, other, sizeof other), 0);
    chosen.model.other_layers = other;
    ck_assert_int_eq(memcmp(&chosen.model, &every, sizeof every), 0);
    free(text);
}
END_TEST

START_TEST(test_factors_are_restored)
{
    static const double factors[2][3] = {{1, 1. / 3, 1e-300}, {5e-324, 1.7976931348623157e308, 0.1}};
    th_rotary_scaling *s = _i ? &chosen.model.other_scores.rotary_scaling : &chosen.model.block.scores.rotary_scaling;
    s->short_factor = factors[0];
    s->long_factor = factors[1];
    s->n_factors = 3;
    char *text = settings_to_json();
    memset(&chosen.model, 0, sizeof chosen.model);
    settings_from_json(text, "test");
    free(text);
    ck_assert_int_eq(s->n_factors, 3);
    ck_assert_mem_eq(s->short_factor, factors[0], sizeof factors[0]);
    ck_assert_mem_eq(s->long_factor, factors[1], sizeof factors[1]);
    for (int again = 0; again < 2; again++) { /* settings that were read are written again */
        text = settings_to_json();
        settings_from_json(text, "test");
        ck_assert_mem_eq(s->long_factor, factors[1], sizeof factors[1]);
        free(text);
    }
}
END_TEST

START_TEST(test_other_settings_are_restored)
{
    chosen.model.length = chosen.length = 33;
    chosen.end_token = -1;
    chosen.keep = 7;
    chosen.tokenizer_hash = UINT32_MAX;
    chosen.training_tokens = 1000000000000;
    chosen.lr = 0.1;
    chosen.precision = "bfloat16x3";
    chosen.shards = 4;
    chosen.llama = true;
    chosen.prompt = "a \"é\"\n";
    chosen.freeze = NULL;
    char *text = settings_to_json();
    chosen = (settings){.freeze = "all"};
    settings_from_json(text, "test");
    ck_assert(chosen.length == 33 && chosen.end_token == -1 && chosen.tokenizer_hash == UINT32_MAX &&
              chosen.training_tokens == 1000000000000 && chosen.lr == 0.1 && chosen.keep == 7 && chosen.shards == 4 &&
              chosen.llama && chosen.freeze == NULL);
    ck_assert_str_eq(chosen.prompt, "a \"é\"\n");
    ck_assert_str_eq(chosen.tokenizer, "characters");
    ck_assert_str_eq(chosen.precision, "bfloat16x3");
    free(text);
}
END_TEST

/* Settings without a precision mean float32; settings without "keep" mean two checkpoints; settings without
 * "shards" mean one shard. Options of the model that are missing are 0. */
START_TEST(test_older_settings)
{
    char *text = settings_to_json();
    char *precision = strstr(text, "\"precision\""), *keep = strstr(text, "\"keep\"");
    char *shards = strstr(text, "\"shards\""), *parallel = strstr(text, "\"model.block.parallel\"");
    char *cap = strstr(text, "\"model.logit_soft_cap\""), *layers = strstr(text, "\"model.other_layers\"");
    ck_assert(precision && keep && shards && parallel && cap && layers);
    char *beta = strstr(text, "\"model.block.scores.rotary_scaling.beta_fast\""),
         *factors = strstr(text, "\"model.block.scores.rotary_scaling.short_factor\"");
    ck_assert(beta && factors);
    parallel[1] = cap[1] = layers[1] = beta[1] = factors[1] = 'M';
    precision[1] = 'P';
    keep[1] = 'K';
    shards[1] = 'S';
    chosen.precision = "bfloat16";
    chosen.keep = 9;
    chosen.shards = 6;
    settings_from_json(text, "test");
    ck_assert_str_eq(chosen.precision, "float32");
    ck_assert_int_eq(chosen.keep, 2);
    ck_assert_int_eq(chosen.shards, 1);
    ck_assert(chosen.model.block.scores.rotary_scaling.beta_fast == 0 &&
              chosen.model.block.scores.rotary_scaling.short_factor == NULL);
    ck_assert(!chosen.model.block.parallel && chosen.model.logit_soft_cap == 0 && chosen.model.other_layers == NULL);
    free(text);
}
END_TEST

/* -- untrusted settings -- */

/* AddressSanitizer searches for leaks when a process exits, which takes longer than everything else in it. */
#if UNDER_SANITIZER
static void leave(int status, void *unused)
{
    (void)unused;
    _exit(status);
}

static void skip_search(void)
{
    on_exit(leave, NULL);
}
#else
static void skip_search(void)
{
}
#endif
static bool searches_leaks = true;

/* Returns the message with which the program rejects settings (status 1); "" if it accepts them. */
static const char *refusal(const char *text)
{
    static char message[1024];
    int channel[2], status;
    ck_assert_int_eq(pipe(channel), 0);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dup2(channel[1], STDERR_FILENO);
        if (!searches_leaks)
            skip_search();
        settings_from_json(text, "test");
        (void)parse_precision(PROGRAM, chosen.precision);
        _exit(0);
    }
    close(channel[1]);
    size_t count = 0;
    for (ssize_t n; (n = read(channel[0], message + count, sizeof message - 1 - count)) > 0;)
        count += (size_t)n;
    message[count] = 0;
    close(channel[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == (count > 0), "status %d: %s", status, message);
    return message;
}

/* Returns the message after one value of good settings was changed. */
static const char *refusal_of(const char *name, const char *value)
{
    char *text = settings_to_json();
    json_t *all = json_loads(text, 0, NULL);
    free(text);
    json_object_set_new(all, name, json_loads(value, JSON_DECODE_ANY, NULL));
    text = json_dumps(all, 0);
    const char *message = refusal(text);
    free(text);
    json_decref(all);
    return message;
}

START_TEST(test_each_setting_is_checked)
{
    const program_option *const tables[] = {run_options, derived_settings};
    static const char *const nonsense[] = {"[1]", "{}", "-9223372036854775807", "1e308", "9223372036854775807"};
    ck_assert_str_eq(refusal_of("seed", "7"), "");
    searches_leaks = false; /* test_settings_that_do_not_fit_together searches them after each kind of error */
    for (int i = 0; i < 2; i++)
        for (const program_option *o = tables[i]; o->name; o++) {
            char expected[100];
            snprintf(expected, sizeof expected, "\"%s\" is ", o->name);
            for (size_t k = 0; k < sizeof nonsense / sizeof *nonsense; k++) {
                if (o->real && strcmp(nonsense[k], "9223372036854775807") == 0 && o->high > 1e18)
                    continue;
                const char *message = refusal_of(o->name, nonsense[k]);
                ck_assert_msg(strstr(message, expected) && strstr(message, "it must be "), "%s = %s: %s", o->name,
                              nonsense[k], message);
            }
            const bool nullable = o->text == &chosen.from || o->text == &chosen.freeze || o->text == &chosen.prompt ||
                                  o->text == &chosen.lora_targets || o->text == &chosen.chat ||
                                  o->text == &chosen.template_variables || o->text == &chosen.template_date ||
                                  o->text == &chosen.activation || strcmp(o->name, "validation file") == 0;
            ck_assert_msg((refusal_of(o->name, "null")[0] == 0) == nullable, "%s = null", o->name);
        }
}
END_TEST

START_TEST(test_settings_that_do_not_fit_together)
{
    static const char *const cases[][3] = {
        {"precision", "null", "\"precision\" is null; it must be a text of at most 4096 bytes"},
        {"precision", "\"half\"", "\"precision\" is \"half\"; it must be float32, bfloat16x3, bfloat16 or int8"},
        {"tokenizer", "\"\\u001b[2J\"", ""},
        {"precision", "\"\\u001b[2J\"", "is \"\\u001B[2J\"; it must be"},
        {"precision", "\"\177\"", "is \"?\"; it must be"},
        {"heads", "3", "\"heads\" is 3; it must be a divisor of \"width\""},
        {"kv-heads", "3", "\"kv-heads\" is 3; it must be 0 or a divisor of \"heads\""},
        {"heads", "0", "\"heads\" is 0; it must be a whole number, 1 to 1024"},
        {"batch", "-4", "\"batch\" is -4; it must be a whole number, 1 to 1000000"},
        {"lr", "\"fast\"", "\"lr\" is \"fast\"; it must be a number, 1e-12 to 1000"},
        {"activation", "\"tanh\"", "\"activation\" is \"tanh\"; it must be null, gelu, relu2, silu or swiglu"},
        {"llama", "1", "\"llama\" is 1; it must be true or false"},
        {"model.block.kv_heads", "5", "\"model.block.kv_heads\" is 5; it must be 0 or a divisor of \"model.heads\""},
        {"model.block.head_width", "0", "\"model.heads\" is 14; it must be a divisor of \"model.width\""},
        {"model.block.scores.rotary_scaling.short_factor", "\"1 x\"", "is \"1 x\"; it must be empty or at most 160"},
        {"model.other_scores.rotary_scaling.long_factor", "\"1\"", "as many as long_factor"},
        {"model.other_layers", "\"0110\"", "is \"0110\"; it must be empty, or a digit for each layer, 0 or 1"},
        {"model.other_layers", "\"01102\"", "is \"01102\"; it must be empty, or a digit for each layer, 0 or 1"},
        {"model.other_layers", "\"\"", ""},
        {"shards", "5", "\"shards\" is 5; it must be a divisor of \"batch\""},
        {"schedule", "\"step\"", "\"schedule\" is \"step\"; it must be cosine, linear, wsd, wsd-sqrt, plateau or"},
        {"batch-from", "13", "\"batch-from\" is 13; it must be 0 to \"batch\", and a multiple of \"shards\""},
        {"average", "1", "\"average\" is 1; it must be a number, 0 to 0.99999"},
        {"length", "3", "\"length\" is 3; it must be 1 to \"model.length\""},
        {"end token", "1", "\"end token\" is 1; it must be -1 or less than \"model.vocabulary\""},
        {"min-lr", "1", "\"min-lr\" is 1; it must be 0 to \"lr\""},
        {"bigram", "1", "\"bigram\" is 1; it must be 0 or at least 2"},
        {"model.bigram_rows", "1", "\"model.bigram_rows\" is 1; it must be 0 or at least 2"},
        {"prompt", "\"\"", "\"prompt\" is \"\"; it must be null or a text that is not empty"},
        {"model.layers", "65537", "\"model.layers\" is 65537; it must be a whole number, 1 to 65536"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *message = refusal_of(cases[i][0], cases[i][1]);
        ck_assert_msg(cases[i][2][0] ? strstr(message, cases[i][2]) != NULL : message[0] == 0, "%s = %s: %s",
                      cases[i][0], cases[i][1], message);
    }
    char longer[MAX_TEXT + 4] = "\"";
    memset(longer + 1, 'a', MAX_TEXT + 1);
    strcpy(longer + MAX_TEXT + 2, "\"");
    ck_assert_ptr_nonnull(strstr(refusal_of("freeze", longer), "aaa...; it must be a text of at most 4096 bytes, or"));
    ck_assert_ptr_nonnull(strstr(refusal("[]"), "test is not a checkpoint of this program"));
    ck_assert_ptr_nonnull(strstr(refusal("{\"program\": \"language_model\"}"), "\"tokenizer\" is missing; it must be"));
    char *huge = malloc(MAX_SETTINGS + 2);
    memset(huge, '[', MAX_SETTINGS + 1);
    huge[MAX_SETTINGS + 1] = 0;
    ck_assert_ptr_nonnull(strstr(refusal(huge), "test is not a checkpoint of this program"));
    free(huge);
}
END_TEST

/* The default rate for a pretrained model is lower than for a new one, and still lower for a wide one. */
START_TEST(test_default_learning_rates)
{
    chosen.length = 0;
    chosen.min_lr = -1;
    complete_settings();
    ck_assert(chosen.lr == 0.003 && chosen.min_lr == 0.0003 && chosen.length == 64 && chosen.batch == 12);
    ck_assert_str_eq(chosen.tokenizer, "characters");
    chosen.from = "folder";
    chosen.min_lr = -1;
    complete_settings();
    ck_assert_str_eq(chosen.tokenizer, "folder");
    chosen.model.width = 64;
    set_learning_rates();
    ck_assert(chosen.lr == 0.0003 && fabs(chosen.min_lr - 0.00003) < 1e-12);
    chosen.model.width = 768;
    set_learning_rates();
    ck_assert(fabs(chosen.lr - 5e-5) < 1e-12);
    was_given.lr = was_given.tokenizer = true;
    chosen.tokenizer = "bytes";
    chosen.lr = 0.01;
    complete_settings();
    set_learning_rates();
    ck_assert(chosen.lr == 0.01);
    ck_assert_str_eq(chosen.tokenizer, "bytes");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("settings", set_every, NULL);
    tcase_add_test(tests, test_every_member_of_the_model_is_restored);
    tcase_add_test(tests, test_other_settings_are_restored);
    tcase_add_loop_test(tests, test_factors_are_restored, 0, 2);
    tcase_add_test(tests, test_older_settings);
    tcase_add_test(tests, test_each_setting_is_checked);
    tcase_add_test(tests, test_settings_that_do_not_fit_together);
    tcase_add_test(tests, test_default_learning_rates);
    return run_suites();
}

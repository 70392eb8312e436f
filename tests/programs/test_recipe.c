/* Tests the plan of a new run: which model the recipe chooses, what options of the command line change, and the command
 * that repeats the run. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "language_model/plan.h"

#include "folder.h"
#include "suite.h"

const char *program_path = "language_model";

enum { MAX_WORDS = 100 };

/* Reads options as from the command line. Returns the number of words. */
static int split_words(const char *options, const char **words)
{
    static char text[4096];
    int count = 0;
    words[count++] = "train";
    snprintf(text, sizeof text, "%s", options);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    ck_assert_int_lt(count, MAX_WORDS);
    words[count] = NULL;
    return count;
}

static void read_options(const char *options)
{
    static const program_option plan[] = {PLAN_OPTIONS, {.name = NULL}};
    const char *words[MAX_WORDS];
    char *arguments[MAX_WORDS];
    const int count = split_words(options, words);
    memcpy(arguments, words, sizeof arguments);
    (void)parse_options_and_words(count, arguments, PROGRAM, "", planned_options(plan), NULL, 0);
}

/* Plans a run on a text. Nine tenths of its tokens are for training. The options have --steps, so that
 * nothing is timed. */
static void plan(const char *options, int64_t tokens)
{
    trainer t = {.ctx = th_context_new(NULL)};
    t.tokenizer = th_tokenizer_bytes_new(t.ctx);
    read_options(options);
    begin_plan(false);
    limit_validation(tokens);
    chosen.training_tokens = tokens / 10 * 9;
    if (!has_recipe())
        size_model(&t);
    complete_plan(&t, tokens);
    th_context_free(t.ctx);
}

/* -- the table -- */

START_TEST(test_rows_are_found)
{
    ck_assert(recipe_rows[0].work == 0 && recipe_rows[0].tokens == 0);
    ck_assert_ptr_eq(find_recipe_row(0, 1), recipe_rows);
    for (const recipe_row *row = recipe_rows; row->options; row++) {
        ck_assert_ptr_eq(find_recipe_row(row->work, row->tokens), row);
        ck_assert(row == recipe_rows || find_recipe_row(row->work, row->tokens - 1) < row);
        ck_assert(row == recipe_rows || row->work == 0 || find_recipe_row(0.999 * row->work, row->tokens) < row);
    }
}
END_TEST

/* Each row is valid, and transformers has its architecture. The model here is smaller. */
START_TEST(test_rows_are_valid)
{
    char options[600];
    trainer t = {.ctx = th_context_new(NULL)};
    t.tokenizer = th_tokenizer_bytes_new(t.ctx);
    snprintf(options, sizeof options, "--recipe nanogpt %s --layers 2 --width 16 --heads 2", recipe_rows[_i].options);
    read_options(options); /* which ends the program for an unknown option */
    begin_plan(false);
    size_model(&t);
    make_model(&t);
    make_folder();
    ck_assert_msg(th_language_model_export(t.model, folder, NULL) == TH_OK, "%s", th_error_text(t.ctx));
    remove_folder();
    th_context_free(t.ctx);
}
END_TEST

/* -- options of the command line -- */

START_TEST(test_steps_choose_the_row)
{
    plan("--steps 7", 1000000);
    ck_assert_int_eq(chosen.steps, 7);
    ck_assert_ptr_nonnull(strstr(recipe_rows[0].options, "--width 64 "));
    ck_assert(chosen.width == 64 && chosen.model.width == 64 && chosen.llama && chosen.warmup == 1);
}
END_TEST

START_TEST(test_more_steps_choose_a_larger_model)
{
    plan("--steps 1000000", 100000000);
    ck_assert_int_gt(chosen.width, 256);
    ck_assert_double_eq_tol(chosen.validation, 0.002, 1e-12); /* 200,000 tokens */
}
END_TEST

START_TEST(test_given_options_keep_their_value)
{
    plan("--steps 5 --layers 1 --width 12 --length 5 --lr 0.125 --warmup 3 --beta2 0.5 --batch 2 --validation 0.3",
         1000);
    ck_assert(chosen.layers == 1 && chosen.model.layers == 1 && chosen.width == 12 && chosen.length == 5);
    ck_assert(chosen.lr == 0.125 && chosen.warmup == 3 && chosen.beta2 == 0.5 && chosen.batch == 2);
    ck_assert(chosen.validation == 0.3);
}
END_TEST

/* Sizes that the recipe chooses fit the given ones. */
static const struct {
    const char *options;
    int64_t heads, width, length, batch;
} fitted[] = {
    {"--heads 3", 3, 66, 32, 8},
    {"--width 10", 1, 10, 32, 8},
    {"--width 12", 2, 12, 32, 8},
    {"--kv-heads 3", 3, 66, 32, 8},
    {"--kv-heads 2 --width 24", 2, 24, 32, 8},
    {"--length 8", 2, 64, 8, 32},
    {"--length 1000", 2, 64, 1000, 1},
    {"--length 8 --batch 3", 2, 64, 8, 3},
    {"--shards 3", 2, 64, 32, 9},
    {"--shards 16", 2, 64, 32, 16},
};

START_TEST(test_sizes_fit_the_given_ones)
{
    char options[100];
    snprintf(options, sizeof options, "--steps 1 %s", fitted[_i].options);
    plan(options, 10000);
    ck_assert_int_eq(chosen.heads, fitted[_i].heads);
    ck_assert_int_eq(chosen.width, fitted[_i].width);
    ck_assert_int_eq(chosen.length, fitted[_i].length);
    ck_assert_int_eq(chosen.batch, fitted[_i].batch);
}
END_TEST

START_TEST(test_short_text_has_shorter_windows)
{
    plan("--steps 1", 30);
    ck_assert(chosen.length == 16 && chosen.model.length == 16 && chosen.batch == 8);
}
END_TEST

START_TEST(test_nanogpt_is_as_before)
{
    plan("--recipe nanogpt", 100000000);
    ck_assert(!has_plan() && !chosen.llama && chosen.layers == 4 && chosen.heads == 4 && chosen.width == 128);
    ck_assert(chosen.steps == 2000 && chosen.batch == 12 && chosen.length == 64 && chosen.lr == 3e-3);
    ck_assert(chosen.validation == 0.1 && chosen.eval_every == 250 && chosen.eval_batches == 20 &&
              chosen.warmup == 100);
}
END_TEST

/* Plans a run in another process, because a process has one plan. Writes the options that repeat it to `repeated`, and
 * returns its settings in static memory. */
static const char *plan_elsewhere(const char *options, int64_t tokens, char *repeated, int bytes)
{
    static char planned[MAX_SETTINGS];
    FILE *file = tmpfile();
    const pid_t child = fork();
    if (child == 0) {
        plan(options, tokens);
        for (const char *const *word = repeating_options(); *word; word++)
            fprintf(file, "%s ", *word);
        fprintf(file, "\n%s", settings_to_json());
        _exit(fclose(file));
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    rewind(file);
    ck_assert_ptr_nonnull(fgets(repeated, bytes, file));
    planned[fread(planned, 1, sizeof planned - 1, file)] = 0;
    fclose(file);
    repeated[strcspn(repeated, "\n")] = 0;
    return planned;
}

START_TEST(test_command_repeats_the_settings)
{
    static const char *const commands[] = {"--steps 50", "--steps 20000 --lr 0.1 --min-lr 0.0123456789012345678",
                                           "--steps 40 --heads 3 --mlp-width 24 --tokenizer bytes --vocabulary 300"};
    char repeated[4096];
    const char *planned = plan_elsewhere(commands[_i], 3000000, repeated, sizeof repeated);
    ck_assert_ptr_eq(strstr(repeated, "--recipe nanogpt "), repeated);
    plan(repeated, 3000000);
    ck_assert(!has_plan());
    char *again = settings_to_json();
    ck_assert_str_eq(planned, again);
    free(again);
}
END_TEST

/* -- the number of steps -- */

/* Returns the seconds of a run with these costs. */
static double seconds_of(int64_t steps, int64_t eval_every, const run_costs *costs, double batches)
{
    const double evaluations = 1 + ceil((double)steps / (double)eval_every);
    const double each =
        fmin((double)chosen.eval_batches, batches) * costs->evaluation + costs->sample + costs->checkpoint;
    return (double)steps * costs->step + evaluations * each + batches * costs->evaluation;
}

START_TEST(test_steps_fill_the_time)
{
    static const int64_t given[] = {0, 1, 7, 100000};
    const run_costs costs = {.step = 0.01, .evaluation = 0.003, .sample = 0.02, .checkpoint = 0.005};
    chosen.length = 10;
    chosen.batch = 6;
    chosen.shards = 2;
    chosen.eval_batches = 4;
    int64_t eval_every = given[_i];
    const int64_t steps = steps_in(60, &costs, 3000, &eval_every); /* 100 batches of shards */
    ck_assert(given[_i] == 0 || eval_every == given[_i]);
    const double shards = 2, batches = 100;
    chosen.eval_batches = (int64_t)(4 * shards);
    ck_assert_double_le(seconds_of(steps, eval_every, &costs, batches), 60);
    ck_assert_double_gt(seconds_of(steps, eval_every, &costs, batches), 58);
}
END_TEST

START_TEST(test_there_is_at_least_a_step)
{
    const run_costs costs = {.step = 1, .evaluation = 1, .sample = 1, .checkpoint = 1};
    int64_t eval_every = 0;
    chosen.length = 64;
    ck_assert_int_eq(steps_in(0.1, &costs, 100, &eval_every), 1);
    ck_assert_int_eq(eval_every, 1);
    ck_assert_int_eq(steps_in(-5, &costs, 100, &eval_every), 1);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("recipe", NULL, NULL);
    int rows = 0;
    while (recipe_rows[rows].options)
        rows++;
    tcase_add_test(tests, test_rows_are_found);
    tcase_add_loop_test(tests, test_rows_are_valid, 0, rows);
    tcase_add_test(tests, test_steps_choose_the_row);
    tcase_add_test(tests, test_more_steps_choose_a_larger_model);
    tcase_add_test(tests, test_given_options_keep_their_value);
    tcase_add_loop_test(tests, test_sizes_fit_the_given_ones, 0, sizeof fitted / sizeof *fitted);
    tcase_add_test(tests, test_short_text_has_shorter_windows);
    tcase_add_test(tests, test_nanogpt_is_as_before);
    tcase_add_loop_test(tests, test_command_repeats_the_settings, 0, 3);
    tcase_add_loop_test(tests, test_steps_fill_the_time, 0, 4);
    tcase_add_test(tests, test_there_is_at_least_a_step);
    return run_suites();
}

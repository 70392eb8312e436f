/* Tests the program of the copy task: wrong options are errors, its pictures do not change results, and the attention
 * of the trained model is the diagonal. copy_task_learns.sh tests learning with twenty seeds, same_bits.sh equal
 * bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../examples/copy_task/model.h"
#include "suite.h"

int copy_task_main(int count, char **words); /* the program's main, which CMakeLists.txt renames */

/* The program's defaults. */
static const int64_t steps = 400, batch = 32, length = 16, vocab = 26, width = 64, heads = 4;
static const double lr = 5e-3, dropout = 0.1;

typedef struct {
    int status;
    long seed, steps;
    double symbols, sequences, loss;
    unsigned crc;
    char output[8192];
} result;

/* Runs the program with these options (at most 15 words) and reads its standard output. After success the last line
 * must be the machine-readable one. */
static result run(const char *words)
{
    char line[256], directory[] = "/tmp/copy_task_test_XXXXXX", *arguments[18] = {"copy_task"};
    result r = {.status = -1};
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(line, sizeof line, "%s", words);
    int count = 1;
    for (char *word = strtok(line, " "); word && count < 16; word = strtok(NULL, " "))
        arguments[count++] = word;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (chdir(directory) != 0)
            _exit(99);
        exit(copy_task_main(count, arguments));
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t n; used + 1 < sizeof r.output && (n = read(ends[0], r.output + used, sizeof r.output - 1 - used)) > 0;)
        used += (size_t)n;
    close(ends[0]);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    r.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    static const char *const pictures[] = {"copy_loss.svg",
                                           "copy_attention.svg"}; /* written to the folder of the program */
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s/%s", directory, pictures[i]);
        unlink(path);
    }
    rmdir(directory);
    if (r.status != 0)
        return r;
    const char *last = strstr(r.output, "copy_task: seed=");
    ck_assert_msg(last != NULL, "no last line in \"%s\"", r.output);
    ck_assert_int_eq(
        sscanf(last,
               "copy_task: seed=%ld steps=%ld symbol_accuracy=%lf sequence_accuracy=%lf loss=%lf parameters_crc32c=%x",
               &r.seed, &r.steps, &r.symbols, &r.sequences, &r.loss, &r.crc),
        6);
    ck_assert_ptr_eq(strchr(last, '\n') + 1, r.output + used); /* it is the last line */
    return r;
}

START_TEST(output_options_do_not_change_results)
{
    const result quietly = run("--quiet --steps 60 --threads 1"), aloud = run("--steps 60 --threads 1");
    ck_assert_int_eq(quietly.status, 0);
    ck_assert_int_eq(quietly.seed, 1);
    ck_assert_int_eq(quietly.steps, 60);
    ck_assert_uint_eq(quietly.crc, aloud.crc);
    ck_assert_uint_ne(quietly.crc, run("--quiet --steps 60 --threads 1 --seed 2").crc);
}
END_TEST

START_TEST(invalid_options_are_rejected)
{
    static const char *const words[] = {
        "--steps many",   "--steps 0",    "--steps 1.5", "--heads 5", "--lr -1",      "--lr nan",
        "--vocab 1",      "--unknown",    "--seed",      "something", "--dropout 1",  "--batch 99999999",
        "--length 1e300", "--threads -1", "--width 0",   "--seed 0x", "--length 121", "--out /nonexistent/x"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const result r = run(words[i]);
        ck_assert_msg(r.status == 2, "%s: status %d", words[i], r.status);
        ck_assert_str_eq(r.output, "");
    }
    const result r = run("--lr 1e30 --steps 20 --quiet --threads 1"); /* it diverges: an error, not a NaN */
    ck_assert_int_eq(r.status, 1);
    ck_assert_str_eq(r.output, "");
}
END_TEST

/* The help describes all options. */
START_TEST(help_lists_the_options)
{
    char line[] = "--help", *arguments[] = {"copy_task", line, NULL};
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        exit(copy_task_main(2, arguments));
    }
    close(ends[1]);
    char text[4096] = "";
    size_t used = 0;
    for (ssize_t n; used + 1 < sizeof text && (n = read(ends[0], text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)n;
    close(ends[0]);
    waitpid(child, &status, 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    static const char *const names[] = {"--seed",  "--steps", "--batch",        "--shards",  "--length",  "--vocab",
                                        "--width", "--heads", "--lr",           "--dropout", "--threads", "--precision",
                                        "--out",   "--page",  "--no-attention", "--quiet"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(strstr(text, names[i]) != NULL, "--help does not list %s", names[i]);
}
END_TEST

/* In the trained model, the query that writes symbol i has its largest weight on symbol i, in at least one head. */
START_TEST(attention_is_the_diagonal)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1, .threads = 1});
    th_module *model = copy_model_new(ctx, &(copy_settings){length, vocab, width, heads, dropout, false});
    th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = lr});
    th_tensor *separator = th_full(ctx, TH_INT32, TH_SHAPE(1, 1), (double)vocab);
    for (int64_t step = 0; step < steps; step++) {
        th_tensor *x = th_random_integers(ctx, TH_INT32, TH_SHAPE(batch, length), 0, vocab);
        th_tensor *logits = th_module_forward(model, join_tokens(x, separator, x, length - 1));
        th_tensor *loss = th_cross_entropy(th_slice(logits, 1, length, 2 * length, 1), x, NULL);
        th_optimizer_set_learning_rate(adam, th_schedule_cosine(step, &(th_cosine_schedule){lr, 20, steps, 0}));
        ck_assert_msg(th_backward(loss, NULL) == TH_OK && th_optimizer_step(adam) == TH_OK, "%s",
                      th_error_message(ctx));
        th_tensor_free(x);
        th_tape_clear(ctx);
    }
    th_set_training(ctx, false);
    th_no_grad_begin(ctx);
    th_tensor *x = th_random_integers(ctx, TH_INT32, TH_SHAPE(20, length), 0, vocab);
    th_tensor *h = embed((copy_model *)model, join_tokens(x, separator, x, length - 1)), *weights = NULL;
    th_attend(((copy_model *)model)->attention, h, h, h,
              &(th_attend_options){.mask = &copy_causal, .weights = &weights});
    ck_assert_msg(weights != NULL, "%s", th_error_message(ctx));
    for (int64_t b = 0; b < 20; b++)
        for (int64_t i = 0; i < length; i++) {
            double max = 0;
            for (int64_t head = 0; head < heads; head++)
                max = fmax(max, th_get(weights, TH_INDEX(b, head, length + i, i)));
            ck_assert_msg(max > 0.5, "sequence %d, symbol %d: at most %.3f of a head's weight", (int)b, (int)i, max);
        }
    th_context_free(ctx);
}
END_TEST

int main(void)
{
    TCase *runs = new_suite("copy_task", NULL, NULL);
    tcase_add_test(runs, output_options_do_not_change_results);
    tcase_add_test(runs, invalid_options_are_rejected);
    tcase_add_test(runs, help_lists_the_options);
    tcase_add_test(runs, attention_is_the_diagonal);
    return run_suites();
}

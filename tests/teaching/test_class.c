/* The engine of the class's page (teaching/class/engine.h), on this processor. scripts/class.sh compares the engine in
 * WebAssembly with the checksums here. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../teaching/class/engine.h"
#include "suite.h"

/* The checksum of copy_task --steps 20 --length 4 --width 32 --batch 16 in checksums.txt, without fused multiply-add. */
enum { STEPS = 20, CHECKSUM = 0x390aafec };

/* Processors with another instruction set compute the fused numbers. */
static const bool unfused =
#if defined __x86_64__ || defined __wasm__
    true;
#else
    false;
#endif

static class_engine *e;

static class_engine *new_engine(double dropout)
{
    return class_new(1, 4, 26, 32, 4, 16, STEPS, 5e-3, dropout, CLASS_MASK_CAUSAL);
}

static void set_up(void)
{
    if (unfused) {
        setenv("TAPEHEAD_ISA", "", 1);
#ifdef __x86_64__
        setenv("TAPEHEAD_ISA", "baseline", 1);
#endif
        setenv("TAPEHEAD_GEMM", "native", 1);
    }
    e = new_engine(0.1);
    ck_assert_msg(e != NULL, "%s", class_error(NULL));
}

static void tear_down(void)
{
    class_free(e);
}

static double train(class_engine *engine, int steps)
{
    double loss = NAN;
    for (int i = 0; i < steps; i++)
        loss = class_step(engine);
    ck_assert_msg(isfinite(loss), "%s", class_error(engine));
    return loss;
}

START_TEST(it_trains_as_copy_task_does)
{
    ck_assert_double_eq_tol(train(e, STEPS), 3.291805, 1e-6);
    ck_assert_int_eq(class_steps(e), STEPS);
    if (unfused)
        ck_assert_uint_eq((unsigned)class_crc32c(e), CHECKSUM);
}
END_TEST

START_TEST(looking_changes_no_number)
{
    class_engine *other = new_engine(0.1);
    for (int i = 0; i < STEPS; i++) {
        ck_assert(isfinite(class_accuracy(e, 7)) && isfinite(class_sequence_accuracy(e, 3)));
        ck_assert_ptr_nonnull(class_write(e, "ABCD"));
        ck_assert_ptr_nonnull(class_attention(e, "ZZZZ"));
        ck_assert_ptr_nonnull(class_parameters(e));
        ck_assert_msg(class_follow(e, "COPY", i % 8, i) != NULL, "%s", class_error(e));
        ck_assert_msg(class_tape(e, "COPY") != NULL, "%s", class_error(e));
        ck_assert(class_values(e, "positions") && class_gradients(e, "output.bias"));
        train(e, 1);
        train(other, 1);
        ck_assert_double_eq(class_crc32c(e), class_crc32c(other));
    }
    ck_assert_ptr_nonnull(class_check(e, 1));
    ck_assert_double_eq(class_crc32c(e), class_crc32c(other));
    class_free(other);
}
END_TEST

START_TEST(it_learns_to_copy)
{
    class_engine *engine = class_new(1, 4, 8, 32, 2, 32, 300, 1e-2, 0, CLASS_MASK_CAUSAL);
    const double before = class_accuracy(engine, 50);
    train(engine, 300);
    ck_assert_double_lt(before, 0.5);
    ck_assert_double_eq(class_sequence_accuracy(engine, 200), 1);
    ck_assert_str_eq(class_write(engine, "CAFE"), "CAFE");
    class_free(engine);
}
END_TEST

START_TEST(the_rows_of_attention_add_up_to_one)
{
    for (int mask = 0; mask < CLASS_MASKS; mask++) {
        ck_assert_double_eq(class_set_mask(e, mask), mask);
        const float *weights = class_attention(e, "COPY");
        ck_assert_msg(weights != NULL, "%s", class_error(e));
        for (int row = 0; row < 4 * 8; row++) {
            double sum = 0;
            for (int s = 0; s < 8; s++) {
                sum += (double)weights[row * 8 + s];
                const int t = row % 8;
                const bool hidden = (mask != CLASS_MASK_NONE && s > t) || (mask == CLASS_MASK_WINDOW && s < t - 3);
                ck_assert((weights[row * 8 + s] == 0) == hidden);
            }
            ck_assert_double_eq_tol(sum, 1, 1e-5);
        }
    }
}
END_TEST

/* Reads a number after a name in JSON, from *at on. */
static double field(const char **at, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *found = strstr(*at, key);
    ck_assert_msg(found != NULL, "no %s in %s", name, *at);
    *at = found + strlen(key);
    return strtod(*at, NULL);
}

START_TEST(a_path_leads_to_the_loss)
{
    train(e, 5);
    for (int position = 0; position < 8; position++) {
        const char *path = class_follow(e, "COPY", position, 3);
        ck_assert_msg(path != NULL, "%s", class_error(e));
        const double loss = field(&path, "loss");
        int nodes = 0;
        for (const char *node = path; (node = strstr(node, "{\"name\":")) != NULL; node++, nodes++) {
            const char *at = node;
            const double value = field(&at, "value"), gradient = field(&at, "gradient");
            if (strncmp(node, "{\"name\":\"loss\"", 14) == 0) {
                ck_assert_double_eq(value, loss);
                ck_assert_double_eq(gradient, 1);
                break;
            }
            const double factor = field(&at, "factor");
            const double carried = field(&at, "carried");
            const char *next = strstr(at, "{\"name\":");
            ck_assert_ptr_nonnull(next);
            (void)field(&next, "value");
            ck_assert_double_eq_tol(carried, factor * field(&next, "gradient"), 1e-12);
        }
        ck_assert_int_ge(nodes, 4);
    }
}
END_TEST

START_TEST(every_rule_has_its_sentence)
{
    ck_assert_int_ge(class_rules(), 8);
    const char *right = class_check(e, 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_msg(right != NULL, "%s", class_error(e));
        right = strstr(right, " is right: ");
        ck_assert_ptr_nonnull(right);
        right++;
    }
    for (int rule = 1; rule < class_rules(); rule++) {
        const char *sentence = class_check(e, rule);
        ck_assert_msg(sentence != NULL, "%s", class_error(e));
        ck_assert_msg(strstr(sentence, " is wrong: worst at x") != NULL, "%s: %s", class_rule(rule), sentence);
    }
    ck_assert_ptr_null(class_rule(class_rules()));
    ck_assert_ptr_null(class_rule(-1));
}
END_TEST

/* All rules compute the same loss in the first step, and other parameters after it. */
START_TEST(a_wrong_rule_changes_backward_only)
{
    class_engine *right = new_engine(0);
    const double loss = train(right, 1), checksum = class_crc32c(right);
    for (int rule = 1; rule < class_rules(); rule++) {
        class_engine *wrong = new_engine(0);
        ck_assert_double_eq(class_set_rule(wrong, rule), rule);
        ck_assert_double_eq_tol(train(wrong, 1), loss, 1e-6);
        ck_assert_double_ne(class_crc32c(wrong), checksum);
        train(wrong, 3);
        ck_assert_msg(class_tape(wrong, "COPY") != NULL, "%s",
                      class_error(wrong)); /* its operations have the library's names */
        class_free(wrong);
    }
    class_free(right);
}
END_TEST

START_TEST(choices_hold_from_the_next_step_on)
{
    ck_assert_double_eq_tol(class_rate(e), 5e-3 / 20, 1e-12);
    ck_assert_double_eq(class_set_rate(e, 1e-2), 1e-2);
    ck_assert_double_eq_tol(class_rate(e), 1e-2 / 20, 1e-12);
    ck_assert_double_eq(class_set_dropout(e, 0.5), 0.5);
    train(e, 2);
    for (int mask = 0; mask < CLASS_MASKS; mask++) {
        ck_assert_double_eq(class_set_mask(e, mask), mask);
        train(e, 2);
    }
}
END_TEST

START_TEST(wrong_arguments_are_sentences)
{
    static const struct {
        double seed;
        int length, symbols, width, heads, batch, steps;
        double rate, dropout;
        int mask;
        const char *words;
    } wrong[] = {
        {-1, 4, 26, 32, 4, 16, 20, 5e-3, 0, 0, "seed"},    {0.5, 4, 26, 32, 4, 16, 20, 5e-3, 0, 0, "seed"},
        {NAN, 4, 26, 32, 4, 16, 20, 5e-3, 0, 0, "seed"},   {1, 0, 26, 32, 4, 16, 20, 5e-3, 0, 0, "length"},
        {1, 121, 26, 32, 4, 16, 20, 5e-3, 0, 0, "length"}, {1, 4, 63, 32, 4, 16, 20, 5e-3, 0, 0, "symbols"},
        {1, 4, 26, 0, 4, 16, 20, 5e-3, 0, 0, "width"},     {1, 4, 26, 32, 5, 16, 20, 5e-3, 0, 0, "divide"},
        {1, 4, 26, 32, 0, 16, 20, 5e-3, 0, 0, "heads"},    {1, 4, 26, 32, 4, 0, 20, 5e-3, 0, 0, "batch"},
        {1, 4, 26, 32, 4, 16, -1, 5e-3, 0, 0, "steps"},    {1, 4, 26, 32, 4, 16, 20, NAN, 0, 0, "rate"},
        {1, 4, 26, 32, 4, 16, 20, 5e-3, 1, 0, "dropout"},  {1, 4, 26, 32, 4, 16, 20, 5e-3, 0, 3, "mask"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_ptr_null(class_new(wrong[i].seed, wrong[i].length, wrong[i].symbols, wrong[i].width, wrong[i].heads,
                                     wrong[i].batch, wrong[i].steps, wrong[i].rate, wrong[i].dropout, wrong[i].mask));
        ck_assert_msg(strstr(class_error(NULL), wrong[i].words) != NULL, "%s: %s", wrong[i].words, class_error(NULL));
    }
    ck_assert_str_eq(class_error(e), "");
    ck_assert_ptr_null(class_write(e, "ABC"));
    ck_assert_str_eq(class_error(e), "the sequence must have 4 letters, it has 3");
    ck_assert_ptr_null(class_tape(e, "ABCDE"));
    ck_assert_str_eq(class_error(e), "the sequence must have 4 letters, it has 5");
    ck_assert_ptr_null(class_attention(e, "ABcD"));
    ck_assert_ptr_nonnull(strstr(class_error(e), "'c' is not one of the model's symbols"));
    ck_assert_ptr_null(class_follow(e, "ABCD", 8, 0));
    ck_assert_ptr_null(class_follow(e, "ABCD", 0, 32));
    ck_assert_ptr_nonnull(strstr(class_error(e), "position 0 and element 32"));
    ck_assert(isnan(class_set_rate(e, 0)) && isnan(class_set_dropout(e, -0.1)) && isnan(class_set_mask(e, 9)));
    ck_assert(isnan(class_set_rule(e, 99)) && isnan(class_accuracy(e, 0)));
    ck_assert_ptr_null(class_check(e, -1));
    ck_assert_ptr_null(class_values(e, "attention.bias"));
    ck_assert_str_eq(class_error(e), "the model has no parameter attention.bias");
    ck_assert_ptr_null(class_gradients(e, ""));
    train(e, 1); /* the engine is as it was */
    ck_assert_str_eq(class_error(e), "");
}
END_TEST

int main(void)
{
    TCase *engine = new_suite("class", set_up, tear_down);
    tcase_add_test(engine, it_trains_as_copy_task_does);
    tcase_add_test(engine, looking_changes_no_number);
    tcase_add_test(engine, it_learns_to_copy);
    tcase_add_test(engine, the_rows_of_attention_add_up_to_one);
    tcase_add_test(engine, a_path_leads_to_the_loss);
    tcase_add_test(engine, every_rule_has_its_sentence);
    tcase_add_test(engine, a_wrong_rule_changes_backward_only);
    tcase_add_test(engine, choices_hold_from_the_next_step_on);
    tcase_add_test(engine, wrong_arguments_are_sentences);
    return run_suites();
}

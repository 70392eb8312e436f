/* Resuming: a run that is saved and loaded in a new process, with another number of threads, ends with the same file
 * as an uninterrupted run, byte for byte. For every optimizer, with dropout and batches drawn at random. */
#include <math.h>
#include <sys/wait.h>

#include "folder.h"
#include "tapehead/models.h"

#include "context.h"

enum { STEPS = 100, VOCABULARY = 12, LENGTH = 6, BATCH = 3 };

static const th_parameter_group groups[] = {{.pattern = "*.bias", .no_weight_decay = true},
                                            {.pattern = "layers.0.*", .learning_rate_factor = 0.5}};

/* Every rule with its options. */
static const struct optimizer {
    const char *name;
    bool sgd, decoupled, muon;
    th_sgd_options s;
    th_adam_options a;
    th_muon_options m;
} optimizers[] = {
    {"sgd", .sgd = true, .s = {.learning_rate = 0.1, .weight_decay = 0.01}},
    {"momentum", .sgd = true, .s = {.learning_rate = 0.05, .momentum = 0.9, .dampening = 0.3, .max_norm = 1}},
    {"nesterov", .sgd = true, .s = {.learning_rate = 0.05, .momentum = 0.9, .nesterov = true}},
    {"adam", .a = {.learning_rate = 1e-2, .weight_decay = 0.1}},
    {"amsgrad", .a = {.learning_rate = 1e-2, .amsgrad = true, .beta2 = 0.9}},
    {"adam_w", .decoupled = true, .a = {.learning_rate = 1e-2, .weight_decay = 0.1, .max_norm = 0.5}},
    {"adam_w amsgrad", .decoupled = true, .a = {.learning_rate = 1e-2, .weight_decay = 0.1, .amsgrad = true}},
    {"groups", .decoupled = true, .a = {.learning_rate = 1e-2, .weight_decay = 0.1, .groups = groups, .n_groups = 2}},
    {"muon", .muon = true,
     .m = {.learning_rate = 1e-2, .adam_learning_rate = 5e-3, .weight_decay = 0.1, .max_norm = 0.5}},
    {"muon groups", .muon = true,
     .m = {.learning_rate = 1e-2, .adjustment = TH_MUON_MATCH_RMS_ADAMW, .groups = groups, .n_groups = 2}},
    {"eps inside", .a = {.learning_rate = 1e-2, .eps = 1e-3, .eps_inside = true}},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

typedef struct stage {
    const struct optimizer *optimizer;
    th_dtype dtype;
    int threads;
    uint64_t seed;          /* the process begins with this seed, and */
    th_precision precision; /* this precision: a checkpoint restores its own */
    const char *from, *to;
    int steps;
} stage;

static th_optimizer *optimizer_new(th_module *m, const struct optimizer *o)
{
    return o->sgd         ? th_sgd_new(m, &o->s)
           : o->muon      ? th_muon_new(m, &o->m)
           : o->decoupled ? th_adam_w_new(m, &o->a)
                          : th_adam_new(m, &o->a);
}

/* Trains from the beginning or from a checkpoint, and saves a checkpoint. */
static void train(const stage *l)
{
    ctx = th_context_new(&(th_context_options){
        .seed = l->seed, .threads = l->threads, .default_dtype = l->dtype, .precision = l->precision});
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){VOCABULARY, LENGTH, .width = 8, .heads = 2, .layers = 2, .dropout = 0.2});
    th_optimizer *o = optimizer_new(model, l->optimizer);
    int64_t position = 0;
    double best = INFINITY;
    const th_checkpoint_number numbers[] = {{.name = "position", .integer = &position},
                                            {.name = "best", .real = &best}};
    const th_checkpoint run = {
        .model = model, .optimizer = o, .configuration = "{\"width\": 8}", .numbers = numbers, .n_numbers = 2};
    if (l->from)
        ck_assert_msg(th_checkpoint_load(l->from, &run) == TH_OK, "%s", th_error_message(ctx));
    else
        ck_assert_int_eq(th_module_freeze(th_module_find(model, "layers.1.linear1"), true), TH_OK);
    for (int i = 0; i < l->steps; i++, position++) {
        ck_assert_int_eq(th_step(ctx), position);
        th_tensor *text = th_random_integers(ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH + 1), 0, VOCABULARY);
        th_tensor *loss =
            th_language_model_loss(model, th_slice(text, 1, 0, LENGTH, 1), th_slice(text, 1, 1, LENGTH + 1, 1), NULL);
        const double value = th_item(loss);
        best = value < best ? value : best;
        ck_assert_int_eq(th_optimizer_set_learning_rate(o, 1e-2 / (double)(position + 1)), TH_OK);
        ck_assert_msg(th_backward(loss, NULL) == TH_OK && th_optimizer_step(o) == TH_OK, "%s", th_error_message(ctx));
        th_tensor_free(text);
        th_tape_clear(ctx);
        th_tensor_free(th_randn(ctx, l->dtype, TH_SHAPE(3))); /* calls within the next step count, too */
    }
    ck_assert_msg(th_checkpoint_save(l->to, &run) == TH_OK, "%s", th_error_message(ctx));
    th_context_free(ctx);
}

/* Trains in a new process with new threads. */
static void train_elsewhere(const stage *l)
{
    const pid_t child = fork();
    int status = 1;
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        train(l);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static void expect_same_files_after_resuming(const struct optimizer *o, th_dtype dtype, th_precision precision)
{
    char whole[256], half[256], resumed[256];
    strcpy(whole, in_folder("whole"));
    strcpy(half, in_folder("half"));
    strcpy(resumed, in_folder("resumed"));
    train_elsewhere(&(stage){o, dtype, 2, 7, precision, NULL, whole, 2 * STEPS});
    train_elsewhere(&(stage){o, dtype, 1, 7, precision, NULL, half, STEPS - 1});
    train_elsewhere(&(stage){o, dtype, 3, 99, TH_PRECISION_FLOAT32, half, half, 1});
    train_elsewhere(&(stage){o, dtype, 4, 8, TH_PRECISION_BFLOAT16, half, resumed, STEPS});
    expect_same_files(whole, resumed);
    ck_assert_int_eq(count_files(), 3);
}

START_TEST(a_run_resumes_with_the_same_bits)
{
    expect_same_files_after_resuming(&optimizers[_i % OPTIMIZERS], _i < OPTIMIZERS ? TH_FLOAT32 : TH_FLOAT64,
                                     TH_PRECISION_FLOAT32);
}
END_TEST

START_TEST(a_run_resumes_in_its_precision)
{
    expect_same_files_after_resuming(&optimizers[5], TH_FLOAT32, (th_precision)_i);
}
END_TEST

/* A checkpoint from before the first step resets what the optimizer has learned since. */
START_TEST(a_run_can_restart_from_the_beginning)
{
    char start[256], once[256], again[256];
    strcpy(start, in_folder("start"));
    strcpy(once, in_folder("once"));
    strcpy(again, in_folder("again"));
    train_elsewhere(&(stage){&optimizers[3], TH_FLOAT32, 1, 7, TH_PRECISION_FLOAT32, NULL, start, 0});
    train_elsewhere(&(stage){&optimizers[3], TH_FLOAT32, 1, 7, TH_PRECISION_FLOAT32, start, once, 5});
    ctx = th_context_new(NULL);
    th_module *model = th_dense_new(ctx, 3, 3, NULL);
    th_optimizer *o = th_adam_new(model, &(th_adam_options){.learning_rate = 0.1});
    const th_checkpoint run = {.model = model, .optimizer = o};
    ck_assert_int_eq(th_checkpoint_save(again, &run), TH_OK);
    const uint32_t before = th_module_crc32c(model);
    uint32_t after[2];
    for (int i = 0; i < 2; i++) {
        for (int step = 0; step < 3; step++) {
            th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(4, 3));
            ck_assert_int_eq(th_backward(th_sum(th_module_forward(model, x), TH_ALL_AXES, NULL), NULL), TH_OK);
            ck_assert_int_eq(th_optimizer_step(o), TH_OK);
            th_tensor_free(x);
            th_tape_clear(ctx);
        }
        after[i] = th_module_crc32c(model);
        ck_assert_msg(th_checkpoint_load(again, &run) == TH_OK, "%s", th_error_message(ctx));
        ck_assert_uint_eq(th_module_crc32c(model), before);
        ck_assert_int_eq(th_step(ctx), 0);
    }
    ck_assert_uint_eq(after[0], after[1]);
    ck_assert_uint_ne(after[0], before);
    th_context_free(ctx);
}
END_TEST

/* Draws dropout calls, and ends the step: with an error if the error is not NULL. */
static void draw_and_clear(int calls, const char *error)
{
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4, 8));
    for (int i = 0; i < calls; i++)
        ck_assert_ptr_nonnull(th_dropout(x, 0.5));
    if (error) {
        ck_assert_ptr_null(th_add(x, th_ones(ctx, TH_FLOAT32, TH_SHAPE(3))));
        expect_error(TH_ERROR_SHAPE, error);
    }
    th_tensor_free(x);
    th_tape_clear(ctx);
}

/* Returns the checksum of the numbers that the next three dropout calls keep. */
static uint32_t next_draws(void)
{
    uint32_t kept = 0;
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(8));
    for (int i = 0; i < 3; i++) {
        const float *y = th_data_const(th_dropout(x, 0.5));
        for (int n = 0; n < 8; n++)
            kept = kept << 1 | (y[n] != 0);
    }
    th_tensor_free(x);
    th_tape_clear(ctx);
    return kept;
}

/* If a step fails after a checkpoint was loaded, the repeated step draws the same numbers as a run without
 * interruption. _i: calls before the checkpoint. */
START_TEST(a_failed_step_after_resuming_is_repeated)
{
    const char *file = in_folder("run");
    uint32_t draws[2][2];
    for (int resumed = 0; resumed < 2; resumed++) {
        ctx = th_context_new(&(th_context_options){.seed = resumed ? 9 : 4, .threads = 1});
        const th_checkpoint run = {.model = th_dense_new(ctx, 3, 3, NULL)};
        if (resumed) {
            draw_and_clear(7, NULL); /* the numbers of another run, which loading replaces */
            ck_assert_msg(th_checkpoint_load(file, &run) == TH_OK, "%s", th_error_message(ctx));
        } else {
            draw_and_clear(_i, NULL);
            ck_assert_int_eq(th_checkpoint_save(file, &run), TH_OK);
        }
        draw_and_clear(2, "shape");
        draws[resumed][0] = next_draws();
        draws[resumed][1] = next_draws();
        th_context_free(ctx);
    }
    ck_assert_mem_eq(draws[0], draws[1], sizeof draws[0]);
    ck_assert_uint_ne(draws[0][0], draws[0][1]);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("resuming", make_folder, remove_folder);
    tcase_add_loop_test(tests, a_run_resumes_with_the_same_bits, 0, 2 * OPTIMIZERS);
    tcase_add_loop_test(tests, a_run_resumes_in_its_precision, TH_PRECISION_BFLOAT16X3, TH_PRECISION_INT8 + 1);
    tcase_add_test(tests, a_run_can_restart_from_the_beginning);
    tcase_add_loop_test(tests, a_failed_step_after_resuming_is_repeated, 0, 4);
    return run_suites();
}

/* What a checkpoint of Muon contains, and which optimizers can load it. (Resuming: test_checkpoint_resume.c, and for several
 * processes test_checkpoint_group.c and test_checkpoint_workers.c.) */
#include "folder.h"
#include "tapehead/models.h"

#include "context.h"

static const th_parameter_group never = {.pattern = "weight", .muon = TH_MUON_NEVER};

static void setup(void)
{
    make_folder();
    ctx = th_context_new(&(th_context_options){.seed = 2, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

static th_optimizer *muon_new(th_module *m, double momentum, const th_parameter_group *group)
{
    const th_muon_options options = {.learning_rate = 0.02,
                                     .adam_learning_rate = 0.003,
                                     .momentum = momentum,
                                     .groups = group,
                                     .n_groups = group != NULL};
    return th_muon_new(m, &options);
}

/* Saves a dense layer after a step. Returns the path. */
static const char *saved(th_optimizer *(*optimizer_new)(th_module *m))
{
    const char *path = in_folder("checkpoint");
    th_module *m = th_dense_new(ctx, 3, 4, NULL);
    th_optimizer *o = optimizer_new(m);
    th_tensor *x = th_full(ctx, TH_FLOAT32, TH_SHAPE(2, 3), 0.5);
    ck_assert_int_eq(th_backward(th_sum(th_module_forward(m, x), TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_int_eq(th_checkpoint_save(path, &(th_checkpoint){.model = m, .optimizer = o}), TH_OK);
    return path;
}

static th_optimizer *usual_new(th_module *m)
{
    return muon_new(m, 0, NULL);
}

static th_optimizer *adam_w_new(th_module *m)
{
    return th_adam_w_new(m, &(th_adam_options){.learning_rate = 0.003});
}

/* The last tensor has the checksums. */
START_TEST(moments_have_the_names_of_pytorch)
{
    th_safetensors *file = th_safetensors_open(ctx, saved(usual_new));
    ck_assert_ptr_nonnull(th_safetensors_find(file, ".optimizer.momentum_buffer.weight"));
    ck_assert_ptr_nonnull(th_safetensors_find(file, ".optimizer.exp_avg.bias"));
    ck_assert_ptr_nonnull(th_safetensors_find(file, ".optimizer.exp_avg_sq.bias"));
    ck_assert_int_eq(th_safetensors_count(file), 2 + 3 + 1);
    th_safetensors_close(file);
}
END_TEST

static void expect_refused(const char *path, th_module *m, th_optimizer *o, const char *words)
{
    const uint32_t before = th_module_crc32c(m);
    expect_status(th_checkpoint_load(path, &(th_checkpoint){.model = m, .optimizer = o}), TH_ERROR_FILE, words);
    ck_assert_uint_eq(th_module_crc32c(m), before);
}

START_TEST(other_optimizers_are_refused)
{
    th_module *m = th_dense_new(ctx, 3, 4, NULL);
    expect_refused(saved(usual_new), m, adam_w_new(m), "different optimizer: muon in the file, adam_w here");
    expect_refused(saved(adam_w_new), m, usual_new(m), "different optimizer: adam_w in the file, muon here");
    expect_refused(saved(usual_new), m, muon_new(m, 0.5, NULL), "momentum");
}
END_TEST

START_TEST(another_choice_of_matrices_is_refused)
{
    th_module *m = th_dense_new(ctx, 3, 4, NULL);
    expect_refused(saved(usual_new), m, muon_new(m, 0, &never), "missing: exp_avg of weight");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("checkpoints of Muon", setup, teardown);
    tcase_add_test(tests, moments_have_the_names_of_pytorch);
    tcase_add_test(tests, other_optimizers_are_refused);
    tcase_add_test(tests, another_choice_of_matrices_is_refused);
    return run_suites();
}

/* 50 steps of Muon and AdamW against PyTorch's, without the cast to bfloat16, in the fixtures that scripts/interop/muon.py
 * made. */
#include <math.h>

#include "../../scripts/interop/muon_training.h"
#include "tapehead/models.h"

#include "context.h"

static const char *const fixture[] = {"default", "match_rms_adamw"};

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 2, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

static th_tensor *read(void *file, const char *prefix, const char *name)
{
    char full[TH_FULL_NAME_SIZE];
    ck_assert_int_lt(snprintf(full, sizeof full, "%s%s", prefix, name), (int)sizeof full);
    return th_safetensors_read(file, full);
}

static double largest_difference(th_tensor *a, th_tensor *b)
{
    double largest = 0;
    for (int64_t i = 0; i < th_numel(a); i++)
        largest = fmax(largest, fabs(((const double *)th_data(a))[i] - ((const double *)th_data(b))[i]));
    return largest;
}

START_TEST(fifty_steps_equal_pytorch)
{
    char path[512];
    ck_assert_int_lt(snprintf(path, sizeof path, FIXTURES "/muon/%s.safetensors", fixture[_i]), (int)sizeof path);
    th_safetensors *file = th_safetensors_open(ctx, path);
    no_error();
    th_module *m = muon_model_new(ctx);
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        ck_assert_int_eq(th_copy_into(p.tensor, read(file, "initial.", p.name)), TH_OK);
    th_tape_clear(ctx);
    th_optimizer *muon = muon_new_from(m, th_safetensors_metadata(file, "settings"));
    no_error();
    ck_assert_int_eq(muon_train(m, muon, read, file), TH_OK);
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        const double difference = largest_difference(p.tensor, read(file, "expected.", p.name));
        ck_assert_msg(difference <= 1e-12, "%s differs by %g", p.name, difference);
    }
    th_safetensors_close(file);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("PyTorch's Muon", setup, close_context);
    tcase_add_loop_test(tests, fifty_steps_equal_pytorch, 0, (int)(sizeof fixture / sizeof *fixture));
    return run_suites();
}

/* PyTorch's attention and Transformer modules: outputs and every gradient that PyTorch computed from the same weights,
 * in the fixtures that scripts/interop/torch_transformer.py made. */
#include <math.h>

#include "../../scripts/interop/torch_modules.h"
#include "tapehead/models.h"

#include "context.h"

#define FOLDER FIXTURES "/torch_transformer/"

static const char *const fixture[] = {"attention-24", "block-34",      "block-36",
                                      "stack-10",     "transformer-6", "transformer-32"};

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 2, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

/* The tensor of this name, or NULL. */
static th_tensor *read(th_safetensors *file, const char *prefix, const char *name)
{
    char full[TH_FULL_NAME_SIZE];
    ck_assert_int_lt(snprintf(full, sizeof full, "%s%s", prefix, name), (int)sizeof full);
    return th_safetensors_find(file, full) ? th_safetensors_read(file, full) : NULL;
}

static double *values(th_tensor *t)
{
    double *value = malloc((size_t)th_numel(t) * sizeof *value);
    ck_assert_ptr_nonnull(value);
    ck_assert_int_eq(th_copy_out(t, value, (size_t)th_numel(t) * sizeof *value), TH_OK);
    return value;
}

/* Checks that the difference is at most the limit, relative to the largest entry. */
static void assert_close(th_safetensors *file, const char *prefix, const char *name, th_tensor *ours, double limit)
{
    th_tensor *theirs = read(file, prefix, name);
    no_error();
    if (theirs == NULL || ours == NULL)
        ck_abort_msg("%s%s: %s is missing", prefix, name, theirs ? "ours" : "PyTorch's");
    assert_shape(ours, th_shape_of(theirs));
    double *a = values(th_cast(ours, TH_FLOAT64)), *b = values(theirs), difference = 0, largest = 0;
    for (int64_t i = 0; i < th_numel(theirs); i++) {
        difference = fmax(difference, isnan(a[i]) ? INFINITY : fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    ck_assert_msg(difference <= limit * largest, "%s%s: differs by %g of %g", prefix, name, difference, largest);
    free(a);
    free(b);
}

/* Each fixture in both types, fused and composed, with saved and recomputed values. */
START_TEST(outputs_and_gradients_equal_pytorch)
{
    const th_dtype dtype = _i & 1 ? TH_FLOAT64 : TH_FLOAT32;
    const double limit = dtype == TH_FLOAT64 ? 1e-10 : 1e-5;
    char path[512], settings[512];
    ck_assert_int_lt(snprintf(path, sizeof path, FOLDER "%s.safetensors", fixture[_i / 4]), (int)sizeof path);
    th_safetensors *file = th_safetensors_open(ctx, path);
    no_error();
    const char *kind = th_safetensors_metadata(file, "kind");
    ck_assert_int_lt(
        snprintf(settings, sizeof settings, "recompute=%d %s", _i >> 1 & 1, th_safetensors_metadata(file, "settings")),
        (int)sizeof settings);
    th_set_training(ctx, setting(settings, "training") != 0);
    th_set_fusion(ctx, !(_i >> 1 & 1));
    th_tensor *operand[OPERANDS];
    for (int i = 0; i < OPERANDS; i++) {
        operand[i] = read(file, "", operand_name[i]);
        if (operand[i] && i < LEAVES)
            operand[i] = th_set_requires_gradient(th_keep(th_cast(operand[i], dtype)), true);
    }
    th_module *m = torch_module_new(ctx, kind, settings, operand);
    no_error();
    ck_assert_int_eq(th_module_cast(m, dtype), TH_OK);
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        ck_assert_int_eq(th_safetensors_read_into(file, p.name, p.tensor), TH_OK);

    th_tensor *weights = NULL, *cotangent = th_cast(read(file, "", "cotangent"), dtype);
    th_tensor *output = torch_module_run(m, kind, operand, setting(settings, "weights") != 0 ? &weights : NULL);
    assert_close(file, "expected.", "output", output, limit);
    if (weights)
        assert_close(file, "expected.", "weights", weights, limit);
    ck_assert_int_eq(th_backward(output, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    int64_t compared = 1 + (weights != NULL);
    for (int i = 0; i < LEAVES; i++)
        if (operand[i]) {
            assert_close(file, "expected.gradient.", operand_name[i], th_gradient(operand[i]), limit);
            compared++;
        }
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p); compared++)
        assert_close(file, "expected.gradient.", p.name, th_gradient(p.tensor), limit);
    int64_t expected = 0;
    for (int64_t i = 0; i < th_safetensors_count(file); i++)
        expected += strncmp(th_safetensors_at(file, i)->name, "expected.", 9) == 0;
    ck_assert_int_eq(compared, expected);
    th_safetensors_close(file);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("torch_fixtures", setup, close_context);
    tcase_add_loop_test(tcase, outputs_and_gradients_equal_pytorch, 0, 4 * (int)(sizeof fixture / sizeof *fixture));
    return run_suites();
}

/* tape_scripts FOLDER: writes tapes as scripts for PyTorch (NAME.torch.py) and NumPy (NAME.numpy.py), in float32 and
 * float64. The tapes are every operation of the registry on all of its samples, attention layers, transformer blocks and
 * models. Prints the number of operations. tape_scripts.py runs the scripts. */
#include "driver.h"

static const char *folder;

/* Runs backward, unless y is NULL, and writes both scripts. Then ends the step. */
static void write_scripts_of(th_context *ctx, th_tensor *y, const th_backward_options *options, const char *name)
{
    driver_check(ctx);
    if (y && th_backward(y, options))
        driver_check(ctx);
    for (int numpy = 0; numpy < 2; numpy++) {
        char path[MAX_DRIVER_PATH];
        snprintf(path, sizeof path, "%s/%s.%s.%s.py", folder, name, th_dtype_name(th_default_dtype(ctx)),
                 numpy ? "numpy" : "torch");
        if (th_tape_write_python(ctx, path, &(th_python_options){.numpy = numpy, .title = name}))
            driver_check(ctx);
    }
    th_tape_clear(ctx);
}

static void write_scripts(th_context *ctx, th_tensor *loss, const char *name)
{
    write_scripts_of(ctx, loss, NULL, name);
}

/* Returns the sum of y times random numbers, which makes every output gradient different. */
static th_tensor *weighted_sum(th_tensor *y)
{
    th_context *ctx = th_context_of(y);
    const th_dtype dtype = th_dtype_of(y);
    th_tensor *number = dtype == TH_FLOAT32 || dtype == TH_FLOAT64 ? y : th_cast(y, th_default_dtype(ctx));
    th_tensor *random = th_uniform(ctx, th_dtype_of(number), th_shape_of(y), -1, 1);
    if (!th_requires_gradient(y)) /* y becomes a constant of the script */
        th_set_requires_gradient(random, true);
    return th_cast(th_sum(th_mul(number, random), TH_ALL_AXES, NULL), th_default_dtype(ctx));
}

static bool is_finite(th_tensor *t)
{
    bool finite = true;
    const int64_t numel = th_numel(t);
    th_tensor *flat = th_reshape(t, TH_SHAPE(-1));
    for (int64_t i = 0; i < numel; i++) {
        const double number = th_get(flat, TH_SHAPE(i));
        finite = finite && number - number == 0;
    }
    return finite;
}

/* Returns the loss of one sample: of the first output, and of attention's log-sum-exp if every query has keys. */
static th_tensor *sample_loss(th_context *ctx, const th_op *op, const th_sample *sample)
{
    th_tensor *input[TH_MAX_SAMPLE_INPUTS], *second = NULL;
    if (th_sample_inputs(ctx, sample, th_default_dtype(ctx), 7, input))
        driver_check(ctx);
    for (int i = 0; i < sample->n_inputs; i++)
        if (input[i] && !sample->input[i % TH_MAX_INPUTS].constant &&
            (th_dtype_of(input[i]) == TH_FLOAT32 || th_dtype_of(input[i]) == TH_FLOAT64))
            th_set_requires_gradient(input[i], true);
    th_tensor **extra[TH_MAX_OUTPUTS - 1] = {op->differentiable_outputs & 2 ? &second : NULL};
    th_tensor *loss = weighted_sum(th_apply_n(op, sample->attributes, sample->n_inputs, input, extra));
    if (second && is_finite(second))
        loss = th_add(loss, weighted_sum(second));
    for (int i = 0; i < sample->n_inputs; i++)
        th_tensor_free(input[i]);
    return loss;
}

/* Scripts of the tape refuse inputs of a storage type. */
static bool has_stored_input(const th_sample *sample)
{
    for (int i = 0; i < sample->n_inputs; i++)
        if (sample->input[i % TH_MAX_INPUTS].storage)
            return true;
    return false;
}

/* Writes one tape with all samples of an operation. */
static void write_operation(th_context *ctx, const th_op *op)
{
    th_tensor *loss = NULL;
    for (const th_sample *sample = op->samples; sample->name; sample++) {
        if (has_stored_input(sample))
            continue;
        th_tensor *more = sample_loss(ctx, op, sample);
        loss = loss ? th_add(loss, more) : more;
    }
    write_scripts(ctx, loss, op->name);
}

static void write_attention(th_context *ctx, const char *name, bool fusion)
{
    th_set_fusion(ctx, fusion);
    th_module *attention = th_multi_head_attention_new(ctx, 16, 4, &(th_multi_head_attention_options){.dropout = 0.2});
    th_tensor *x = th_set_requires_gradient(th_randn(ctx, th_default_dtype(ctx), TH_SHAPE(2, 5, 16)), true);
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT};
    write_scripts(ctx, weighted_sum(th_attend(attention, x, x, x, &(th_attend_options){.mask = &mask})), name);
    th_set_fusion(ctx, true);
    th_module_free(attention);
}

static void write_block(th_context *ctx, const char *name, const th_transformer_block_options *options)
{
    th_module *block = th_transformer_block_new(ctx, 16, 4, options);
    th_tensor *x = th_set_requires_gradient(th_randn(ctx, th_default_dtype(ctx), TH_SHAPE(2, 6, 16)), true);
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT};
    write_scripts(ctx, weighted_sum(th_transform(block, x, &(th_transform_options){.mask = &mask})), name);
    th_module_free(block);
}

static void write_model(th_context *ctx, const char *name, const th_language_model_options *options)
{
    th_module *model = th_language_model_new(ctx, options);
    th_tensor *text = th_random_integers(ctx, TH_INT32, TH_SHAPE(2, 9), 0, options->vocabulary);
    th_tensor *loss = th_language_model_loss(model, th_slice(text, 1, 0, 8, 1), th_slice(text, 1, 1, 9, 1), NULL);
    write_scripts(ctx, loss, name);
    th_module_free(model);
}

/* Writes tapes on which backward begins and ends in unusual places. */
static void write_passes(th_context *ctx)
{
    const th_dtype dtype = th_default_dtype(ctx);
    th_tensor *x = th_set_requires_gradient(th_randn(ctx, dtype, TH_SHAPE(3, 4)), true);
    th_tensor *strided = th_swap_axes(th_randn(ctx, dtype, TH_SHAPE(4, 3)), 0, 1),
              *cotangent = th_ones(ctx, dtype, TH_SHAPE(2, 3));
    th_tensor *y = th_mul(th_exp(x), strided), *view = th_swap_axes(th_slice(y, 1, 0, 4, 2), 0, 1);
    th_cast(view, TH_INT32);
    write_scripts_of(ctx, view, &(th_backward_options){.cotangent = cotangent}, "from_a_view");

    th_empty_gradient(x);
    y = th_tanh(x);
    th_tensor *part = th_select(y, 0, 1), *z = th_sum(th_mul(th_slice(y, 0, 0, 2, 1), part), TH_ALL_AXES, NULL);
    th_reshape(th_slice(y, 1, 0, 2, 1), TH_SHAPE(-1)); /* backward does not reach it */
    write_scripts(ctx, z, "views");

    th_empty_gradient(x);
    y = th_exp(x);
    write_scripts_of(ctx, weighted_sum(th_sin(y)), &(th_backward_options){.wrt = &y, .n_wrt = 1}, "wrt");

    th_exp(th_slice(x, 0, 0, 1, 1));
    write_scripts_of(ctx, NULL, NULL, "no_backward");
    th_tensor_free(x);
}

static void write_precisions(th_context *ctx)
{
    for (th_precision p = TH_PRECISION_BFLOAT16X3; p <= TH_PRECISION_BFLOAT16; p++) {
        if (th_set_precision(ctx, p))
            driver_check(ctx);
        write_block(ctx, th_precision_name(p), NULL);
    }
    if (th_set_precision(ctx, TH_PRECISION_FLOAT32))
        driver_check(ctx);
}

static void write_all(th_context *ctx)
{
    for (int i = 0; i < th_op_count(); i++)
        write_operation(ctx, th_op_at(i));
    write_passes(ctx);
    write_precisions(ctx);
    write_attention(ctx, "attention_layer", true);
    write_attention(ctx, "attention_layer_composed", false);
    const th_transformer_block_options llama = {.norm = TH_RMS_NORM,
                                                .gated = true,
                                                .activation = TH_SILU,
                                                .no_bias = true,
                                                .scores = {.rotary = true},
                                                .mlp_width = 24,
                                                .kv_heads = 2};
    write_block(ctx, "gpt2_block", &(th_transformer_block_options){.dropout = 0.1, .no_mlp_dropout = true});
    write_block(ctx, "llama_block", &llama);
    write_model(ctx, "gpt2",
                &(th_language_model_options){
                    .vocabulary = 20, .length = 8, .width = 16, .heads = 2, .layers = 2, .dropout = 0.1});
    write_model(ctx, "llama",
                &(th_language_model_options){.vocabulary = 20,
                                             .length = 8,
                                             .width = 16,
                                             .heads = 4,
                                             .layers = 2,
                                             .positions = TH_POSITIONS_NONE,
                                             .untied = true,
                                             .block = llama});
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    folder = argv[1];
    const th_dtype dtypes[] = {TH_FLOAT32, TH_FLOAT64};
    for (int i = 0; i < 2; i++) {
        th_context *ctx = th_context_new(&(th_context_options){.seed = 1, .default_dtype = dtypes[i]});
        th_keep_values(ctx, true);
        write_all(ctx);
        driver_check(ctx);
        th_context_free(ctx);
    }
    printf("%d\n", th_op_count());
}

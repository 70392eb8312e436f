/* Mixes a block's tensors with tensors of the first block: see first_block.h. */
#include "nn/first_block.h"

#include "nn/module.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/convert.h"
#include "tensor/tensor.h"

th_tensor *th_mix_parameter_new(th_module *m, const char *name, double of_x, double of_first)
{
    th_tensor *factors = th_module_add_parameter(m, name, TH_SHAPE(2));
    const th_dtype dtype = factors ? th_dtype_of(factors) : TH_FLOAT32;
    char *data = factors ? th_tensor_data(th_tensor_impl_of(factors)) : NULL; /* NULL in a shapes-only context */
    if (data) {
        th_number_write(dtype, data, of_x);
        th_number_write(dtype, data + th_dtype_size(dtype), of_first);
    }
    return factors;
}

static bool have_same_shape(const th_module *m, th_tensor *x, th_tensor *first, const char *name)
{
    if (x == NULL)
        return false;
    if (first == NULL) {
        th_fail(m->ctx, TH_ERROR_ARGUMENT, m->type,
                "the layer mixes its input with the first block's: .%s must be given", name);
        return false;
    }
    const th_tensor_impl *impl = th_usable_tensor(first, m->ctx, m->type, name);
    if (impl == NULL)
        return false;
    const th_array a = th_tensor_array(th_tensor_impl_of(x)), b = th_tensor_array(impl);
    if (!th_same_sizes(&a, &b))
        th_fail(m->ctx, TH_ERROR_SHAPE, m->type, ".%s is %s, but it must be %s, as in this layer", name, TH_TEXT(&b),
                TH_TEXT(&a));
    return !th_failed(m->ctx);
}

th_tensor *th_mix(const th_module *m, th_tensor *factors, th_tensor *x, th_tensor *first, const char *name)
{
    if (!have_same_shape(m, x, first, name))
        return NULL;
    return th_add(th_mul(x, th_slice(factors, 0, 0, 1, 1)), th_mul(first, th_slice(factors, 0, 1, 2, 1)));
}

th_transformer_block_options th_options_of_block(const th_transformer_block_options *block, int64_t i)
{
    th_transformer_block_options options = *block;
    options.value_residual &= i > 0;
    options.embedding_skip &= i > 0;
    options.no_first_norm &= i == 0;
    return options;
}

void th_first_block_options(th_transform_options *options, th_tensor *x, th_tensor **first_values, bool value_residual,
                            bool embedding_skip)
{
    if (value_residual && options->first_values == NULL)
        options->first_values = first_values;
    if (embedding_skip && options->first_input == NULL)
        options->first_input = x;
}

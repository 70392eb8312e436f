/* multi_head_attention FOLDER HEADS: multi-head attention with PyTorch's weights. Reads query, key, value and
 * cotangent. The mask is key_lengths if that file exists, otherwise causal. Writes output, weights and every gradient
 * of sum(output * cotangent). */
#include "driver.h"

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const char *folder = argv[1];
    th_context *ctx = th_context_new(NULL);
    th_tensor *query = driver_read(ctx, folder, "query"), *key = driver_read(ctx, folder, "key"),
              *value = driver_read(ctx, folder, "value"), *cotangent = driver_read(ctx, folder, "cotangent"),
              *lengths = driver_read_optional(ctx, folder, "key_lengths");
    th_module *attention = th_multi_head_attention_new(
        ctx, th_size(query, -1), atoi(argv[2]),
        &(th_multi_head_attention_options){.key_input = th_size(key, -1), .value_input = th_size(value, -1)});
    driver_check(ctx);
    driver_read_parameters(attention, folder, th_dtype_of(query));

    th_tensor *const inputs[] = {query, key, value};
    for (int i = 0; i < 3; i++)
        th_set_requires_gradient(inputs[i], true);
    const th_mask mask = {.valid_lengths = lengths, .causal = lengths ? TH_CAUSAL_NONE : TH_CAUSAL_TOP_LEFT};
    th_tensor *weights = NULL;
    th_tensor *output =
        th_attend(attention, query, key, value, &(th_attend_options){.mask = &mask, .weights = &weights});
    driver_write(ctx, folder, "output", output);
    driver_write(ctx, folder, "weights", weights);
    if (th_backward(output, &(th_backward_options){.cotangent = cotangent}))
        driver_check(ctx);
    driver_write_gradients(attention, folder);
    driver_write(ctx, folder, "gradient.query", th_gradient(query));
    driver_write(ctx, folder, "gradient.key", th_gradient(key));
    driver_write(ctx, folder, "gradient.value", th_gradient(value));
    driver_check(ctx);
    th_context_free(ctx);
}

/* attention_options FOLDER HEADS KV_HEADS OPTION...: attention with options and PyTorch's weights. Reads x, cotangent
 * and, if present, positions. An option is NAME or NAME=NUMBER: a field of th_score_options, or composed. Writes output
 * and every gradient of sum(output * cotangent). */
#include "driver.h"

static void read_option(th_context *ctx, th_score_options *scores, const char *option)
{
    const char *const equals = strchr(option, '=');
    const size_t length = equals ? (size_t)(equals - option) : strlen(option);
    const double value = equals ? strtod(equals + 1, NULL) : 1;
#define IS(name) (strlen(name) == length && strncmp(option, name, length) == 0)
    if (IS("rotary")) {
        scores->rotary = true;
    } else if (IS("neighbors")) {
        scores->rotary_pairing = TH_ROTARY_NEIGHBORS;
    } else if (IS("base")) {
        scores->rotary_base = value;
    } else if (IS("rotary_width")) {
        scores->rotary_width = (int64_t)value;
    } else if (IS("alibi")) {
        scores->alibi = true;
    } else if (IS("qk_norm")) {
        scores->qk_norm = true;
        scores->qk_norm_eps = value;
    } else if (IS("soft_cap")) {
        scores->soft_cap = value;
    } else if (IS("window")) {
        scores->window = (int64_t)value;
    } else if (IS("composed")) {
        th_set_fusion(ctx, false);
    } else {
        fprintf(stderr, "unknown option %s\n", option);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const char *folder = argv[1];
    th_context *ctx = th_context_new(NULL);
    th_tensor *x = driver_read(ctx, folder, "x"), *cotangent = driver_read(ctx, folder, "cotangent"),
              *positions = driver_read_optional(ctx, folder, "positions");
    th_multi_head_attention_options options = {.kv_heads = atoi(argv[3])};
    for (int i = 4; i < argc; i++)
        read_option(ctx, &options.scores, argv[i]);
    th_module *attention = th_multi_head_attention_new(ctx, th_size(x, -1), atoi(argv[2]), &options);
    driver_check(ctx);
    driver_read_parameters(attention, folder, th_dtype_of(x));

    th_set_requires_gradient(x, true);
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT};
    th_tensor *output = th_attend(attention, x, x, x, &(th_attend_options){.mask = &mask, .positions = positions});
    driver_write(ctx, folder, "output", output);
    if (th_backward(output, &(th_backward_options){.cotangent = cotangent}))
        driver_check(ctx);
    driver_write_gradients(attention, folder);
    driver_write(ctx, folder, "gradient.x", th_gradient(x));
    driver_check(ctx);
    th_context_free(ctx);
}

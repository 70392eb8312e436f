/* Writes pages for the tests in a browser: browser_pages DIRECTORY. Each page shows something else that the viewer must do. */
#include <math.h>
#include <stdio.h>
#include <tapehead/tapehead.h>

static const char *directory;

/* Writes the tape to DIRECTORY/name. Then the tape is empty. */
static th_status write_tape(th_context *ctx, const char *name, th_html_options options)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    const th_status status = th_tape_write_html(ctx, path, &options);
    th_tape_clear(ctx);
    return status;
}

/* A tensor of random numbers that requires a gradient. */
static th_tensor *leaf(th_context *ctx, const char *name, th_shape shape)
{
    return th_set_requires_gradient(th_set_name(th_randn(ctx, TH_FLOAT64, shape), name), true);
}

/* A language model of one layer on 64 tokens. All numbers are on the page. */
static th_status write_model(th_context *ctx)
{
    enum { LENGTH = 64 };
    char letter[LENGTH][2];
    const char *tokens[LENGTH];
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = 8, .length = LENGTH, .width = 16, .heads = 4, .layers = 1});
    th_tensor *text = th_random_integers(ctx, TH_INT32, TH_SHAPE(1, LENGTH + 1), 0, 8);
    for (int i = 0; i < LENGTH; i++) {
        snprintf(letter[i], sizeof letter[i], "%c", 'a' + i % 26);
        tokens[i] = letter[i];
    }
    th_tensor *loss =
        th_language_model_loss(model, th_slice(text, 1, 0, LENGTH, 1), th_slice(text, 1, 1, LENGTH + 1, 1), NULL);
    if (th_backward(loss, NULL))
        return th_error_code(ctx);
    return write_tape(
        ctx, "model.html",
        (th_html_options){
            .title = "A language model on 64 tokens", .tokens = tokens, .n_tokens = LENGTH, .max_elements = 1 << 20});
}

/* Attention with a causal mask. The loss is the sum of the output, weighted with random numbers. */
static th_status attention_page(th_context *ctx, const char *name, int64_t length, int64_t size, double dropout)
{
    const th_shape shape = TH_SHAPE(1, 2, length, size);
    th_tensor *o = th_scaled_dot_product_attention(
        leaf(ctx, "queries", shape), leaf(ctx, "keys", shape), leaf(ctx, "values", shape),
        &(th_attention_options){.mask = &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}, .dropout = dropout});
    th_tensor *loss = th_sum(th_mul(o, th_randn(ctx, TH_FLOAT64, shape)), TH_ALL_AXES, NULL);
    if (th_backward(loss, NULL))
        return th_error_code(ctx);
    return write_tape(ctx, name, (th_html_options){.title = name, .max_elements = 1 << 20, .max_differences = 64});
}

/* Attention of 4 query heads with 2 key heads and dropout, whose matrices the viewer computes. */
static th_status write_grouped(th_context *ctx)
{
    enum { LENGTH = 80 };
    const th_shape shape = TH_SHAPE(1, 4, LENGTH, 6), shared = TH_SHAPE(1, 2, LENGTH, 6);
    th_tensor *o = th_scaled_dot_product_attention(
        leaf(ctx, "queries", shape), leaf(ctx, "keys", shared), leaf(ctx, "values", shared),
        &(th_attention_options){.mask = &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}, .dropout = 0.25});
    th_tensor *loss = th_sum(th_mul(o, th_randn(ctx, TH_FLOAT64, shape)), TH_ALL_AXES, NULL);
    if (th_backward(loss, NULL))
        return th_error_code(ctx);
    return write_tape(ctx, "grouped.html",
                      (th_html_options){.title = "Grouped heads", .max_elements = 1 << 20, .max_differences = 64});
}

/* Several uses of one tensor, broadcast axes, views, a leaf that the loss does not read. */
static th_status write_rules(th_context *ctx)
{
    th_tensor *x = leaf(ctx, "x", TH_SHAPE(3, 4)), *bias = leaf(ctx, "bias", TH_SHAPE(4)),
              *c = leaf(ctx, "c", TH_SCALAR);
    th_tensor *unused = leaf(ctx, "unused", TH_SHAPE(2));
    th_tensor *h = th_set_name(th_tanh(th_add(th_mul(x, c), bias)), "h");
    th_tensor *left = th_slice(h, 1, 0, 2, 1), *right = th_slice(h, 1, 2, 4, 1);
    (void)th_mul(unused, unused);
    th_tensor *y = th_add(th_mul(left, right), th_mul(left, left));
    th_tensor *loss = th_set_name(th_sum(y, TH_ALL_AXES, NULL), "loss");
    if (th_backward(loss, NULL))
        return th_error_code(ctx);
    return write_tape(ctx, "rules.html", (th_html_options){.title = "Rules <of> \"backward\" & views"});
}

/* Numbers that are not finite, an empty tensor, and no backward. A second section follows. */
static th_status write_sections(th_context *ctx)
{
    const double numbers[] = {NAN, INFINITY, -INFINITY, -0.0, 1e-300, 123456789.0, 0.1, -1e20};
    th_tensor *special = th_set_name(th_from_data(ctx, TH_FLOAT64, TH_SHAPE(2, 4), numbers), "special");
    (void)th_add(special, th_set_requires_gradient(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(4)), true));
    (void)th_scale(leaf(ctx, "empty", TH_SHAPE(0, 3)), 2);
    if (write_tape(ctx, "sections.html", (th_html_options){.title = "Forward only"}))
        return th_error_code(ctx);
    th_tensor *a = leaf(ctx, "a", TH_SCALAR), *b = leaf(ctx, "b", TH_SCALAR);
    if (th_backward(th_mul(th_add(a, b), b), NULL))
        return th_error_code(ctx);
    return write_tape(ctx, "sections.html", (th_html_options){.title = "Second section", .append = true});
}

/* Arrays that are larger than the page may contain. */
static th_status write_cropped(th_context *ctx)
{
    th_tensor *x = leaf(ctx, "x", TH_SHAPE(40, 30)), *w = leaf(ctx, "w", TH_SHAPE(30, 20));
    if (th_backward(th_sum(th_matmul(x, w), TH_ALL_AXES, NULL), NULL))
        return th_error_code(ctx);
    return write_tape(ctx, "cropped.html", (th_html_options){.title = "Cropped", .max_elements = 100});
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return fprintf(stderr, "browser_pages: the argument is the directory for the pages\n"), 2;
    directory = argv[1];
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1});
    if (ctx == NULL)
        return fprintf(stderr, "browser_pages: no memory\n"), 1;
    th_keep_values(ctx, true);
    if (write_model(ctx) == TH_OK && attention_page(ctx, "fused.html", 5, 3, 0.2) == TH_OK &&
        attention_page(ctx, "long.html", 512, 16, 0) == TH_OK && write_grouped(ctx) == TH_OK &&
        write_rules(ctx) == TH_OK && write_sections(ctx) == TH_OK && write_cropped(ctx) == TH_OK) {
        th_set_fusion(ctx, false);
        (void)attention_page(ctx, "composed.html", 5, 3, 0);
    }
    const bool failed = th_error_code(ctx) != TH_OK;
    if (failed)
        fprintf(stderr, "browser_pages: %s\n", th_error_message(ctx));
    th_context_free(ctx);
    return failed;
}

/* losses FOLDER: computes every loss of tapehead/losses.h on embeddings a, b, negatives (N, E), targets (N), logits (N, V),
 * classes (N), several (N, V) and weights (V). Writes each loss, and the gradient of its first operand. */
#include "driver.h"

typedef struct operands {
    th_tensor *a, *b, *negatives, *targets, *logits, *classes, *several, *weights;
} operands;

static void write_loss(th_context *ctx, const char *folder, const char *name, th_tensor *x, th_tensor *loss)
{
    char gradient[80];
    snprintf(gradient, sizeof gradient, "gradient.%s", name);
    driver_write(ctx, folder, name, loss);
    if (th_backward(loss, NULL))
        driver_check(ctx);
    driver_write(ctx, folder, gradient, th_gradient(x));
    th_empty_gradient(x);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    const char *f = argv[1];
    th_context *ctx = th_context_new(&(th_context_options){.default_dtype = TH_FLOAT64});
    const operands o = {th_set_requires_gradient(driver_read(ctx, f, "a"), true),
                        driver_read(ctx, f, "b"),
                        driver_read(ctx, f, "negatives"),
                        driver_read(ctx, f, "targets"),
                        th_set_requires_gradient(driver_read(ctx, f, "logits"), true),
                        driver_read(ctx, f, "classes"),
                        driver_read(ctx, f, "several"),
                        driver_read(ctx, f, "weights")};
    const th_ranking_options symmetric = {.symmetric = true, .scale = 30};
    const th_triplet_options by_cosine = {.distance = TH_COSINE, .margin = 0.25};
    const th_cross_entropy_options smooth = {.label_smoothing = 0.2, TH_IGNORE(1)};
    write_loss(ctx, f, "cosine", o.a, th_cosine_similarity_loss(o.a, o.b, o.targets));
    write_loss(ctx, f, "cosent", o.a, th_cosent_loss(o.a, o.b, o.targets, 0));
    write_loss(ctx, f, "ranking", o.a, th_ranking_loss(o.a, o.b, NULL, NULL));
    write_loss(ctx, f, "hard", o.a, th_ranking_loss(o.a, o.b, o.negatives, NULL));
    write_loss(ctx, f, "symmetric", o.a, th_ranking_loss(o.a, o.b, o.negatives, &symmetric));
    write_loss(ctx, f, "triplet", o.a, th_triplet_loss(o.a, o.b, o.negatives, NULL));
    write_loss(ctx, f, "triplet_cosine", o.a, th_triplet_loss(o.a, o.b, o.negatives, &by_cosine));
    write_loss(ctx, f, "binary", o.logits, th_binary_cross_entropy(o.logits, o.several, NULL));
    write_loss(ctx, f, "binary_weighted", o.logits, th_binary_cross_entropy(o.logits, o.several, o.weights));
    write_loss(ctx, f, "weighted", o.logits, th_weighted_cross_entropy(o.logits, o.classes, o.weights, NULL));
    write_loss(ctx, f, "smooth", o.logits, th_weighted_cross_entropy(o.logits, o.classes, o.weights, &smooth));
    th_context_free(ctx);
}

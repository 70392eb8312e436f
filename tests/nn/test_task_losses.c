/* Losses for classifiers and embeddings: formulas, gradients, cases without pairs or targets, and errors.
 * scripts/interop/losses.py compares them with sentence-transformers and torch. */
#include <math.h>

#include "tapehead/check.h"

#include "models.h"

enum { N = 5, E = 4, V = 3, M = 3 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 7, .threads = 2, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

static const int32_t classes[N] = {0, 2, 1, 2, 0};
static const double marks[N] = {0.5, 0.1, 0.5, 0.9, 0.2}, class_weights[V] = {0.5, 2, 0};

static th_tensor *numbers(int64_t count, const double *values)
{
    return th_from_data(ctx, TH_FLOAT64, TH_SHAPE(count), values);
}

static th_tensor *targets(void)
{
    return th_from_data(ctx, TH_INT32, TH_SHAPE(N), classes);
}

static th_tensor *several(void)
{
    th_tensor *t = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(N, V));
    for (int i = 0; i < N * V; i += 2)
        ((double *)th_data(t))[i] = i % 3 ? 1 : 0.25;
    return t;
}

/* -- gradients -- */

static th_tensor *binary(void *user, th_tensor *const *x)
{
    (void)user;
    return th_binary_cross_entropy(x[0], x[1], NULL);
}
static th_tensor *binary_weighted(void *user, th_tensor *const *x)
{
    (void)user;
    return th_binary_cross_entropy(x[0], x[1], numbers(V, class_weights));
}
static th_tensor *weighted(void *user, th_tensor *const *x)
{
    (void)user;
    return th_weighted_cross_entropy(x[0], targets(), numbers(V, class_weights), NULL);
}
static th_tensor *weighted_smooth(void *user, th_tensor *const *x)
{
    (void)user;
    return th_weighted_cross_entropy(x[0], targets(), numbers(V, class_weights),
                                     &(th_cross_entropy_options){.label_smoothing = 0.2, TH_IGNORE(2)});
}
static th_tensor *cosine(void *user, th_tensor *const *x)
{
    (void)user;
    return th_cosine_similarity_loss(x[0], x[1], numbers(N, marks));
}
static th_tensor *cosent(void *user, th_tensor *const *x)
{
    (void)user;
    return th_cosent_loss(x[0], x[1], numbers(N, marks), 3);
}
static th_tensor *ranking(void *user, th_tensor *const *x)
{
    (void)user;
    return th_ranking_loss(x[0], x[1], x[2], &(th_ranking_options){.scale = 3});
}
static th_tensor *symmetric(void *user, th_tensor *const *x)
{
    (void)user;
    return th_ranking_loss(x[0], x[1], NULL, &(th_ranking_options){.scale = 3, .symmetric = true});
}
static th_tensor *triplet(void *user, th_tensor *const *x)
{
    (void)user;
    return th_triplet_loss(x[0], x[1], x[2], NULL);
}
static th_tensor *triplet_cosine(void *user, th_tensor *const *x)
{
    (void)user;
    return th_triplet_loss(x[0], x[1], x[2], &(th_triplet_options){.distance = TH_COSINE, .margin = 2});
}

static const struct {
    const char *name;
    th_gradient_function *function;
    int inputs;
    bool of_logits;
} losses[] = {{"binary", binary, 2, true},     {"binary, weighted", binary_weighted, 2, true},
              {"weighted", weighted, 1, true}, {"weighted, smooth", weighted_smooth, 1, true},
              {"cosine", cosine, 2, false},    {"cosent", cosent, 2, false},
              {"ranking", ranking, 3, false},  {"symmetric", symmetric, 2, false},
              {"triplet", triplet, 3, false},  {"triplet, cosine", triplet_cosine, 3, false}};
enum { LOSSES = sizeof losses / sizeof *losses };

START_TEST(test_gradients)
{
    const th_shape shape = losses[_i].of_logits ? TH_SHAPE(N, V) : TH_SHAPE(N, E);
    th_tensor *inputs[3];
    for (int i = 0; i < 3; i++)
        inputs[i] = th_set_requires_gradient(th_randn(ctx, TH_FLOAT64, shape), true);
    th_gradient_report report;
    const th_status status =
        th_check_gradient(ctx, losses[_i].function, NULL, losses[_i].inputs, inputs, NULL, &report);
    ck_assert_msg(status == TH_OK, "%s: %s", losses[_i].name, th_gradient_failure(ctx, &report));
}
END_TEST

/* -- formulas -- */

static double cosine_of(const double *a, const double *b)
{
    double product = 0, x = 0, y = 0;
    for (int e = 0; e < E; e++) {
        product += a[e] * b[e];
        x += a[e] * a[e];
        y += b[e] * b[e];
    }
    return product / sqrt(x * y);
}

static void assert_loss(th_tensor *loss, double expected)
{
    no_error();
    ck_assert_double_eq_tol(th_item(loss), expected, 1e-12 * (1 + fabs(expected)));
}

START_TEST(test_values_of_embeddings)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(N, E)), *y = th_randn(ctx, TH_FLOAT64, TH_SHAPE(N, E));
    th_tensor *z = th_randn(ctx, TH_FLOAT64, TH_SHAPE(M, E));
    const double *a = th_data_const(x), *b = th_data_const(y), *c = th_data_const(z);
    double squares = 0, pairs = 1, forward = 0, backward = 0, cos[N];
    for (int i = 0; i < N; i++) {
        cos[i] = cosine_of(a + i * E, b + i * E);
        squares += pow(cos[i] - marks[i], 2) / N;
    }
    for (int i = 0; i < N; i++) {
        double row = 0, column = 0, all;
        for (int j = 0; j < N; j++) {
            pairs += marks[i] > marks[j] ? exp(20 * (cos[j] - cos[i])) : 0;
            row += exp(20 * cosine_of(a + i * E, b + j * E));
            column += exp(20 * cosine_of(a + j * E, b + i * E));
        }
        all = row;
        for (int j = 0; j < M; j++)
            all += exp(20 * cosine_of(a + i * E, c + j * E));
        forward += (log(all) - 20 * cos[i]) / N;
        backward += (log(column) - 20 * cos[i]) / N;
    }
    assert_loss(th_cosine_similarity_loss(x, y, numbers(N, marks)), squares);
    assert_loss(th_cosent_loss(x, y, numbers(N, marks), 0), log(pairs));
    assert_loss(th_ranking_loss(x, y, z, NULL), forward);
    assert_loss(th_ranking_loss(x, y, z, &(th_ranking_options){.symmetric = true}), (forward + backward) / 2);
    const double *found = th_data_const(th_cosine_similarity(x, y));
    for (int i = 0; i < N; i++)
        ck_assert_double_eq_tol(found[i], cos[i], 1e-14);
}
END_TEST

START_TEST(test_values_of_classifiers)
{
    th_tensor *x = th_scale(th_randn(ctx, TH_FLOAT64, TH_SHAPE(N, V)), 3), *t = several();
    const double *logit = th_data_const(x), *target = th_data_const(t);
    double sum = 0, heavy = 0, smooth = 0, weight = 0;
    for (int n = 0; n < N; n++) {
        double normalizer = 0;
        for (int v = 0; v < V; v++)
            normalizer += exp(logit[n * V + v]);
        for (int v = 0; v < V; v++) {
            const double p = 1 / (1 + exp(-logit[n * V + v])), y = target[n * V + v];
            sum -= (class_weights[v] * y * log(p) + (1 - y) * log(1 - p)) / (N * V);
            const double w = classes[n] == 2 ? 0 : class_weights[v], log_p = logit[n * V + v] - log(normalizer);
            heavy -= v == classes[n] ? w * log_p : 0;
            smooth -= (0.75 * (v == classes[n]) + 0.25 / V) * w * log_p;
        }
        weight += classes[n] == 2 ? 0 : class_weights[classes[n]];
    }
    th_tensor *w = numbers(V, class_weights);
    const th_cross_entropy_options ignored = {TH_IGNORE(2)},
                                   smoothed = {TH_IGNORE(2), .label_smoothing = 0.25, .normalizer = 4},
                                   none = {TH_IGNORE(9)};
    assert_loss(th_binary_cross_entropy(x, t, w), sum);
    assert_loss(th_weighted_cross_entropy(x, targets(), w, &ignored), heavy / weight);
    assert_loss(th_weighted_cross_entropy(x, targets(), w, &smoothed), smooth / 4);
    assert_loss(th_weighted_cross_entropy(x, targets(), w, &none), heavy / weight); /* class 2 has the weight 0 */
    assert_loss(th_weighted_cross_entropy(x, targets(), th_ones(ctx, TH_FLOAT64, TH_SHAPE(V)), NULL),
                th_item(th_cross_entropy(x, targets(), NULL)));
    th_tensor *far = th_full(ctx, TH_FLOAT64, TH_SHAPE(1, 1), -2000); /* no overflow */
    assert_loss(th_binary_cross_entropy(far, th_ones(ctx, TH_FLOAT64, TH_SHAPE(1, 1)), NULL), 2000);
}
END_TEST

/* -- nothing counts -- */

START_TEST(test_nothing_counts)
{
    th_tensor *x = th_set_requires_gradient(th_randn(ctx, TH_FLOAT64, TH_SHAPE(N, E)), true);
    th_tensor *equal = th_full(ctx, TH_FLOAT64, TH_SHAPE(N), 0.5), *w = th_ones(ctx, TH_FLOAT64, TH_SHAPE(E));
    th_tensor *ignored = th_full(ctx, TH_INT32, TH_SHAPE(N), -100);
    th_tensor *const loss[] = {th_cosent_loss(x, x, equal, 0),
                               th_weighted_cross_entropy(x, ignored, w, &(th_cross_entropy_options){TH_IGNORE(-100)}),
                               th_triplet_loss(x, x, th_add_scalar(x, 100), NULL)};
    for (int i = 0; i < 3; i++) {
        assert_loss(loss[i], 0);
        ck_assert_int_eq(th_backward(loss[i], NULL), TH_OK);
        const double *gradient = th_data_const(th_gradient(x));
        for (int64_t j = 0; j < N * E; j++)
            ck_assert(gradient[j] == 0);
    }
}
END_TEST

START_TEST(test_errors)
{
    th_tensor *x = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(N, E)), *y = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(N, V));
    th_tensor *w = numbers(V, class_weights), *cube = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(1, N, E));
    assert_error(th_binary_cross_entropy(x, y, NULL), TH_ERROR_SHAPE, "logits are (5, 4), but targets are (5, 3)");
    assert_error(th_cosine_similarity(x, y), TH_ERROR_SHAPE, "a are (5, 4), but b are (5, 3)");
    assert_error(th_cosine_similarity_loss(cube, cube, w), TH_ERROR_SHAPE, "a must be (N, E); they have 3 axes");
    assert_error(th_cosent_loss(x, x, w, 0), TH_ERROR_SHAPE, "targets must be (5), one for each pair; they are (3)");
    assert_error(th_ranking_loss(x, x, y, NULL), TH_ERROR_SHAPE, "negatives must be (M, 4); they are (5, 3)");
    assert_error(th_triplet_loss(x, x, y, NULL), TH_ERROR_SHAPE, "anchors are (5, 4), but negatives are (5, 3)");
    assert_error(th_triplet_loss(x, x, x, &(th_triplet_options){.distance = (th_distance)2}), TH_ERROR_ARGUMENT,
                 "unknown distance: 2");
    assert_error(th_weighted_cross_entropy(x, targets(), w, NULL), TH_ERROR_SHAPE, "but they are (5, 4), (5) and (3)");
    assert_error(th_weighted_cross_entropy(y, targets(), w, &(th_cross_entropy_options){.label_smoothing = 2}),
                 TH_ERROR_ARGUMENT, "label_smoothing must be in [0, 1], it is 2");
    assert_error(th_weighted_cross_entropy(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(N, 2)), targets(),
                                           th_ones(ctx, TH_FLOAT64, TH_SHAPE(2)), NULL),
                 TH_ERROR_INDEX, "2");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("losses", setup, close_context);
    tcase_add_loop_test(tests, test_gradients, 0, LOSSES);
    tcase_add_test(tests, test_values_of_embeddings);
    tcase_add_test(tests, test_values_of_classifiers);
    tcase_add_test(tests, test_nothing_counts);
    tcase_add_test(tests, test_errors);
    return run_suites();
}

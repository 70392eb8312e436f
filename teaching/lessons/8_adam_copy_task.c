/* Lesson 8: Adam on two numbers, then on a small copy task. teaching/lessons/8-adam-copy-task.md explains it. */
#include "lesson.h"

enum { STEPS = 4, SYMBOLS = 10, LENGTH = 8, WIDTH = 32, HEADS = 2, BATCH = 16 };

static double c[2] = {10, 1}, theta[2] = {1, 1}, m[2], v[2]; /* L = 1/2 sum c theta² */
static double table[2][STEPS][6];                            /* after each step */

/* Step t = 1, 2, ... of Adam for number i, with gradient g. */
static void adam(int t, int i, double g)
{
    const double rate = 0.1, beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    const double m_hat = m[i] / (1 - pow(beta1, t)), v_hat = v[i] / (1 - pow(beta2, t));
    theta[i] -= rate * m_hat / (sqrt(v_hat) + eps);
    const double row[] = {g, m[i], v[i], m_hat, v_hat, theta[i]};
    memcpy(table[i][t - 1], row, sizeof row);
}

/* The same steps by the library, which takes the gradient from the tape. */
static void compare_adam(th_context *ctx)
{
    th_module *model = th_module_new(ctx, sizeof *model, "two_numbers", NULL);
    th_tensor *numbers = th_module_add_parameter(model, "theta", TH_SHAPE(2)), *tc = leaf(ctx, "c", TH_SHAPE(2), c);
    th_optimizer *optimizer = th_adam_new(model, &(th_adam_options){.learning_rate = 0.1});
    if (th_fill(numbers, 1))
        return;
    for (int t = 1; t <= STEPS; t++) {
        th_tensor *loss = th_scale(th_sum(th_mul(tc, th_mul(numbers, numbers)), TH_ALL_AXES, NULL), 0.5);
        if (th_backward(loss, NULL) || th_optimizer_step(optimizer))
            return;
        th_tape_clear(ctx);
    }
    show("theta after the last step", 1, 2, theta, numbers);
}

typedef struct {
    th_module base;
    th_module *embedding, *attention, *output;
    th_tensor *positions;
} copy_model;

static th_tensor *copy_model_forward(th_module *base, th_tensor *tokens) /* (B, T) -> (B, T, symbols + 1) */
{
    const copy_model *model = (const copy_model *)base;
    const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    th_tensor *h = th_add(th_module_forward(model->embedding, tokens), model->positions);
    h = th_add(h, th_attend(model->attention, h, h, h, &(th_attend_options){.mask = &causal}));
    return th_module_forward(model->output, h);
}

static th_module *copy_model_new(th_context *ctx)
{
    copy_model *model = th_module_new(ctx, sizeof *model, "copy_model", copy_model_forward);
    if (model == NULL)
        return NULL;
    th_module *base = &model->base;
    model->embedding = th_module_add(base, "embedding", th_embedding_new(ctx, SYMBOLS + 1, WIDTH));
    model->positions = th_module_add_parameter(base, "positions", TH_SHAPE(2 * LENGTH, WIDTH));
    model->attention = th_module_add(base, "attention", th_multi_head_attention_new(ctx, WIDTH, HEADS, NULL));
    model->output = th_module_add(base, "output", th_dense_new(ctx, WIDTH, SYMBOLS + 1, NULL));
    return th_fill_normal(model->positions, 0, 1) == TH_OK ? base : NULL;
}

static void train(th_context *ctx)
{
    const char bars[] = "##############################";
    th_module *model = copy_model_new(ctx);
    th_optimizer *optimizer = th_adam_new(model, &(th_adam_options){.learning_rate = 0.01});
    th_tensor *separator = th_full(ctx, TH_INT32, TH_SHAPE(BATCH, 1), SYMBOLS);
    for (int step = 0; step <= 50; step++) {
        th_step_begin(ctx);
        th_tensor *x = th_random_integers(ctx, TH_INT32, TH_SHAPE(BATCH, LENGTH), 0, SYMBOLS);
        th_tensor *tokens = th_concat((th_tensor *const[]){x, separator, th_slice(x, 1, 0, LENGTH - 1, 1)}, 3, 1);
        th_tensor *logits = th_slice(th_module_forward(model, tokens), 1, LENGTH, 2 * LENGTH, 1);
        th_tensor *loss = th_cross_entropy(logits, x, NULL);
        th_tensor *right = th_cast(th_equal(th_cast(th_argmax(logits, -1), TH_INT32), x), TH_FLOAT64);
        const double percent = 100 * th_item(th_mean(right, TH_ALL_AXES, NULL)), l = th_item(loss);
        if (step % 5 == 0)
            printf("step %2d  loss %6.4f  %3.0f %% right  %.*s\n", step, l, percent, 1 + (int)(10 * l), bars);
        if (th_backward(loss, NULL) || (step == 50 && write_page(ctx)) || th_optimizer_step(optimizer))
            return;
        th_tape_clear(ctx);
    }
}

int main(int argc, char **argv)
{
    th_context *ctx = begin_lesson(argc, argv, "Lesson 8, Adam: on two numbers, then on a small copy task");
    for (int t = 1; t <= STEPS; t++)
        for (int i = 0; i < 2; i++)
            adam(t, i, c[i] * theta[i]);
    print_versions("g, m, v, m^, v^ and theta[0] after each step; g = 10 theta[0]", STEPS, 6, 1,
                   (const double *const[]){*table[0]});
    print_versions("and of theta[1]; g = theta[1]", STEPS, 6, 1, (const double *const[]){*table[1]});
    compare_adam(ctx);
    train(ctx);
    return end_lesson(ctx);
}

/* Calls of the public API in any order: on old and new handles, in forwards that end early, with pending errors,
 * without memory. No call crashes, and a cleared context computes the same as a new one. The order is random and the
 * same in every run. The sanitizers detect hidden errors. */
#include <stdio.h>
#include <string.h>

#include "nn/module.h"
#include "tapehead/tapehead.h"

#include "context.h"

/* Ignores a status: other tests check it. */
#define RUN(status) (void)((status) == TH_OK)

enum { TENSORS = 64, MODULES = 8, OPTIMIZERS = 4, CALLS = 1000, RUNS = 10 };

static uint64_t state;
static FILE *nowhere;
static th_tensor *tensor[TENSORS]; /* old and new */
static th_module *module[MODULES];
static th_optimizer *optimizer[OPTIMIZERS];
static int depth; /* number of forwards that run */

static int below(int n)
{
    state ^= state << 13; /* xorshift64, Marsaglia 2003 */
    state ^= state >> 7;
    state ^= state << 17;
    return (int)(state % (uint64_t)n);
}

/* Returns a random tensor, usually a live one. */
static th_tensor *any(void)
{
    const bool pending = th_error_code(ctx) != TH_OK;
    th_tensor *t = tensor[below(TENSORS)];
    for (int tries = 0; tries < 30 && !pending && below(20) > 0; tries++) {
        th_ndim(t);
        if (t && th_error_code(ctx) == TH_OK)
            break;
        th_error_clear(ctx);
        t = tensor[below(TENSORS)];
    }
    return below(50) ? t : NULL;
}

static th_tensor *any_leaf(void)
{
    th_tensor *t = any();
    for (int tries = 0; tries < 20 && !th_requires_gradient(t); tries++)
        t = any();
    return t;
}

static th_module *any_module(void)
{
    return module[below(MODULES)];
}

static void keep(th_tensor *t)
{
    if (t || below(4) == 0)
        tensor[below(TENSORS)] = t;
}

static th_shape any_shape(void)
{
    return below(8) ? TH_SHAPE(4, 4) : TH_SHAPE(1 + below(4), below(4));
}

/* -- the calls -- */

static void make(void)
{
    keep(th_randn(ctx, TH_FLOAT32, any_shape()));
    if (below(2))
        keep(th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, any_shape()), true));
}
static void use_one(void)
{
    th_tensor *x = any();
    th_tensor *const y[] = {
        th_softmax(x, -1),          th_dropout(x, 0.5),      th_gelu(x), th_swap_axes(x, 0, 1),
        th_layer_norm(x, NULL),     th_slice(x, 0, 0, 1, 1), th_keep(x), th_sum(x, TH_ALL_AXES, NULL),
        th_reshape(x, TH_SHAPE(-1))};
    keep(y[below(sizeof y / sizeof y[0])]);
}
static void use_two(void)
{
    th_tensor *a = any(), *b = any();
    keep(below(2) ? th_add(a, b) : th_matmul(a, b));
    keep(below(2) ? th_concat((th_tensor *[]){a, b, a}, 3, 0) : th_stack((th_tensor *[]){a, b}, 2, 0));
}
static void look(void)
{
    float number[16] = {0};
    th_tensor *t = any();
    const int64_t numel = th_numel(t);
    const size_t bytes = numel > 0 && numel <= 16 ? (size_t)numel * sizeof(float) : 0;
    (void)(th_item(t) + (double)th_size(t, -1) + th_get(t, TH_INDEX(0, 0)));
    (void)(th_copy_out(t, number, bytes) || th_copy_in(t, number, bytes) || th_print(t, nowhere, NULL));
    float *data = th_data(t);
    if (data && numel > 0)
        data[0] = 1;
}
static void change(void)
{
    (void)(th_fill(any(), 0.5) || th_copy_into(any(), any()));
    th_empty_gradient(any());
    keep(th_set_requires_gradient(any(), below(2)));
}
static void back(void)
{
    th_tensor *t = any_leaf();
    RUN(th_backward(below(4) ? th_sum(t, TH_ALL_AXES, NULL) : t, NULL));
    keep(th_gradient(any_leaf()));
    keep(th_keep_gradient(any_leaf()));
}
static void back_to_chosen(void)
{
    th_tensor *wrt[] = {any_leaf(), any_leaf()}, *gradient[2] = {NULL};
    RUN(th_backward(
        any_leaf(),
        &(th_backward_options){
            .cotangent = any(), .keep_tape = below(2), .wrt = wrt, .n_wrt = below(3), .gradients = gradient}));
    keep(gradient[0]);
    keep(gradient[1]);
}
static void free_tensor(void)
{
    th_tensor_free(any());
}
static void begin_scope(void)
{
    if (below(2))
        th_scope_begin(ctx, below(2) ? "scope" : NULL);
    else
        (void)!th_module_begin(any_module());
    if (below(20) == 0)
        th_no_grad_begin(ctx);
}
static void end_scope(void)
{
    keep(below(2) ? th_scope_end(ctx, any()) : th_module_end(any_module(), any()));
    if (below(4) == 0)
        th_no_grad_end(ctx);
}
static void clear(void)
{
    if (below(8) == 0)
        th_tape_clear(ctx);
    th_error_clear(ctx);
}
static void call_anything(void);
static th_tensor *any_forward(th_module *m, th_tensor *x)
{
    (void)m;
    if (depth++ < 5)
        for (int i = below(6); i > 0; i--)
            call_anything();
    depth--;
    return below(3) ? th_scale(x, 2) : any();
}
static void make_module(void)
{
    th_module **slot = &module[below(MODULES)];
    if (*slot && !(*slot)->state->freed)
        return;
    const int type = below(3);
    *slot = type == 0   ? th_dense_new(ctx, 4, 4, NULL)
            : type == 1 ? th_module_new(ctx, sizeof(th_module), "any", any_forward)
                        : th_transformer_block_new(ctx, 4, 2, &(th_transformer_block_options){.dropout = 0.1});
}
static void use_module(void)
{
    th_module *m = any_module();
    keep(below(4) ? th_module_forward(m, any()) : th_module_evaluate(m, any()));
    th_parameter_iterator p = th_module_parameters(m);
    if (th_parameter_next(&p))
        keep(p.tensor);
}
static void change_module(void)
{
    char name[8];
    snprintf(name, sizeof name, "m%d", below(100));
    th_module_add(any_module(), name, any_module());
    th_module_pin_evaluation(any_module(), below(2));
    (void)(th_module_cast(any_module(), below(2) ? TH_FLOAT32 : TH_FLOAT64) ||
           th_module_freeze(any_module(), below(2)));
}
static void free_module(void)
{
    if (below(2))
        th_module_free(any_module());
}
static void optimize(void)
{
    th_optimizer **slot = &optimizer[below(OPTIMIZERS)];
    const int what = below(8);
    if (what == 0)
        th_optimizer_free(*slot);
    else if (what < 3)
        *slot = th_adam_new(any_module(), &(th_adam_options){.learning_rate = 0.01});
    else
        RUN(th_optimizer_step(*slot));
}
static void change_mode(void)
{
    th_set_training(ctx, below(2));
    th_set_fusion(ctx, below(2));
    th_keep_values(ctx, below(4) == 0);
    RUN(th_tape_print(ctx, nowhere, &(th_tape_print_options){.values = below(2)}));
}

/* Makes the same calls in every run. */
static th_tensor *any_function(void *user, th_tensor *const *inputs)
{
    const uint64_t outside = state;
    state = *(const uint64_t *)user;
    if (depth++ < 2)
        for (int i = below(4); i > 0; i--)
            call_anything();
    depth--;
    th_tensor *x = below(8) ? inputs[0] : any();
    th_tensor *y = below(8) ? th_mul(x, below(2) ? inputs[1] : any()) : x;
    state = outside;
    return y;
}
static void check(void)
{
    if (below(8))
        return;
    uint64_t calls = state;
    th_tensor *inputs[] = {any(), any()};
    th_gradient_report report;
    RUN(th_check_gradient(ctx, any_function, &calls, 2, inputs,
                          &(th_gradient_options){.mode = TH_GRADIENT_FAST, .directions = 1, .samples = 2}, &report));
    ck_assert(report.ok == (report.verdict == TH_GRADIENT_RIGHT));
}

static void call_anything(void)
{
    static void (*const function[])(void) = {
        make,       use_one,       use_one,        use_one,     use_two,  use_two,     look,
        change,     back,          back_to_chosen, free_tensor, clear,    end_scope,   begin_scope,
        use_module, change_module, make_module,    free_module, optimize, change_mode, check,
    };
    function[below(sizeof function / sizeof function[0])]();
    if (below(8))
        th_error_clear(ctx);
}

/* Computes a step that does not depend on earlier calls. */
static double simple_step(th_context *c)
{
    th_tensor *x = th_set_requires_gradient(th_full(c, TH_FLOAT32, TH_SHAPE(3), 1.5), true);
    th_tensor *loss = th_sum(th_mul(th_mul(x, x), x), TH_ALL_AXES, NULL);
    const double value = th_backward(loss, NULL) == TH_OK ? th_item(loss) + th_get(th_gradient(x), TH_INDEX(1)) : -1;
    th_tape_clear(c);
    th_tensor_free(x);
    return value;
}

START_TEST(nothing_crashes)
{
    state = 0x9E3779B97F4A7C15u * (uint64_t)(_i + 1);
    memset(tensor, 0, sizeof tensor);
    memset(module, 0, sizeof module);
    memset(optimizer, 0, sizeof optimizer);
    depth = 0;
    nowhere = fopen("/dev/null", "w");
    ck_assert_ptr_nonnull(nowhere);
    const bool shapes_only = _i % 5 == 3, limited = _i % 3 == 1;
    ctx = th_context_new(&(th_context_options){.seed = 1,
                                               .threads = 1,
                                               .shapes_only = shapes_only,
                                               .memory_limit = limited ? (size_t)(900000 + below(1000000)) : 0});
    for (int i = 0; i < CALLS; i++)
        call_anything();
    th_tape_clear(ctx);
    th_error_clear(ctx);
    while (!th_is_recording(ctx)) /* a step that did not fail had stopped recording */
        th_no_grad_end(ctx);
    if (!shapes_only && !limited)
        ck_assert_double_eq(simple_step(ctx), 3 * 1.5 * 1.5 * 1.5 + 3 * 1.5 * 1.5);
    ck_assert(limited || th_error_code(ctx) == TH_OK);
    th_context_free(ctx);
    fclose(nowhere);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("any_order", NULL, NULL);
    tcase_add_loop_test(tcase, nothing_crashes, 0, RUNS);
    return run_suites();
}

// A C++17 program with the same headers: a dense layer and a user's operation learn y = (3 x + 1)^2. The program checks the
// gradients of both.
#include <cmath>
#include <cstdio>
#include <memory>
#include <tapehead/tapehead.h>

namespace
{

// -- a user's operation: y = x^2, in float32 and float64 --

template <class Function> void for_each_type(th_dtype dtype, Function function)
{
    if (dtype == TH_FLOAT64)
        function(double());
    else
        function(float());
}

th_status square_shape(th_call *c)
{
    const th_array &x = c->input[0];
    if (th_call_floating(c, 0) != TH_OK)
        return TH_ERROR_TYPE;
    th_call_output(c, 0, x.dtype, x.ndim, x.size, x.axes);
    return TH_OK;
}

void square_forward(const th_call *c)
{
    for_each_type(c->input[0].dtype, [c](auto zero) {
        using real = decltype(zero);
        const auto *x = static_cast<const real *>(c->input[0].data);
        auto *y = static_cast<real *>(c->output[0].data);
        for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
            y[i] = x[i] * x[i];
    });
}

// dx = 2 x dy
void square_backward(const th_call *c)
{
    for_each_type(c->input[0].dtype, [c](auto zero) {
        using real = decltype(zero);
        const auto *x = static_cast<const real *>(c->input[0].data);
        const auto *dy = static_cast<const real *>(c->output_gradient[0].data);
        auto *dx = static_cast<real *>(c->input_gradient[0].data);
        for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
            dx[i] = 2 * x[i] * dy[i];
    });
}

const th_op &square()
{
    static th_sample samples[2] = {};
    static th_op op = {};
    if (!op.name) {
        samples[0].name = "matrix";
        samples[0].n_inputs = 1;
        samples[0].input[0].shape = TH_SHAPE(3, 4);
        op.name = "square";
        op.value = "y = x^2";
        op.gradient = "dx = 2 x dy";
        op.n_inputs = 1;
        op.flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD;
        op.saves = TH_INPUT(0);
        op.shape = square_shape;
        op.forward = square_forward;
        op.backward = square_backward;
        op.samples = samples;
    }
    return op;
}

th_tensor *squared_layer(void *layer, th_tensor *x) // (N, 1) -> (N, 1)
{
    return th_apply(&square(), nullptr, th_module_forward(static_cast<th_module *>(layer), x));
}

struct free_context {
    void operator()(th_context *ctx) const
    {
        th_context_free(ctx);
    }
};

} // namespace

int main()
{
    th_context_options options = {};
    options.seed = 5;
    const std::unique_ptr<th_context, free_context> owner(th_context_new(&options));
    th_context *ctx = owner.get();

    th_module *layer = th_dense_new(ctx, 1, 1, nullptr);
    th_adam_options adam_options = {};
    adam_options.learning_rate = 0.05;
    th_optimizer *adam = th_adam_new(layer, &adam_options);
    th_tensor *x = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(64, 1), 0, 1);
    th_tensor *y = th_keep(th_apply(&square(), nullptr, th_add_scalar(th_scale(x, 3), 1)));
    double loss = NAN;
    for (int step = 0; step < 1500; step++) {
        th_tensor *mse = th_mse(squared_layer(layer, x), y);
        if (th_backward(mse, NULL) || th_optimizer_step(adam)) {
            std::fprintf(stderr, "%s\n", th_error_message(ctx));
            return 1;
        }
        loss = th_item(mse);
        th_tape_clear(ctx);
    }
    std::printf("%s: loss %g\n", th_build_info(ctx), loss);
    if (!(loss < 1e-3))
        return 1;

    th_gradient_report report = {};
    if (th_check_op(ctx, &square(), nullptr, &report) ||
        th_check_gradient_of(squared_layer, layer, x, nullptr, &report)) {
        std::fprintf(stderr, "%s%s\n", report.text, th_error_message(ctx));
        return 1;
    }
    return 0;
}

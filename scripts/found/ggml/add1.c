/* ggml: the gradient of y = x + b with respect to the scalar b, for the loss sum(y). The right one is 5, the number of elements. */
#include <stdio.h>

#include "ggml-cpu.h"
#include "ggml.h"

int main(void)
{
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){16 << 20, NULL, false});
    struct ggml_tensor *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 5), *b = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 1);
    ggml_set_param(ggml_set_f32(b, 0.5f));
    struct ggml_tensor *loss = ggml_sum(ctx, ggml_add1(ctx, ggml_set_f32(x, 1), b));
    struct ggml_cgraph *graph = ggml_new_graph_custom(ctx, 64, true);
    ggml_set_loss(loss);
    ggml_build_forward_expand(graph, loss);
    ggml_build_backward_expand(ctx, graph, NULL);
    ggml_set_f32(ggml_graph_get_grad(graph, loss), 1);
    ggml_graph_compute_with_ctx(ctx, graph, 1);
    printf("gradient %g, right is 5\n", (double)ggml_get_f32_1d(ggml_graph_get_grad(graph, b), 0));
}

/* Checks one node of ggml and a graph of three nodes. cc example.c tapehead_check.c with ggml's headers and libraries. */
#include <stdio.h>

#include "ggml-cpu.h"
#include "ggml.h"
#include "tapehead_check.h"

#include "check_ggml.h"

int main(void)
{
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){1 << 20, NULL, false});
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 6, 4),
                       *w = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 6, 3);
    for (int i = 0; i < 24; i++)
        ggml_get_data_f32(x)[i] = (float)(i % 7) / 3 - 1;
    for (int i = 0; i < 18; i++)
        ggml_get_data_f32(w)[i] = (float)(i % 5) / 2 - 1;

    th_function_report report;
    struct ggml_tensor *inputs[] = {x, w};
    th_status node = check_ggml("silu", inputs, 1, ggml_silu(ctx, x), NULL, &report);
    printf("silu: %s%s\n", node ? "" : "right", report.text);
    th_status graph = check_ggml("layer", inputs, 2, ggml_silu(ctx, ggml_mul_mat(ctx, w, ggml_rms_norm(ctx, x, 1e-5f))),
                                 NULL, &report);
    printf("layer: %s%s\n", graph ? "" : "right", report.text);
    ggml_free(ctx);
    return node || graph;
}

/* A user's program: runs forward and backward of one attention layer and prints the tape. */
#include <stdio.h>
#include <tapehead/tapehead.h>

int main(void)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 7});
    th_module *attention = th_multi_head_attention_new(ctx, 8, 2, NULL);
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 5, 8)); /* (B, T, E) */
    th_tensor *y =
        th_attend(attention, x, x, x, &(th_attend_options){.mask = &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}});
    th_tensor *loss = th_mean(th_mul(y, y), TH_ALL_AXES, NULL);
    const bool failed = th_backward(loss, NULL) || th_tape_print(ctx, stdout, NULL);
    printf("tapehead %s, loss %g %s\n", th_version(), th_item(loss), th_error_message(ctx));
    th_context_free(ctx);
    return failed;
}

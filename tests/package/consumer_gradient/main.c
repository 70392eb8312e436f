/* A program that uses the core library alone: checks the gradient of an attention layer. */
#include <stdio.h>
#include <tapehead/core.h>

static th_tensor *attend(void *layer, th_tensor *x)
{
    return th_attend(layer, x, x, x, &(th_attend_options){.mask = &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}});
}

int main(void)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 7});
    th_module *layer = th_multi_head_attention_new(ctx, 8, 2, NULL);
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 5, 8)); /* (B, T, E) */
    th_gradient_report report = {0};
    const bool failed = th_check_gradient_of(attend, layer, x, NULL, &report) != TH_OK || !report.ok;
    printf("%s %s\n", report.text, th_error_message(ctx));
    th_context_free(ctx);
    return failed;
}

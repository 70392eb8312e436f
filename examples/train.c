/* A training loop, complete: a small language model learns one sentence by heart, letter by letter. */
#include <stdio.h>
#include <tapehead/tapehead.h>

int main(void)
{
    static const char text[] = "a tensor remembers its past.";
    enum { LENGTH = sizeof text - 1, STEPS = 100 };
    int32_t letters[LENGTH + 1];
    for (int i = 0; i <= LENGTH; i++)
        letters[i] = text[i];

    th_context *ctx = th_context_new(&(th_context_options){.seed = 1});
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = 128, .length = LENGTH, .width = 32, .heads = 2, .layers = 1});
    th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = 1e-2});
    th_tensor *tokens = th_from_data(ctx, TH_INT32, TH_SHAPE(1, LENGTH), letters);
    th_tensor *targets = th_from_data(ctx, TH_INT32, TH_SHAPE(1, LENGTH), letters + 1); /* the next letters */

    for (int step = 1; step <= STEPS; step++) {
        th_tensor *loss = th_language_model_loss(model, tokens, targets, NULL);
        if (th_backward(loss, NULL) || th_optimizer_step(adam)) { /* the only error check of the step */
            fprintf(stderr, "%s\n", th_error_message(ctx));       /* the library itself never prints */
            return 1;
        }
        if (step % 20 == 0)
            printf("step %d: loss %.3f\n", step, th_item(loss));
        th_tape_clear(ctx);
    }
    th_context_free(ctx);
}

/* A program with Tapehead's two files: a small language model learns a sentence by heart and writes it. The Makefile beside it has the
 * command. */
#include "tapehead.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 100 };
static const char text[] = "a tensor remembers its past.";
enum { LENGTH = sizeof text - 1 };

/* Trains for a number of steps. Returns the last loss. */
static double train(th_context *ctx, th_module *model, int steps)
{
    int32_t letters[LENGTH + 1];
    for (int i = 0; i <= LENGTH; i++)
        letters[i] = text[i];
    th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = 1e-2});
    th_tensor *tokens = th_from_data(ctx, TH_INT32, TH_SHAPE(1, LENGTH), letters);
    th_tensor *targets = th_from_data(ctx, TH_INT32, TH_SHAPE(1, LENGTH), letters + 1); /* the next letters */
    double last = 0;
    for (int step = 1; step <= steps; step++) {
        th_tensor *loss = th_language_model_loss(model, tokens, targets, NULL);
        if (th_backward(loss, NULL) || th_optimizer_step(adam))
            break;
        last = th_item(loss);
        if (step % 20 == 0)
            printf("step %d: loss %.3f\n", step, last);
        th_tape_clear(ctx);
    }
    return last;
}

/* Writes the letter that the model considers most probable after each letter of the text. */
static void write_letters(th_context *ctx, th_module *model)
{
    int32_t letters[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        letters[i] = text[i];
    th_step_begin(ctx);
    th_tensor *tokens = th_from_data(ctx, TH_INT32, TH_SHAPE(1, LENGTH), letters);
    th_tensor *next = th_argmax(th_module_evaluate(model, tokens), -1); /* (1, LENGTH) */
    for (int i = 0; i < LENGTH - 1 && !th_error_code(ctx); i++)
        putchar((int)th_get(next, TH_INDEX(0, i)));
    putchar('\n');
    th_tape_clear(ctx);
}

int main(int argc, char **argv)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1});
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = 128, .length = LENGTH, .width = 32, .heads = 2, .layers = 1});
    const double loss = train(ctx, model, argc > 1 ? atoi(argv[1]) : STEPS);
    write_letters(ctx, model);
    printf("loss=%.6f parameters_crc32c=%08x\n", loss, (unsigned)th_module_crc32c(model));
    const bool failed = th_error_code(ctx) != TH_OK;
    if (failed)
        fprintf(stderr, "%s\n", th_error_message(ctx));
    th_context_free(ctx);
    return failed;
}

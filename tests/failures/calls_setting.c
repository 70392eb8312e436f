/* The model that the operations work with: see calls_operations.h. */
#include <stdio.h>
#include <stdlib.h>

#include "calls_operations.h"

enum { VOCABULARY = 11, LENGTH = 6 };

void calls_expect(const calls_setting *s, bool done)
{
    if (done && th_error_code(s->ctx) == TH_OK)
        return;
    printf("preparation failed: %s\n", th_error_message(s->ctx));
    exit(2);
}

void calls_train(calls_setting *s, int steps)
{
    for (int i = 0; i < steps; i++) {
        th_tensor *text = th_random_integers(s->ctx, TH_INT32, TH_SHAPE(2, LENGTH + 1), 0, VOCABULARY);
        th_tensor *loss = th_language_model_loss(s->model, th_slice(text, 1, 0, LENGTH, 1),
                                                 th_slice(text, 1, 1, LENGTH + 1, 1), NULL);
        calls_expect(s, th_backward(loss, NULL) == TH_OK && th_optimizer_step(s->optimizer) == TH_OK);
        th_tensor_free(text);
        th_tape_clear(s->ctx);
    }
}

void calls_setting_make(calls_setting *s, const char *folder, int steps)
{
    *s = (calls_setting){.ctx = th_context_new(&(th_context_options){.seed = 7, .threads = 1}), .folder = folder};
    s->model = th_language_model_new(s->ctx, &(th_language_model_options){.vocabulary = VOCABULARY,
                                                                          .length = LENGTH,
                                                                          .width = 8,
                                                                          .heads = 2,
                                                                          .layers = 1,
                                                                          .positions = TH_POSITIONS_LEARNED});
    s->optimizer = th_adam_w_new(s->model, &(th_adam_options){.learning_rate = 0.01});
    calls_train(s, steps);
}

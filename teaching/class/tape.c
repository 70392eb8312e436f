/* The tape of one sequence as JSON, for the viewer of pages (class_tape in engine.h). */
#include <stdio.h>
#include <stdlib.h>

#include "call.h"
#include "export/tape_json.h"
#include "model.h"
#include "sequence.h"

/* Runs forward and backward on x (1, n) and `read` (1, 2n), and writes the tape to a file. */
static bool write_tape(class_engine *e, th_tensor *x, th_tensor *read, FILE *file)
{
    const int64_t n = e->model->settings.length;
    char reads[2 * COPY_MAX_LENGTH + 1], letters[2 * COPY_MAX_LENGTH][2] = {{0}};
    const char *tokens[2 * COPY_MAX_LENGTH];
    if (!spell(read, e->model->settings.vocab, reads)[0])
        return false;
    for (int64_t t = 0; t < 2 * n; t++) {
        letters[t][0] = reads[t];
        tokens[t] = letters[t];
    }
    th_tensor *logits = th_slice(th_module_forward(&e->model->base, th_set_name(read, "tokens")), 1, n, 2 * n, 1);
    th_tensor *loss = th_set_name(th_cross_entropy(logits, th_set_name(x, "targets"), NULL), "loss");
    const th_html_options options = {
        .title = "The tape of this sequence", .tokens = tokens, .n_tokens = (int)(2 * n), .max_differences = -1};
    return th_backward(loss, NULL) == TH_OK && th_tape_write_json(e->ctx, file, &options) == TH_OK;
}

/* Leaves the context as the next step expects it: training, without gradients and without a tape. */
static void restore(class_engine *e)
{
    for (th_parameter_iterator p = th_module_parameters(&e->model->base); th_parameter_next(&p);)
        th_empty_gradient(p.tensor);
    th_tape_clear(e->ctx);
    th_keep_values(e->ctx, false);
    th_set_training(e->ctx, true);
}

EMSCRIPTEN_KEEPALIVE const char *class_tape(class_engine *e, const char *sequence)
{
    th_tensor *x = begin_call(e) ? typed_sequence(e, sequence) : NULL;
    if (x == NULL)
        return NULL;
    free(e->tape);
    e->tape = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&e->tape, &size);
    if (file == NULL) {
        (void)refuse_call(e, "the memory does not suffice for the tape");
        th_tensor_free(x);
        return NULL;
    }
    th_set_training(e->ctx, false);
    th_keep_values(e->ctx, true);
    bool done = write_tape(e, x, join_tokens(x, e->separator, x, e->model->settings.length - 1), file);
    restore(e);
    th_tensor_free(x);
    done = fclose(file) == 0 && done;
    if (!done && th_error_code(e->ctx) == TH_OK)
        (void)refuse_call(e, "the memory does not suffice for the tape");
    return done ? e->tape : NULL;
}

/* The state of an engine (engine.h), and the model's attention with the page's choices: mask, dropout, wrong rules. */
#ifndef CLASS_MODEL_H
#define CLASS_MODEL_H

#include "../../examples/copy_task/model.h"
#include "engine.h"
#include "text.h"

struct class_engine {
    th_context *ctx;
    copy_model *model;
    th_optimizer *adam;
    th_tensor *separator;
    int64_t batch, steps;
    double rate, dropout;
    int mask, rule;
    th_forward_function *forward;          /* the model's own, for the copy task's choices */
    int64_t count;                         /* elements of all parameters */
    float *before, *gradients, *numbers;   /* [count] each; numbers: what class_values returns */
    float *weights;                        /* (H, T, T) */
    class_text parameters, path, report;   /* what the functions returned last */
    char written[2 * COPY_MAX_LENGTH + 1]; /* what class_write returned last */
    char *tape;                            /* what class_tape returned last */
    char problem[512];                     /* the last wrong argument */
};

/* The operands of attention, (B, H, T, D), and its scores and weights, (B, H, T, T). */
typedef struct class_heads {
    th_tensor *q, *k, *v, *weights, *o, *merged; /* merged: o as (B, T, E) */
} class_heads;

/* Computes the projections q, k and v of h (B, t, E). */
class_heads class_project(class_engine *e, th_tensor *h);

/* Computes the weights and o with the library's operations. */
void class_mix_heads(class_engine *e, class_heads *a);

/* Replaces the forward of the engine's model by one with the engine's choices. */
void class_replace_forward(class_engine *e);

#endif

/* The marker: loads a student's operation, runs it on known inputs, and explains what is wrong.
 *
 * The right results come from the library's own operations and the tape. The wrong results of typical mistakes are close to
 * solutions, so students should not read this folder before they have finished. */
#ifndef TAPEHEAD_MARKER_H
#define TAPEHEAD_MARKER_H

#include "../exercise.h"

enum { INPUTS = 4, OUTPUTS = 2, SENTENCE = 6000, CAUSE = 600, CHECKS = 16 };

/* -- an exercise: N_NAME.c in this folder -- */

/* The inputs of a check and the right results, as contiguous tensors. */
typedef struct scene {
    th_context *ctx;
    th_tensor *input[INPUTS];
    th_tensor *output[OUTPUTS];
    th_tensor *dy;               /* the gradient of output 0 */
    th_tensor *gradient[INPUTS]; /* NULL: not requested */
} scene;

/* A typical mistake: its sentence, and the gradient that it gives instead of the right one. */
typedef struct mark_mistake {
    int operand; /* an input: its gradient; OUTPUT(i): output i */
    const char *sentence;
    th_tensor *(*result)(const scene *s); /* NULL: only the sentence of an element that is not finite */
} mark_mistake;
#define OUTPUT(i) (INPUTS + (i))

typedef struct mark_check {
    const char *name;
    const char *aim; /* a likely cause, if the check fails and no mistake fits; may be NULL */
    th_sample_input input[INPUTS];
    const double *values[INPUTS]; /* NULL: random */
    bool strided;                 /* inputs and gradients have different strides */
    bool add;                     /* the gradients already contain numbers */
    uint32_t requested;           /* bits of inputs whose gradient is requested; 0: all */
    bool ones;                    /* the gradient of output 0 is 1; otherwise random */
} mark_check;

/* Every exercise has a large check with random numbers. It finds a loop that a constant limits, and an array of the student
 * that is too short. Every axis is longer than the limits that a student would choose. */
enum { LONG = 37 };
#define LARGE "many random numbers"

typedef struct mark_subject {
    const char *name;  /* of the operation */
    const char *title; /* "backward of softmax" */
    int n_inputs, n_outputs;
    const char *input_name[INPUTS], *output_name[OUTPUTS];
    void (*compute)(scene *s);    /* computes the outputs by the library's operations */
    const mark_check *checks;     /* the last one has no name */
    const mark_mistake *mistakes; /* the last one has no sentence */
} mark_subject;

enum { SUBJECTS = 10 };
extern const mark_subject multiply_subject, dense_subject, broadcast_subject, softmax_subject, cross_entropy_subject,
    layer_norm_subject, embedding_subject, rotary_subject, attention_subject, running_subject;

/* -- results -- */

typedef enum mark_state { NOT_RUN, RIGHT, WRONG, BLANK, STOPPED, ENDLESS } mark_state;

typedef struct mark_result {
    mark_state state;
    char sentence[SENTENCE]; /* the expected and the computed numbers; '\n' between lines */
    char cause[CAUSE];       /* a likely cause, or "" */
} mark_result;

/* Stores a printf-like text. */
void write_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
void append_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* -- running -- */

/* Runs work(user, result) in a child process and returns its result. A crash or an endless loop of the student's code
 * becomes a result too. */
void run_guarded(void (*work)(const void *user, mark_result *r), const void *user, int seconds, mark_result *r);

/* In the child process: stores a result and ends the process. */
_Noreturn void end_guarded(mark_state s, const char *cause, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Runs the gradient checker on the operation. */
void run_gradient_checker(const th_op *op, mark_result *r);

/* Runs a check. */
void run_check(const mark_subject *subject, const mark_check *check, const th_op *op, mark_result *r);

/* -- a scene, and the student's results on it -- */

/* Makes the inputs and the right results. Ends the process with a message if the library reports an error. */
void scene_make(scene *s, const mark_subject *subject, const mark_check *check);
void scene_free(scene *s);

/* The student's results: contiguous numbers, NULL if not requested. */
typedef struct student {
    double *output[OUTPUTS];
    double *gradient[INPUTS];
    double *before[INPUTS]; /* what the gradients contained before */
    bool wrote_outside[INPUTS];
} student;

/* Runs the student's forward and backward on the inputs of the scene. */
void student_run(student *st, const scene *s, const mark_subject *subject, const mark_check *check, const th_op *op);
void student_free(student *st);

/* Compares the student's results with the right ones and explains the first difference. */
void explain(const scene *s, const student *st, const mark_subject *subject, const mark_check *check, mark_result *r);

/* Returns whether all results are right. */
bool all_right(const scene *s, const student *st, const mark_subject *subject, const mark_check *check);

/* -- reports -- */

typedef enum mark_style { TEXT, JSON, ROW } mark_style;

typedef struct mark_report {
    int number;
    const mark_subject *subject;
    const char *file;
    int count; /* checks, the gradient checker first */
    const char *name[CHECKS];
    int marks[CHECKS]; /* for each check, if it is right */
    mark_result result[CHECKS];
    char warning[CAUSE]; /* the compiler's first warning, or "" */
    char refusal[CAUSE]; /* nothing was run: the reason */
} mark_report;

/* Prints the report. Returns whether the exercise has full marks. */
bool print_report(const mark_report *r, mark_style style);

#endif

/* The marker: runs a student's operation on known inputs, and explains what is wrong. The marker never loads the
 * student's code: exercise_runner does, and sends the numbers (message.h).
 *
 * The right results come from the library's own operations and the tape. The wrong results of typical mistakes are
 * close to solutions, so students should not read this folder before they have finished. */
#ifndef TAPEHEAD_MARKER_H
#define TAPEHEAD_MARKER_H

#include "../exercise.h"

enum { INPUTS = 4, OUTPUTS = 2, OPERANDS = INPUTS + OUTPUTS, STEPS = 4, SENTENCE = 6000, CAUSE = 600, CHECKS = 16 };

/* -- an exercise: N_NAME.c in this folder -- */

/* The inputs of a check and the right results, as contiguous tensors. */
typedef struct scene {
    th_context *ctx;
    th_tensor *input[INPUTS];
    th_tensor *output[OUTPUTS];
    th_tensor *dy;               /* the gradient of output 0 */
    th_tensor *gradient[INPUTS]; /* NULL: not requested */
    bool add;                    /* the gradients already contain numbers */
} scene;

/* A typical mistake: its sentence, and the gradient that it gives instead of the right one. */
typedef struct mark_mistake {
    int operand; /* an input: its gradient; OUTPUT(i): output i */
    const char *sentence;
    th_tensor *(*result)(const scene *s); /* NULL: only the sentence of an element that is not finite */
} mark_mistake;
#define OUTPUT(i) (INPUTS + (i))
#define UNWRITTEN 1e300 /* in a result: this element is not written */

/* A number between the inputs and the gradients, which the marker shows beside them. */
typedef struct mark_step {
    const char *name;
    th_tensor *(*value)(const scene *s);
} mark_step;

typedef struct mark_check {
    const char *name;
    th_sample_input input[INPUTS];
    const double *values[INPUTS]; /* NULL: random */
    bool strided;                 /* inputs and gradients have different strides */
    bool add;                     /* the gradients already contain numbers */
    uint32_t requested;           /* bits of inputs whose gradient is requested; 0: all */
    bool ones;                    /* the gradient of output 0 is 1; otherwise random */
} mark_check;

/* Every exercise has a large check with random numbers. It finds a loop that a constant limits, and an array of the
 * student that is too short. Every axis is longer than the limits that a student would choose. */
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
    mark_step step[STEPS];        /* the last one may have no name */
} mark_subject;

enum { SUBJECTS = 10 };
extern const th_op exercise_1, exercise_2, exercise_3, exercise_4, exercise_5, exercise_6, exercise_7, exercise_8,
    exercise_9, exercise_10; /* the descriptors of the files as they are given, without a solution */
extern const mark_subject multiply_subject, dense_subject, broadcast_subject, softmax_subject, cross_entropy_subject,
    layer_norm_subject, embedding_subject, rotary_subject, attention_subject, running_subject;

/* -- results -- */

typedef enum mark_state { NOT_RUN, RIGHT, WRONG, BLANK, STOPPED, ENDLESS } mark_state;

/* What the numbers of one array say about its possible causes (cause.c), as bits. */
typedef struct mark_evidence {
    bool compared, wrong;
    uint64_t fits;     /* the cause explains all numbers */
    uint64_t excluded; /* the cause would give other numbers */
    double factor;     /* of all elements, if they are multiples of the right ones */
} mark_evidence;

typedef struct mark_result {
    mark_state state;
    char sentence[SENTENCE]; /* the expected and the computed numbers; '\n' between lines */
    char cause[CAUSE];       /* a likely cause, or "" */
    mark_evidence evidence[OPERANDS];
} mark_result;

/* Stores a printf-like text. */
void write_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
void append_text(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* -- running -- */

typedef struct mark_report mark_report;

/* Runs work(user, result) in a child process and returns its result. The child holds none of the student's code. It
 * ends early with end_guarded. */
void run_guarded(void (*work)(const void *user, mark_result *r), const void *user, mark_result *r);

/* In the child process: stores a result and ends the process. */
_Noreturn void end_guarded(mark_state s, const char *cause, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* In the child process: ends with a sentence about the status with which the student's code ended. */
_Noreturn void end_by_status(int status, int seconds);

/* Where the student's code runs: a separate program (runner/), in a sandbox. */
typedef struct mark_runner {
    const char *program, *library;
    int seconds; /* of processor time for each check */
} mark_runner;

/* In the child process: starts the runner and stores a sentence in r->sentence if it cannot run this exercise. */
void runner_start(const mark_runner *runner, const mark_report *report, mark_result *r);

/* Returns the exercise's operation. Its forward and backward run in the runner that was started. */
th_op remote_op(const th_op *original);

/* Which memory the last calls wrote that is not theirs. BYTES: the offsets were in bytes, not in elements. */
typedef enum mark_outside { NOTHING_OUTSIDE, SOMETHING_OUTSIDE, BYTES_OUTSIDE } mark_outside;
mark_outside remote_outside(int input); /* the gradient of this input, in the last call */
bool remote_any_outside(void);          /* any array, in any call */

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
    mark_outside outside[INPUTS];
} student;

/* Runs the student's forward and backward on the inputs of the scene. */
void student_run(student *st, const scene *s, const mark_subject *subject, const mark_check *check, const th_op *op);
void student_free(student *st);

/* Compares the student's results with the right ones and explains the first difference. */
void explain(const scene *s, const student *st, const mark_subject *subject, const mark_check *check, mark_result *r);

/* Returns whether all results are right. */
bool all_right(const scene *s, const student *st, const mark_subject *subject, const mark_check *check);

/* Stores the causes that agree with all checks, in each check and in r->causes. */
void agree_on_causes(mark_report *r);

/* -- reports -- */

typedef enum mark_style { TEXT, JSON, ROW } mark_style;

struct mark_report {
    int number;
    const mark_subject *subject;
    const char *file;
    int count; /* checks, the gradient checker first */
    const char *name[CHECKS];
    int marks[CHECKS]; /* for each check, if it is right */
    mark_result result[CHECKS];
    char causes[OPERANDS][CAUSE]; /* the likely causes, the most important one first; "" after the last one */
    char warning[CAUSE];          /* the compiler's first warning, or "" */
    char refusal[CAUSE];          /* nothing was run: the reason */
};

/* Prints the report. Returns whether the exercise has full marks. */
bool print_report(const mark_report *r, mark_style style);

#endif

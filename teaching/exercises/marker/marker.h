/* The marker: runs a student's operation on known inputs, and explains what is wrong. The marker never loads the
 * student's code: exercise_runner does, and sends the numbers (message.h).
 *
 * The right results come from the library's own operations and the tape. The wrong results of typical mistakes are
 * close to solutions, so students should not read this folder before they have finished. */
#ifndef TAPEHEAD_MARKER_H
#define TAPEHEAD_MARKER_H

#include <stdio.h>

#include "../exercise.h"

enum {
    INPUTS = 4,
    OUTPUTS = 2,
    OPERANDS = INPUTS + OUTPUTS,
    STEPS = 4,
    SENTENCE = 6000,
    CAUSE = 600,
    PRINT = 2000,
    CHECKS = 16
};

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

enum { SUBJECTS = 11 }; /* exercises 0 to 10 */
extern const th_op exercise_0, exercise_1, exercise_2, exercise_3, exercise_4, exercise_5, exercise_6, exercise_7,
    exercise_8, exercise_9, exercise_10; /* the descriptors of the files as they are given, without a solution */
extern const mark_subject tape_subject, multiply_subject, dense_subject, broadcast_subject, softmax_subject,
    cross_entropy_subject, layer_norm_subject, embedding_subject, rotary_subject, attention_subject, running_subject;

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
    char note[CAUSE];    /* interpreted code: the first use of memory outside an array, or "" */
    char printed[PRINT]; /* interpreted code: what printf wrote */
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

/* Causes with which code ends, compiled or interpreted. */
#define CAUSE_ENDLESS "a loop never ends: check that its counter changes and that its condition becomes false"
#define CAUSE_NO_ARRAY                                                                                                 \
    "it used memory that belongs to no array: at() would name the index, a pointer of your own does not"
#define CAUSE_LOCAL_INDEX                                                                                              \
    "an index of an array that you declared is outside it: the array is too short, or a loop too long"
#define CAUSE_DIVISION "it divided an integer by 0: convert to double before the division"
#define CAUSE_OUTSIDE "an index is too large, or a stride is missing or belongs to another array or axis"
#define CAUSE_NO_VALUE "a variable or an array that you declare has no value until you assign one: begin a sum with = 0"

/* How a student's code runs. */
typedef struct mark_code {
    const void *user;
    /* In the child process: makes the code ready for a check. Ends the check if it is not this exercise's. */
    void (*start)(const void *user, const mark_report *report, mark_result *r);
    th_op (*op)(const void *user, const th_op *original); /* the exercise's operation */
    void (*finish)(const void *user, mark_result *r);     /* after a check, or NULL */
} mark_code;

/* Compiled code runs in a separate program (runner/), in a sandbox. */
typedef struct mark_runner {
    const char *program, *library;
    int seconds; /* of processor time for each check */
} mark_runner;
mark_code runner_code(const mark_runner *runner);

/* Which memory the last calls wrote that is not theirs. BYTES: the offsets were in bytes, not in elements. */
typedef enum mark_outside { NOTHING_OUTSIDE, SOMETHING_OUTSIDE, BYTES_OUTSIDE } mark_outside;
mark_outside gradient_outside(int input); /* the gradient of this input, in the last call */
bool any_outside(void);                   /* any array, in any call of this check */
void forget_outside(void);                /* before a check */

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
    const char *file, *source; /* its name and its text */
    int count;                 /* checks, the gradient checker first */
    const char *name[CHECKS];
    int marks[CHECKS]; /* for each check, if it is right */
    mark_result result[CHECKS];
    char causes[OPERANDS][CAUSE]; /* the likely causes, the most important one first; "" after the last one */
    char warning[CAUSE];          /* the compiler's first warning, or the interpreter's first note, or "" */
    char refusal[CAUSE];          /* nothing was run: the reason */
};

/* Begins a report: the exercise with this number, and its checks. */
void report_begin(mark_report *r, int number, const char *file, const char *source);

/* Runs all checks. */
void mark_all(mark_report *r, const mark_code *code);

/* Runs all checks; the interpreter runs the source (interpreter/), in the marker's process. */
void mark_interpreted(mark_report *r);

/* In the child process: ends the check if the file's operation is another one. */
void require_operation(const mark_report *report, const char *name);

/* Stores that the file does not compile. */
void refuse_source(mark_report *r, const char *error);

/* Prints the report. Returns whether the exercise has full marks. */
bool print_report(FILE *file, const mark_report *r, mark_style style);

#endif

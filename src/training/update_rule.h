/* Update rules: how a step changes parameters. A rule is one file in src/training/rules, as an operation is one in src/ops.
 * The file has the rule's formula, moments and options, the call of its kernel, and the public function that makes an
 * optimizer with it. The build finds the rules by `const th_update_rule th_update_rule_NAME = {`. */
#ifndef TH_TRAINING_UPDATE_RULE_H
#define TH_TRAINING_UPDATE_RULE_H

#include "kernels/kernels.h"
#include "kernels/machine/machine.h"
#include "tapehead/base.h"

enum {
    TH_MAX_MOMENTS = 3,      /* of a rule */
    TH_MAX_RULE_OPTIONS = 16 /* that save_options lists */
};

/* An option that affects the result of a step, as checkpoints save it. */
typedef struct th_saved_option {
    const char *name;
    double value;         /* a bool is 0 or 1 */
    bool newer;           /* files of older versions do not have the option: they mean the default value, and */
    double default_value; /* a file with this value does not name the option, so that its bytes stay the same */
} th_saved_option;

/* The inputs of an update that are the same for all its elements. */
typedef struct th_update {
    th_dtype dtype;            /* of parameters, gradients and moments */
    const th_kernels *kernels; /* of this type */
    const void *options;       /* of the rule */
    double learning_rate, weight_decay;
    double gradient_scale; /* the gradient is the number in memory times this factor, which is not 0 */
    int64_t steps;         /* that the parameters have taken before this one */
} th_update;

/* A matrix that is updated whole, with its moments: a parameter with two axes, or some of its rows. Contiguous. */
typedef struct th_matrix {
    th_update update;
    void *parameter;
    void *gradient; /* the update may overwrite it */
    void *moment[TH_MAX_MOMENTS];
} th_matrix;

/* Matrices of one type and shape. */
typedef struct th_matrices {
    const th_machine *machine;
    th_dtype dtype;
    int64_t count, rows, columns;
    const th_matrix *matrix; /* [count] */
    void *scratch;           /* scratch_bytes bytes, with any content; or NULL */
    int threads;             /* that the update may use */
} th_matrices;

typedef struct th_update_rule {
    const char *name;    /* "adam_w": for messages and profiles */
    size_t options_size; /* bytes of the rule's own options */
    /* Returns the name in checkpoints. It includes the options that decide which moments there are: "adam_w amsgrad". */
    const char *(*full_name)(const void *options);
    int (*moment_count)(const void *options);
    const char *moment_names[TH_MAX_MOMENTS]; /* as in PyTorch */
    /* Returns the largest value that an update can leave in moment i. */
    double (*largest_moment)(int i, th_dtype dtype);
    /* Lists the options that affect the result. Returns their number. */
    int (*save_options)(const void *options, th_saved_option option[TH_MAX_RULE_OPTIONS]);
    /* Returns whether parameters that are 0, with gradients and moments of 0, remain 0. One update may then include the
     * gaps between parameters. */
    bool (*keeps_zeros)(const void *options);
    /* Updates n adjacent elements of parameters and moments in place. The step divides the memory of a block among threads
     * and processes, so an element must not depend on its neighbors. */
    void (*update)(const th_update *u, int64_t n, void *parameter, const void *gradient,
                   void *const moment[TH_MAX_MOMENTS]);
    /* NULL, or updates whole matrices in place, whose elements depend on each other. training/matrices.h says which
     * parameters these are; `update` gets all others. One process has a whole matrix, and the function divides the work
     * among threads itself. The bits of a matrix must not depend on the other matrices of the call. */
    void (*update_matrices)(const th_matrices *m);
    int matrix_moments; /* of a matrix; at most moment_count */
    const char *matrix_moment_names[TH_MAX_MOMENTS];
    /* NULL, or returns the bytes of scratch memory that update_matrices needs; SIZE_MAX if they overflow. `matrix` and
     * `scratch` are NULL. */
    size_t (*scratch_bytes)(const void *options, const th_matrices *m);
} th_update_rule;

#define UPDATE_RULE(name) extern const th_update_rule th_update_rule_##name;
#include "update_rules.def"
#undef UPDATE_RULE

#endif

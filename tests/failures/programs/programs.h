/* Small programs that together use the whole public API. Tests run them while allocations, system calls or the
 * creation of threads fail. */
#ifndef FAILURES_PROGRAMS_H
#define FAILURES_PROGRAMS_H

#include "tapehead/tapehead.h"

/* A run of a program. The members after out belong to the program, which sets them in its setup. */
typedef struct program_run {
    const char *folder; /* where the program writes its files */
    FILE *out;          /* an empty file for what the program prints; no step allocates memory for it */
    th_context *ctx;
    uint32_t crc; /* CRC-32C of everything that the program computed so far */
    th_module *model, *other;
    th_optimizer *optimizer;
    th_weight_average *average;
    th_cache *cache;
    th_tokenizer *tokenizer;
    th_tensor *tensor[6];
    char path[4][512];            /* in_folder */
    int paths;                    /* number of calls of in_folder */
    char other_text[1024];        /* the text of an error that is not the context's */
    unsigned char bytes[1 << 16]; /* of the tensor or file that is being added to crc */
} program_run;

/* A part of a program. It returns the code of the context's pending error. A step that failed is called again after
 * th_tape_clear and th_error_clear, and then has the result that it would have had. */
typedef th_status program_step(program_run *r);

enum { PROGRAM_STEPS = 8, PROGRAM_SEED = 7 };

typedef struct program {
    const char *name;
    program_step *setup; /* makes what all steps use; before it is repeated, th_set_seed is called; may be NULL */
    program_step *step[PROGRAM_STEPS + 1]; /* the last entry is NULL */
} program;

/* How a program ended. */
typedef struct program_result {
    th_status status;   /* of the first step that failed; TH_OK if none did */
    char text[1024];    /* th_error_text of that error; "" if the context could not be created */
    int step;           /* that step: 0 the context, 1 the setup, 2 the first step ... */
    th_status repeated; /* of the repetition of that step */
    uint32_t crc;       /* of everything that was computed */
} program_result;

/* The programs. */
extern const program *const programs[];
extern const int program_count;

/* What a test does during a run. */
typedef struct program_hooks {
    void (*begin)(void);  /* called before the context is created, when the run's own file is open; may be NULL */
    void (*repeat)(void); /* called before a failed step is repeated; NULL: the program ends at its first error */
} program_hooks;

/* Runs a program in a new context with this number of threads, and frees everything. After its first error it
 * repeats the failed step once and continues, if hooks->repeat is given. hooks may be NULL. */
program_result run_program(const program *p, const char *folder, int threads, const program_hooks *hooks);

/* -- for the programs -- */

/* Adds to the checksum. A tensor that is NULL adds nothing, nor does a file that cannot be opened. */
void add_bytes(program_run *r, const void *bytes, size_t count);
void add_number(program_run *r, double number);
void add_text(program_run *r, const char *text);
void add_tensor(program_run *r, th_tensor *t);
void add_output(program_run *r); /* what the step wrote to out */
void add_file(program_run *r, const char *path);

/* Adds the gradients of all parameters of a module to the checksum, and empties them. */
void add_gradients(program_run *r, th_module *m);

/* Returns the path of a file in the program's folder. Four such paths can be in use at a time. */
const char *in_folder(program_run *r, const char *name);

/* Creates a float32 tensor of numbers in [-1, 1), which depend on seed. */
th_tensor *numbers(program_run *r, th_shape shape, uint32_t seed);
/* As numbers; the tensor requires a gradient. */
th_tensor *leaf(program_run *r, th_shape shape, uint32_t seed);
/* Creates an int32 tensor of integers in [0, high), which depend on seed. */
th_tensor *integers(program_run *r, th_shape shape, int high, uint32_t seed);

/* Returns from a step with an error. */
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const th_status try_status_ = (call);                                                                          \
        if (try_status_ != TH_OK)                                                                                      \
            return try_status_;                                                                                        \
    } while (0)

#endif

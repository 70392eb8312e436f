/* Checkpoints: everything that training needs to go on, in one safetensors file (docs/checkpoints.md says what is in
 * it), and files of weights alone.
 *
 *     int64_t position = 0;
 *     const th_checkpoint_number numbers[] = {{.name = "position", .integer = &position}};
 *     const th_checkpoint run = {.model = model, .optimizer = adam, .numbers = numbers, .n_numbers = 1};
 *     if (resuming && th_checkpoint_load("run/last.safetensors", &run))
 *         return report(ctx);
 *     ...
 *     if (th_checkpoint_save("run/last.safetensors", &run))
 *         return report(ctx);
 *
 * Steps, save, load in a new process, steps: the same bits as steps without a break, dropout and the library's
 * shuffling included, at any number of threads, in the precision that products had. What a program decides by itself is
 * its own to restore: the learning rate that it sets each step, modes of the context (training, fusion), modules pinned
 * to evaluation. */
#ifndef TAPEHEAD_CHECKPOINT_H
#define TAPEHEAD_CHECKPOINT_H

#include "tapehead/language_model.h"
#include "tapehead/optimizer.h"

TH_BEGIN_DECLS

/* A number of the program's own: where its data stands, the best loss so far. One of the two pointers is given: what it
 * points to is read when saving and written when loading. */
typedef struct th_checkpoint_number {
    const char *name;
    int64_t *integer;
    double *real; /* bit for bit, but for the kind of a NaN */
} th_checkpoint_number;

/* Called once for each difference between a file and the program that loads it. line has no newline at its end. Names
 * from the file are escaped as in th_error_message. */
typedef void th_report_function(const char *line, void *user);
/* One: prints the line to `file`, a FILE * that the caller passes as user. */
TH_API void th_report_print(const char *line, void *file);

typedef struct th_checkpoint {
    th_module *model;
    th_optimizer *optimizer;             /* of parameters of the model; NULL: there is none */
    const char *configuration;           /* a text of the program's own, usually JSON; saved only; NULL: none */
    const th_checkpoint_number *numbers; /* [n_numbers] */
    int n_numbers;
    bool other_options;         /* loading: the optimizer keeps its own options where the file has others (weight decay,
                                   betas, ...); else that is an error */
    th_report_function *report; /* loading: hears of every difference; may be NULL */
    void *report_user;
} th_checkpoint;

/* Writes the checkpoint; a regular file appears at path only when it is complete and has reached the disk: until then,
 * after an error and after a crash at any moment, what was there stays. No second copy of any tensor is made. Between
 * steps: TH_ERROR_STATE while gradients of an unfinished step wait in a parameter of the optimizer. */
TH_API th_status th_checkpoint_save(const char *path, const th_checkpoint *checkpoint) TH_MUST_CHECK;
/* Restores parameters (values, and whether they are frozen), the optimizer (moments, steps, learning rate), the
 * context's seed, step, random streams and precision (float32 from a file that is older than the choice; another may be
 * set afterwards), and the numbers. Everything is checked first, each checksum too: on an error nothing has changed.
 * TH_ERROR_FILE names what is wrong with a damaged file, or the first difference and how many there are: tensors that
 * are missing, unexpected, of another shape or type; another optimizer, other options; numbers that are missing.
 * Gradients are emptied. */
TH_API th_status th_checkpoint_load(const char *path, const th_checkpoint *checkpoint) TH_MUST_CHECK;
/* The configuration alone, so that the model can be made before it is loaded. The text belongs to the context, "" when
 * none was saved. NULL with the error stored. */
TH_API char *th_checkpoint_configuration(th_context *ctx, const char *path);
/* Compares every byte of the file with its checksums, without a model. A program that keeps several checkpoints finds
 * the newest intact one with it. TH_ERROR_FILE names the damaged part. */
TH_API th_status th_checkpoint_verify(th_context *ctx, const char *path) TH_MUST_CHECK;

/* -- weights alone -- */
/* Every parameter under its dotted name, each once, as safetensors. Appears as a checkpoint does. */
TH_API th_status th_weights_save(th_module *m, const char *path) TH_MUST_CHECK;

typedef struct th_weights_options {
    /* The name in the file of one of the model's parameters, valid until the next call; NULL leaves that parameter as
     * it is. Without this function names are equal. */
    const char *(*name_in_file)(const char *parameter, void *user);
    void *user;
    bool allow_missing;    /* parameters that the file does not have stay as they are */
    bool allow_unexpected; /* tensors of the file that no parameter asks for are left */
    th_report_function *report;
    void *report_user;
} th_weights_options;

/* Loads weights from any safetensors file that th_safetensors_open reads, and converts them to the parameters' type. In
 * a checkpoint it verifies the checksums of the header and of the tensors that it reads. Damage in other tensors, such
 * as moments, does not matter. It finds every difference before it changes a parameter, and empties the gradients.
 * options may be NULL. */
TH_API th_status th_weights_load(th_module *m, const char *path, const th_weights_options *options) TH_MUST_CHECK;

/* Compares the names, shapes and types of the weights in a file with the language model of these options, and takes no
 * memory for the model's values. A program that makes a model from settings in an untrusted file calls this first:
 * settings of a few bytes can describe a model of any size. TH_ERROR_FILE names the differences. */
TH_API th_status th_language_model_check_weights(th_context *ctx, const th_language_model_options *options,
                                                 const char *path) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_checkpoint_save(...) TH_AT_STATUS(th_checkpoint_save(__VA_ARGS__))
#define th_checkpoint_load(...) TH_AT_STATUS(th_checkpoint_load(__VA_ARGS__))
#define th_checkpoint_configuration(...) TH_AT_POINTER(char, th_checkpoint_configuration(__VA_ARGS__))
#define th_checkpoint_verify(...) TH_AT_STATUS(th_checkpoint_verify(__VA_ARGS__))
#define th_weights_save(...) TH_AT_STATUS(th_weights_save(__VA_ARGS__))
#define th_weights_load(...) TH_AT_STATUS(th_weights_load(__VA_ARGS__))
#define th_language_model_check_weights(...) TH_AT_STATUS(th_language_model_check_weights(__VA_ARGS__))
#endif

TH_END_DECLS

#endif

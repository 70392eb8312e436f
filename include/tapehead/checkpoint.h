/* Checkpoints: one safetensors file that has everything needed to resume training (docs/checkpoints.md describes it).
 * Also files of weights alone.
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
 * A run that is saved and loaded in a new process continues with the same bits as an uninterrupted run. This includes
 * dropout and the library's shuffling. It holds for any number of threads and in every precision of products. The
 * program must restore what it decides by itself: the learning rate of each step, the context's modes (training,
 * fusion), and modules pinned to evaluation. */
#ifndef TAPEHEAD_CHECKPOINT_H
#define TAPEHEAD_CHECKPOINT_H

#include "tapehead/language_model.h"
#include "tapehead/optimizer.h"
#include "tapehead/weight_average.h"

TH_BEGIN_DECLS

/* A number that the program wants saved: its position in the data, the best loss so far. Exactly one of the two
 * pointers is set. Saving reads the number there, loading writes it. */
typedef struct th_checkpoint_number {
    const char *name;
    int64_t *integer;
    double *real; /* loaded with the same bits, except the kind of a NaN */
} th_checkpoint_number;

/* A function that is called once for each difference between a file and the program that loads it. line has no newline
 * at its end. Names from the file are escaped as in th_error_message. */
typedef void th_report_function(const char *line, void *user);
/* A th_report_function that prints the line to `file`, a FILE * that the caller passes as user. */
TH_API void th_report_print(const char *line, void *file);

typedef struct th_checkpoint {
    th_module *model;
    th_optimizer *optimizer;             /* of parameters of the model; NULL: no optimizer */
    th_weight_average *average;          /* of the same model; NULL: none */
    const char *configuration;           /* a text for the program, usually JSON; loading ignores it; NULL: none */
    const th_checkpoint_number *numbers; /* [n_numbers] */
    int n_numbers;
    /* Saving: without the frozen parameters, such as the base of adapters (tapehead/lora.h). The file is small, and has
     * only their checksums. Loading finds this out by itself: the model must have these parameters already, and another
     * value is an error. */
    bool without_frozen;
    /* Loading: the optimizer and the averages keep their options where the file has others (weight decay, betas, ...).
     * Otherwise other options are an error. */
    bool other_options;
    /* Loading, to use the model: ignores the optimizer in the file, and gives the parameters their averages if the file
     * has them. `optimizer` and `average` must be NULL. */
    bool only_model;
    th_report_function *report; /* loading: called for every difference; may be NULL */
    void *report_user;
} th_checkpoint;

/* Writes the checkpoint. A regular file appears at path only when it is complete and has reached the disk. Until then,
 * and after an error or a crash at any moment, the old file stays. No tensor is copied. Call it between steps:
 * TH_ERROR_STATE if a parameter of the optimizer still has gradients of an unfinished step, in a loop over shards, or
 * if `average` is swapped. (Without `average`, swapped averages are saved as the model's weights.)
 *
 * If the optimizer has a group of several processes, the call is collective. Rank 0 writes the file. It receives the
 * moments one after the other, and needs memory for the largest one. The other processes write nothing: their path,
 * configuration and numbers are ignored. The file has the same bytes as if one process had computed all shards. An error
 * in one process is an error in all: each returns the code and the message of the first process that has one, with its
 * rank. This includes a disk that fills while rank 0 writes. TH_ERROR_STATE, in all processes, if they differ in the
 * number of steps, in the moments or in the averages. TH_ERROR_STATE, in this process, if the group has been freed. A
 * process that passes no optimizer, or a freed one, does not take part: the others wait for it (th_group_set_timeout).
 *
 * With local steps (th_diloco_options), call it before the first step or right after an outer step: otherwise
 * TH_ERROR_STATE. The file has the moments of every process, and only as many processes can load it. */
TH_API th_status th_checkpoint_save(const char *path, const th_checkpoint *checkpoint) TH_MUST_CHECK;
/* Restores the parameters (values, and whether they are frozen), the optimizer (moments, steps, learning rate), the
 * averages (which are then not swapped), and the numbers. Also restores the context's seed, step, random streams and
 * precision. A file of an older version without a precision means float32. The program may set another precision
 * afterwards. Empties the gradients. The function checks
 * everything first, including each checksum: after an error nothing has changed. (If the disk fails after that, while
 * the numbers are read, the message says that some may have changed.) TH_ERROR_FILE names the damage, or the first
 * difference and the number of differences: tensors that are missing, unexpected, or of another shape or type; another
 * optimizer or other options; missing numbers. */
TH_API th_status th_checkpoint_load(const char *path, const th_checkpoint *checkpoint) TH_MUST_CHECK;
/* Returns the configuration alone, so that a program can create the model before it loads the checkpoint. The context
 * owns the text, which is "" if none was saved. Returns NULL with the error pending. */
TH_API char *th_checkpoint_configuration(th_context *ctx, const char *path);
/* Compares every byte of the file with its checksums, without a model. Programs that keep several checkpoints use it
 * to find the newest intact one. TH_ERROR_FILE names the damaged part. */
TH_API th_status th_checkpoint_verify(th_context *ctx, const char *path) TH_MUST_CHECK;

/* -- weights alone -- */
/* Writes every parameter once, under its dotted name, as safetensors. As with th_checkpoint_save, the file appears
 * only when it is complete. */
TH_API th_status th_weights_save(th_module *m, const char *path) TH_MUST_CHECK;

typedef struct th_weights_options {
    /* Returns the name that the model's parameter `parameter` has in the file. The name stays valid until the next
     * call. NULL leaves that parameter as it is. Without this function, the names in the file must be those of the
     * model. */
    const char *(*name_in_file)(const char *parameter, void *user);
    void *user;
    bool allow_missing;    /* parameters that the file does not have stay as they are */
    bool allow_unexpected; /* tensors of the file that no parameter uses are ignored */
    th_report_function *report;
    void *report_user;
} th_weights_options;

/* Loads weights from any safetensors file that th_safetensors_open reads, and converts them to the parameters' type. In
 * a checkpoint it verifies the checksums of the header and of the tensors that it reads. Damage in other tensors, such
 * as moments, does not matter. It finds every difference before it changes a parameter, and empties the gradients.
 * options may be NULL. */
TH_API th_status th_weights_load(th_module *m, const char *path, const th_weights_options *options) TH_MUST_CHECK;

/* Compares the names, shapes and types of the weights in a file with the language model of these options, and takes no
 * memory for the model's values. A program that makes a model from settings in an untrusted file calls this first,
 * because settings of a few bytes can describe a model of any size. TH_ERROR_FILE names the differences. */
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

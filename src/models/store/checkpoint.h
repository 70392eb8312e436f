/* What the files of checkpoints share: names in the file, the parameters of a model beside what its optimizer has of
 * them, and the state that is no tensor. */
#ifndef TH_MODELS_STORE_CHECKPOINT_H
#define TH_MODELS_STORE_CHECKPOINT_H

#include "models/files/json.h"
#include "models/store/differences.h"
#include "models/store/safetensors.h"
#include "nn/module.h"
#include "nn/optimizer_saved.h"
#include "tapehead/checkpoint.h"

/* In a checkpoint names of tensors that are no weights begin with a dot, which no parameter's name does. */
#define TH_CHECKSUMS_NAME ".checksums"
#define TH_MOMENT_NAME ".optimizer.%s.%s" /* moment, parameter */
enum { TH_MOMENT_NAME_SIZE = TH_FULL_NAME_SIZE + 32 };
/* Texts of the metadata. */
#define TH_STATE_TEXT "tapehead.state"
#define TH_CONFIGURATION_TEXT "configuration"

/* -- the parameters of a model (parameter_list.c) -- */
typedef struct th_listed_parameter {
    th_tensor_impl *tensor;
    int64_t in_optimizer;    /* index there, or -1 */
    const th_stored *stored; /* where it is in the file; NULL: it stays as it is */
    char name[TH_FULL_NAME_SIZE];
} th_listed_parameter;

typedef struct th_parameter_list {
    th_context *ctx;
    const th_module *model;
    th_listed_parameter *parameter; /* [count] in the module's order, each once */
    int64_t count;
} th_parameter_list;

/* Checks what both saving and loading need (a usable module, a path, values), then makes the list. o may be NULL;
 * TH_ERROR_ARGUMENT for one with parameters of other modules. To be ended in any case. */
th_status th_parameter_list_make(th_parameter_list *list, const th_module *m, const th_optimizer *o, const char *path,
                                 const char *operation);
/* Makes only the list. m may have shapes only. */
th_status th_parameter_list_of(th_parameter_list *list, const th_module *m, const th_optimizer *o,
                               const char *operation);
void th_parameter_list_end(th_parameter_list *list);
/* Finds each in the file; used[i]: entry i of file->by_name is one of them. What is missing or does not fit is told.
 * exact: the type must be the parameter's own. */
void th_parameter_list_match(th_parameter_list *list, const th_safetensors *file, const th_weights_options *options,
                             bool exact, bool *used, th_differences *d);
/* Tells of weights (not of what a checkpoint has besides) that nobody used. */
void th_tell_unused(const th_safetensors *file, const bool *used, th_differences *d);
/* Reads each that was found; gradients are emptied. */
th_status th_parameter_list_read(const th_parameter_list *list, const char *operation);

/* -- the state (checkpoint_state.c) -- */
/* As a text, for free; NULL with TH_ERROR_MEMORY. */
char *th_state_text(const th_checkpoint *c, const th_parameter_list *list, const char *operation);
/* From the text; NULL with TH_ERROR_FILE. For json_decref. */
json_t *th_state_read(const th_json_source *source, const char *text);
/* How many steps the parameter has taken: if any, the file has its moments. */
int64_t th_state_steps(const json_t *state, const char *parameter);
/* A real as it was written; false for what is none. */
bool th_state_real(const json_t *json, double *value);
/* Tells what of it does not fit the checkpoint (checkpoint_compare.c). */
void th_state_compare(const json_t *state, const th_checkpoint *c, const th_parameter_list *list, th_differences *d);
/* Takes over all that has been compared. */
th_status th_state_restore(const json_t *state, const th_checkpoint *c, const th_parameter_list *list);

/* TH_ERROR_ARGUMENT unless each of the checkpoint's numbers has a name and a pointer. */
th_status th_check_numbers(const th_checkpoint *c, const char *operation);

/* -- the file (checkpoint_load.c, checksums.c) -- */
/* Opened, its header verified; NULL with the error stored. */
th_safetensors *th_checkpoint_open(th_context *ctx, const char *path, const char *operation);
/* Verify the checksum of the header, of one tensor, or of every tensor. TH_ERROR_FILE names the first wrong one, or
 * says that the file has no checksums. */
th_status th_checksums_verify_header(const th_safetensors *file, const char *operation);
th_status th_checksums_verify_tensor(const th_safetensors *file, const th_stored *tensor, const char *operation);
th_status th_checksums_verify_all(const th_safetensors *file, const char *operation);

#endif

/* What the source files for checkpoints share. A checkpoint contains the parameters of a model, the optimizer's tensors
 * for each parameter, and a state that is not a tensor. */
#ifndef TH_MODELS_SAVED_MODELS_CHECKPOINT_H
#define TH_MODELS_SAVED_MODELS_CHECKPOINT_H

#include "models/core/training.h"
#include "models/files/json.h"
#include "models/saved_models/differences.h"
#include "models/saved_models/safetensors.h"
#include "tapehead/checkpoint.h"

/* In a checkpoint, the names of tensors other than weights begin with a dot. No parameter's name begins with a dot. */
#define TH_CHECKSUMS_NAME ".checksums"
#define TH_MOMENT_NAME ".optimizer.%s.%s" /* moment, parameter */
#define TH_AVERAGE_NAME ".average."       /* and the parameter */
enum {
    TH_MOMENT_NAME_SIZE = TH_FULL_NAME_SIZE + TH_SAVED_NAME_SIZE + 16,
    TH_AVERAGE_NAME_SIZE = TH_FULL_NAME_SIZE + 16
};
/* Keys of the metadata. */
#define TH_STATE_TEXT "tapehead.state"
#define TH_CONFIGURATION_TEXT "configuration"

/* -- the parameters of a model (parameter_list.c) -- */
typedef struct th_listed_parameter {
    th_tensor_impl *tensor;
    int64_t optimizer_index;           /* index in the optimizer, or -1 */
    int64_t average_index;             /* index in the averages, or -1 */
    const th_safetensors_entry *entry; /* its tensor in the file; NULL: loading does not change the parameter */
    bool only_checksum;                /* a checkpoint has only its checksum */
    char name[TH_FULL_NAME_SIZE];
} th_listed_parameter;

typedef struct th_parameter_list {
    th_context *ctx;
    const th_module *model;
    th_listed_parameter *parameter; /* [count] in the module's order, each once */
    int64_t count;
} th_parameter_list;

/* Makes the list. o may be NULL. The parameters of m may have shapes only. Returns TH_ERROR_ARGUMENT if o has
 * parameters of other modules. Call th_parameter_list_end even after an error. */
th_status th_parameter_list_make(th_parameter_list *list, const th_module *m, const th_optimizer *o,
                                 const char *operation);
/* Makes the list for saving to a file, or for loading from one. First checks that m is usable and has values, and that
 * path is not NULL. */
th_status th_parameter_list_make_for_file(th_parameter_list *list, const th_module *m, const th_optimizer *o,
                                          const char *path, const char *operation);
/* Releases the list. */
void th_parameter_list_end(th_parameter_list *list);
/* Finds each parameter in the file. Sets used[i] if file->by_name[i] belongs to a parameter. Reports parameters that
 * are missing or do not fit. exact_type: the types of tensor and parameter must be equal. */
void th_parameter_list_match(th_parameter_list *list, const th_safetensors *file, const th_weights_options *options,
                             bool exact_type, bool *used, th_differences *d);
/* Reports weights that are not used. Other tensors of a checkpoint are not reported. */
void th_report_unused(const th_safetensors *file, const bool *used, th_differences *d);
/* Reads every parameter that was found, and empties its gradient. */
th_status th_parameter_list_load_values(const th_parameter_list *list, const char *operation);

/* Returns whether the checkpoint omits the parameter: it is frozen, and without_frozen is set. */
static inline bool th_is_saved_elsewhere(const th_checkpoint *c, const th_listed_parameter *p)
{
    return c->without_frozen && !p->tensor->requires_gradient;
}

/* -- averages of weights (checkpoint_average.c) -- */
/* Finds the average of each parameter. TH_ERROR_ARGUMENT if `average` belongs to another model. NULL: does nothing. */
th_status th_averages_find(th_parameter_list *list, th_weight_average *average, const char *operation);
/* Returns how often the average of a parameter was updated; 0: the checkpoint does not have it. */
int64_t th_average_updates(const th_weight_average *average, const th_listed_parameter *p);
/* Returns the average as a tensor. */
th_array th_average_array(const th_weight_average *average, const th_listed_parameter *p);
/* Writes the name of the average in the file. */
void th_average_name(const th_listed_parameter *p, char name[TH_AVERAGE_NAME_SIZE]);
/* Returns a checksum of all averages that the checkpoint has. */
uint32_t th_averages_crc32c(const th_weight_average *average, const th_parameter_list *list);
/* Returns the average in the file; NULL if the file does not have it. */
const th_safetensors_entry *th_average_in_file(const th_safetensors *file, const th_listed_parameter *p);
/* Reports the differences between the averages in the file and `average`, which may be NULL. */
void th_averages_compare(const th_safetensors *file, const json_t *state, const th_checkpoint *c,
                         const th_parameter_list *list, th_differences *d);
/* Allocates the averages that the file has. */
th_status th_averages_allocate(const json_t *state, th_weight_average *average, const th_parameter_list *list,
                               const char *operation);
/* Reads the averages. */
th_status th_averages_read(const th_safetensors *file, const json_t *state, th_weight_average *average,
                           const th_parameter_list *list, const char *operation);

/* -- the state (checkpoint_state.c) -- */
/* Returns the state as a text, which the caller releases with free. Returns NULL with the error pending. */
char *th_state_text(const th_checkpoint *c, const th_parameter_list *list, const char *operation);
/* Reads and checks the state. Returns NULL with TH_ERROR_FILE; the caller releases it with json_decref. */
json_t *th_state_read(const th_json_source *source, const char *text);
/* Returns how often a parameter was updated. If it is not 0, the file has the parameter's moments. */
int64_t th_state_steps(const json_t *state, const char *parameter);
/* Returns how often the average of a parameter was updated. If it is not 0, the file has the average. */
int64_t th_state_averaged(const json_t *state, const char *parameter);
/* Returns whether the file has no tensor for the parameter, only a checksum. Sets *crc to it. */
bool th_state_has_only_checksum(const json_t *state, const char *parameter, uint32_t *crc);
/* Returns the checksum (CRC-32C) of a parameter's bytes. */
uint32_t th_parameter_crc32c(const th_tensor_impl *t);
/* Reads a real number in the format of checkpoints. Returns false for any other text. */
bool th_state_real(const json_t *json, double *value);
/* Reports the differences between the state and the checkpoint (checkpoint_compare.c). */
void th_state_compare(const json_t *state, const th_checkpoint *c, const th_parameter_list *list, th_differences *d);
/* Restores everything that was compared. */
th_status th_state_restore(const json_t *state, const th_checkpoint *c, const th_parameter_list *list);

/* Returns TH_ERROR_ARGUMENT unless each of the checkpoint's numbers has a name and a pointer. */
th_status th_check_numbers(const th_checkpoint *c, const char *operation);

/* -- the file (checksums.c) -- */
/* Verifies the checksum of the header. TH_ERROR_FILE if it is wrong, or if the file has no checksums. */
th_status th_checksums_verify_header(const th_safetensors *file, const char *operation);
/* Verifies the checksum of one tensor. TH_ERROR_FILE if it is wrong. */
th_status th_checksums_verify_tensor(const th_safetensors *file, const th_safetensors_entry *tensor,
                                     const char *operation);
/* Verifies all checksums. TH_ERROR_FILE names the first wrong one. */
th_status th_checksums_verify_tensors(const th_safetensors *file, const char *operation);

#endif

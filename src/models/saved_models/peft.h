/* What reading and writing of PEFT's folders share: the modules of transformers for our projections, and the settings
 * of adapter_config.json. */
#ifndef TH_MODELS_SAVED_MODELS_PEFT_H
#define TH_MODELS_SAVED_MODELS_PEFT_H

#include <jansson.h>

#include "models/core/modules.h"
#include "models/families/family.h"
#include "tapehead/safetensors.h"

#define TH_PEFT_CONFIG "adapter_config.json"
#define TH_PEFT_WEIGHTS "adapter_model.safetensors"
#define TH_PEFT_PREFIX "base_model.model."
#define TH_PEFT_A ".lora_A.weight"
#define TH_PEFT_B ".lora_B.weight"
#define TH_PEFT_BASE ".base_layer.weight" /* PEFT writes a copy of lm_head's weight if lm_head has an adapter */
enum { TH_PEFT_NAME_SIZE = TH_FULL_NAME_SIZE + 64 };

/* -- modules (peft_modules.c) -- */

/* A projection of ours, as rows of a module of transformers. The slice may be the whole module. */
typedef struct th_peft_slice {
    th_projection projection;
    char module[TH_FULL_NAME_SIZE]; /* "model.layers.0.self_attn.q_proj" */
    int place;                      /* slices of a module are sorted by place, then by their rows */
    int64_t heads;                  /* not 0: the module has its rows in the order of these heads (TH_VIEW_BY_HEAD) */
    /* not 0 rows: queries or keys whose rotary positions rotate neighbors in the model or in the file, and halves in the
     * other of both */
    th_halves halves;
    bool to_neighbors; /* the file rotates neighbors */
} th_peft_slice;

typedef struct th_peft_slices {
    th_peft_slice *slice; /* [count], the slices of a module one after another */
    int64_t count;
    size_t bytes; /* of the memory */
} th_peft_slices;

/* Checks the arguments of a function that reads or writes a folder: TH_ERROR_ARGUMENT, TH_ERROR_STATE. */
th_status th_peft_check_model(th_module *model, const char *folder, const char *operation);
/* Lists the projections of a language model. The list is empty if the family has no name for one of them. neighbors:
 * rotary positions of the file rotate neighbors. Errors: TH_ERROR_MEMORY. Call th_peft_slices_end even after an error. */
th_status th_peft_slices_list(th_module *model, const th_family *family, bool neighbors, const char *operation,
                              th_peft_slices *list);
void th_peft_slices_end(th_context *ctx, th_peft_slices *list);
/* Returns the end of the slices of one module that begin at `first`. */
int64_t th_peft_module_end(const th_peft_slices *list, int64_t first);
/* Returns the first slice of a module; -1 if it is not in the list. */
int64_t th_peft_module_find(const th_peft_slices *list, const char *module);
/* Reorder the rows of a matrix from our order to the order of the module, and from its order to ours. */
th_tensor *th_peft_rows_to_module(const th_peft_slice *slice, th_tensor *rows);
th_tensor *th_peft_rows_from_module(const th_peft_slice *slice, th_tensor *rows);

/* The same for the rows of one slice, whose rotary positions may differ. */
th_tensor *th_peft_rows_to_file(const th_peft_slice *slice, th_tensor *rows);
th_tensor *th_peft_rows_to_model(const th_peft_slice *slice, th_tensor *rows);

/* -- the adapters of modules (peft_adapters.c) -- */

typedef struct th_peft_adapter {
    const char *module;
    bool adapted;
    int64_t rank;
    double alpha, scale;
    char name[2][TH_PEFT_NAME_SIZE]; /* of A and B */
} th_peft_adapter;

/* Names of tensors: `before`, the module, and then `a` or `b`. */
typedef struct th_peft_naming {
    const char *before, *a, *b;
} th_peft_naming;

typedef struct th_peft_adapters {
    th_peft_adapter *module; /* [modules] */
    th_named_tensor *tensor; /* [tensors]: A and B of each adapted module; they belong to the open scope */
    int64_t modules, tensors;
    int64_t capacity; /* of modules */
} th_peft_adapters;

/* Lists the adapters of all modules. A module of several projections has one adapter. Errors: TH_ERROR_MEMORY, and
 * TH_ERROR_ARGUMENT if its projections have different scales. Call th_peft_adapters_end even after an error. */
th_status th_peft_adapters_list(th_context *ctx, const char *operation, const th_peft_slices *slices,
                                const th_peft_naming *naming, th_peft_adapters *list);
void th_peft_adapters_end(th_context *ctx, th_peft_adapters *list);

/* -- settings (peft_config.c) -- */

typedef struct th_peft_config {
    json_t *root;
    size_t bytes;                               /* of the memory of root */
    th_lora_setting setting;                    /* of modules that no pattern names */
    const json_t *rank_pattern, *alpha_pattern; /* objects, or NULL */
} th_peft_config;

/* Reads and checks adapter_config.json. th_peft_config_end releases it, also after an error. */
th_status th_peft_config_read(th_context *ctx, const char *operation, const char *path, th_peft_config *config);
void th_peft_config_end(th_context *ctx, th_peft_config *config);
/* Returns the setting of a module. */
th_lora_setting th_peft_setting_of(const th_peft_config *config, const char *module);

#endif

/* Shared by reading and writing PEFT's folders: the modules of transformers that our projections are, and the settings of
 * adapter_config.json. */
#ifndef TH_MODELS_SAVED_MODELS_PEFT_H
#define TH_MODELS_SAVED_MODELS_PEFT_H

#include <jansson.h>

#include "models/core/modules.h"
#include "models/families/family.h"

#define TH_PEFT_CONFIG "adapter_config.json"
#define TH_PEFT_WEIGHTS "adapter_model.safetensors"
#define TH_PEFT_PREFIX "base_model.model."
#define TH_PEFT_A ".lora_A.weight"
#define TH_PEFT_B ".lora_B.weight"
#define TH_PEFT_BASE ".base_layer.weight" /* PEFT writes a copy of lm_head's weight if lm_head has an adapter */
enum { TH_PEFT_NAME_SIZE = TH_FULL_NAME_SIZE + 64 };

/* -- modules (peft_modules.c) -- */

/* A projection, and the module of transformers that it is, or is a part of. */
typedef struct th_peft_part {
    th_projection projection;
    char module[TH_FULL_NAME_SIZE]; /* "model.layers.0.self_attn.q_proj" */
    int place;                      /* parts of a module are ordered by place, then by their rows */
    int64_t heads;                  /* 0; otherwise the rows of the module are ordered by head (TH_VIEW_BY_HEAD) */
} th_peft_part;

typedef struct th_peft_parts {
    th_peft_part *part; /* [count], the parts of a module one after another */
    int64_t count;
    size_t bytes; /* of the memory */
} th_peft_parts;

/* Checks the arguments of a function that reads or writes a folder: TH_ERROR_ARGUMENT, TH_ERROR_STATE. */
th_status th_peft_check_model(th_module *model, const char *folder, const char *operation);
/* Lists the projections of a language model. The list is empty if the family has no name for one of them. Errors:
 * TH_ERROR_MEMORY. Call th_peft_parts_end even after an error. */
th_status th_peft_parts_list(th_module *model, const th_family *family, const char *operation, th_peft_parts *list);
void th_peft_parts_end(th_context *ctx, th_peft_parts *list);
/* Returns the end of the parts of one module that begin at `first`. */
int64_t th_peft_module_end(const th_peft_parts *list, int64_t first);
/* Returns the first part of a module; -1 if it is not in the list. */
int64_t th_peft_module_find(const th_peft_parts *list, const char *module);
/* Returns a matrix whose rows are in our order as one with the module's order of rows, or the other way round. */
th_tensor *th_peft_rows_to_module(const th_peft_part *part, th_tensor *rows);
th_tensor *th_peft_rows_from_module(const th_peft_part *part, th_tensor *rows);

/* -- settings (peft_config.c) -- */

typedef struct th_peft_config {
    json_t *root;
    size_t memory;
    th_lora_setting setting;                    /* of modules that no pattern names */
    const json_t *rank_pattern, *alpha_pattern; /* objects, or NULL */
} th_peft_config;

/* Reads and checks adapter_config.json. th_peft_config_end releases it, also after an error. */
th_status th_peft_config_read(th_context *ctx, const char *operation, const char *path, th_peft_config *config);
void th_peft_config_end(th_context *ctx, th_peft_config *config);
/* Returns the setting of a module. */
th_lora_setting th_peft_setting_of(const th_peft_config *config, const char *module);

#endif

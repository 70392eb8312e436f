/* Gives memory to the matrices of a frozen model that is loaded from a file, in their final type. So a model with
 * stored weights never has them in float32. A matrix that is in the file exactly as in the model is mapped, not copied.
 */
#ifndef TH_MODELS_FAMILIES_PLACING_H
#define TH_MODELS_FAMILIES_PLACING_H

#include "models/families/tensors.h"
#include "models/files/mapping.h"

/* What a file has under a name. */
typedef struct th_found_tensor {
    th_dtype dtype; /* TH_DTYPE_COUNT: no type of ours, so it is never mapped */
    int descriptor;
    int64_t begin; /* of its elements, in the file */
} th_found_tensor;

typedef struct th_placing {
    const char *operation;
    bool stored;     /* weights have the type that they have in the file */
    th_dtype type;   /* a storage type: weights have this type instead */
    bool no_mapping; /* no part of the file is mapped */
    th_status (*list)(const void *source, th_module *model, th_foreign_tensors *list);
    th_found_tensor (*find)(const void *source, const char *name);
    const void *source; /* for both functions */
} th_placing;

/* Creates a model whose matrices have no memory yet, frozen. Returns NULL with the error pending. */
th_module *th_placing_new_model(th_context *ctx, const th_language_model_options *options);
/* Gives memory to the matrices. Mapped ones have their values afterwards, the others are undefined. */
th_status th_placing_place(const th_placing *how, th_module *model);
/* Returns whether the tensor of the file is a mapped parameter, so that nothing has to be read. */
bool th_placing_is_mapped(const th_foreign_tensor *t);

#endif

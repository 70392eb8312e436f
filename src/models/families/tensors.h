/* The tensors of a model under its family's names. Reading and writing use the same list. */
#ifndef TH_MODELS_FAMILIES_TENSORS_H
#define TH_MODELS_FAMILIES_TENSORS_H

#include "models/families/family.h"
#include "tapehead/tensor.h"

/* A tensor of the file: one view of one of our parameters, or several below each other. The views belong to the open
 * scope. */
typedef struct th_foreign_tensor {
    const char *name;
    th_shape shape; /* in the file */
    int places;
    th_tensor *view[TH_MAX_PLACES];      /* [places] */
    th_tensor *parameter[TH_MAX_PLACES]; /* [places] the model's parameter behind each view */
    th_halves halves[TH_MAX_PLACES];     /* [places] the rows of the view that have another order in the file */
    bool transposed; /* the file has the transpose of the only parameter. The view is transposed too, unless the
                                            parameter is stored */
    int64_t heads;   /* 0; otherwise the rows of the only view have another order: by head */
} th_foreign_tensor;

typedef struct th_foreign_tensors {
    th_foreign_tensor *tensor; /* in the order of the model's parameters */
    int64_t count;
    size_t bytes; /* of the memory */
} th_foreign_tensors;

/* Writes the name of the file's tensor that has our parameter. Returns false if the entry is for other parameters. */
bool th_foreign_name(const th_tensor_name *n, const char *ours, char theirs[TH_FULL_NAME_SIZE]);

/* Lists the tensors. TH_ERROR_ARGUMENT if the family has no name for a parameter. With to_halves, rotary positions of the
 * file rotate halves, also where the model rotates neighbors. */
th_status th_foreign_tensors_list(th_module *model, const th_family *family, const char *operation, bool to_halves,
                                  th_foreign_tensors *list);
/* Releases the list; the views belong to the scope. */
void th_foreign_tensors_free(th_context *ctx, th_foreign_tensors *list);

/* Returns the view if the tensor consists of exactly one view, with its rows in the same order; otherwise NULL. */
th_tensor *th_foreign_tensor_view(const th_foreign_tensor *t);
/* Returns the values of one view in the order of rows that halves[place] asks for: the view, or a copy that belongs to
 * the scope. Stored values become float32 if their order changes. */
th_tensor *th_foreign_tensor_view_values(const th_foreign_tensor *t, int place);
/* Returns the shape of the tensor in a file of numbers: blocks count as numbers. */
th_shape th_foreign_tensor_numbers(const th_foreign_tensor *t);
/* Returns the values as they are in the file, in this type: the view, or a copy that belongs to the scope. Stored values
 * that have this type keep their bits. */
th_tensor *th_foreign_tensor_values(const th_foreign_tensor *t, th_dtype type);
/* Copies the values of a file's tensor to the parameters. */
th_status th_foreign_tensor_set(const th_foreign_tensor *t, th_tensor *values);

#endif

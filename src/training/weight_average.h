/* The internal state of averages of weights. The memory of each average is separate. weight_average.c updates averages,
 * weight_average_list.c follows their parameters. */
#ifndef TH_TRAINING_WEIGHT_AVERAGE_H
#define TH_TRAINING_WEIGHT_AVERAGE_H

#include "private_api.h"
#include "tapehead/weight_average.h"
#include "tensor/parameter_observer.h"

/* One parameter. */
typedef struct th_averaged_parameter {
    th_tensor_impl *tensor;
    int64_t updates; /* of its average; 0: the average has not begun */
    void *data;      /* the average, contiguous; NULL without memory, and in a shapes-only context */
    size_t bytes;    /* 0: without memory */
    void *reserved;  /* memory of another type, for the average of a parameter that will move */
    size_t reserved_bytes;
} th_averaged_parameter;

struct th_weight_average {
    th_context *ctx;
    const th_module *module; /* NULL once it is freed */
    th_weight_average_options options;
    th_averaged_parameter *parameters; /* [count] */
    int64_t count, capacity;
    uint64_t additions; /* the context's number of additions to modules when the list was complete */
    bool swapped, freed;
};

/* Returns false, with the error pending, if a is NULL or was freed. */
TH_PRIVATE_API bool th_weight_average_usable(const th_weight_average *a, const char *operation);
/* Adds parameters to the list that were added to the module. Errors: TH_ERROR_MEMORY. */
TH_PRIVATE_API th_status th_weight_average_complete_list(th_weight_average *a, const char *operation);
/* Returns the index of a parameter; -1 if the averages do not have it. The search begins at *hint, which is then set
 * behind the parameter. */
TH_PRIVATE_API int64_t th_weight_average_index(const th_weight_average *a, const th_tensor_impl *parameter,
                                               int64_t *hint);
/* Allocates memory for the average of a parameter, unless it has memory. Errors: TH_ERROR_MEMORY. */
TH_PRIVATE_API th_status th_weight_average_allocate(th_weight_average *a, int64_t index, const char *operation);
/* Ends the average of a parameter and releases its memory. */
void th_weight_average_forget(th_context *ctx, th_averaged_parameter *p);
/* Follows parameters that are cast or freed. */
extern const th_parameter_observer th_weight_average_observer;

#endif

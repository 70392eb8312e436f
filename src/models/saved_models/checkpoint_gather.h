/* Gathers the moments of the processes of a group, for the process that writes a checkpoint: rank 0. It has one moment at
 * a time. */
#ifndef TH_MODELS_SAVED_MODELS_CHECKPOINT_GATHER_H
#define TH_MODELS_SAVED_MODELS_CHECKPOINT_GATHER_H

#include "models/saved_models/checkpoint.h"

/* A moment of a parameter, or another tensor (training/saved_tensors.h). */
typedef struct th_saved_moment {
    int64_t parameter; /* index in the optimizer */
    int tensor;
    char name[TH_MOMENT_NAME_SIZE]; /* in the file */
} th_saved_moment;

typedef struct th_gathering {
    const th_optimizer *optimizer;
    th_group *group;
    const char *operation;
    char *buffer;         /* of rank 0: for the largest moment that it does not have alone; NULL if it has all alone */
    size_t buffer_bytes;  /* 0 without a buffer */
    th_message *received; /* of rank 0: [size of the group] */
} th_gathering;

/* Allocates what gathering these moments needs. TH_ERROR_MEMORY. Call th_gathering_end even after an error. */
th_status th_gathering_begin(th_gathering *g, const th_optimizer *o, const th_saved_moment *moments, int64_t count,
                             const char *operation);
/* Releases it. */
void th_gathering_end(th_gathering *g);

/* Continues a checksum of the parts of a moment: where each process's part begins and ends. */
uint32_t th_gathering_crc32c(const th_gathering *g, const th_saved_moment *m, uint32_t crc);

/* Collective: sends the parts of a moment to rank 0. There, sets *data to the whole moment, valid until the next call.
 * TH_ERROR_PROCESS. */
th_status th_gather_moment(const th_gathering *g, const th_saved_moment *m, void **data);

#endif

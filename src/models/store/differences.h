/* The differences between a file and what it is loaded into: each is told to whoever wants to hear of it, and all of
 * them become one error. */
#ifndef TH_MODELS_STORE_DIFFERENCES_H
#define TH_MODELS_STORE_DIFFERENCES_H

#include "tapehead/checkpoint.h"
#include "tensor/context.h"

typedef enum th_difference {
    TH_MISSING,
    TH_UNEXPECTED,
    TH_OTHER_SHAPE,
    TH_OTHER_TYPE,
    TH_OTHER_OPTION,
    TH_DIFFERENCES
} th_difference;

typedef struct th_differences {
    th_context *ctx;
    const char *operation, *path;
    th_report_function *report;
    void *user;
    int64_t found[TH_DIFFERENCES];
    char told[448]; /* those that have room, the first ones */
} th_differences;

void th_differ(th_differences *d, th_difference kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* TH_OK when there are none. Otherwise TH_ERROR_FILE with those that the sentence has room for and the numbers of
 * all. */
th_status th_differences_end(const th_differences *d);

#endif

/* Differences between a file and the model that it is loaded into. Each is reported to the caller's function, and
 * all of them become one error. */
#ifndef TH_MODELS_SAVED_MODELS_DIFFERENCES_H
#define TH_MODELS_SAVED_MODELS_DIFFERENCES_H

#include "tapehead/checkpoint.h"

typedef enum th_difference {
    TH_MISSING,
    TH_UNEXPECTED,
    TH_OTHER_SHAPE,
    TH_OTHER_TYPE,
    TH_OTHER_OPTION,
    TH_OTHER_VALUE,
    TH_DIFFERENCES
} th_difference;

typedef struct th_differences {
    th_context *ctx;
    const char *operation, *path;
    th_report_function *report;
    void *user;
    int64_t found[TH_DIFFERENCES];
    char list[448]; /* the first differences, as many as fit */
} th_differences;

/* Reports one difference. */
void th_report_difference(th_differences *d, th_difference kind, const char *format, ...) TH_FORMAT(3, 4);
/* Returns TH_OK without differences. Otherwise sets TH_ERROR_FILE with the first differences, as many as fit, and
 * the number of all. */
th_status th_differences_end(const th_differences *d);

#endif

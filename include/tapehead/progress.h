/* A progress line: rewritten in place on a terminal; elsewhere a plain line now and then. It is written only to the
 * FILE that the caller gives.
 *
 *     const th_progress_options options = {
 *         .file = stderr, .steps = 2000, .units_per_step = batch * length, .unit = "tokens"};
 *     th_progress *bar = th_progress_new(ctx, &options);
 *     ...
 *     th_progress_show(bar, "accuracy", accuracy);
 *     th_progress_update(bar, step, th_item(loss));
 *
 * shows:   step 1200/2000  60%  loss 0.0412  accuracy 0.998  1.3M tokens/s  0:02 left */
#ifndef TAPEHEAD_PROGRESS_H
#define TAPEHEAD_PROGRESS_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

typedef struct th_progress th_progress;

typedef struct th_progress_options {
    FILE *file;             /* required; the caller still closes it */
    int64_t steps;          /* the number of steps in all; 0: unknown */
    int64_t begin;          /* steps done before a resumed run; they do not count for the rate */
    int64_t units_per_step; /* 0: no rate is shown */
    const char *unit;       /* NULL: "samples" */
    /* Steps between two lines if the file is not a terminal; 0: twenty lines in all, or one every 100 steps if steps is
     * unknown. */
    int64_t plain_every;
} th_progress_options;

/* Creates a progress line, which belongs to the context. Returns NULL with the error pending: TH_ERROR_ARGUMENT without
 * a file or with negative numbers, TH_ERROR_MEMORY. */
TH_API th_progress *th_progress_new(th_context *ctx, const th_progress_options *options);
/* Shows a value beside the loss from now on, up to four of them. The same name again changes its value. This function
 * and those below accept NULL as bar and do nothing. */
TH_API void th_progress_show(th_progress *bar, const char *name, double value);
/* Shows that `step` (counted from 0) is done, on a terminal at most ten times a second. */
TH_API void th_progress_update(th_progress *bar, int64_t step, double loss);
/* Writes a line of text above the progress line. format has no newline at its end. */
TH_API void th_progress_note(th_progress *bar, const char *format, ...) TH_FORMAT(2, 3);
/* Ends the line with its last values, and frees the bar. TH_ERROR_FILE if a part could not be written. */
TH_API th_status th_progress_end(th_progress *bar);

#ifndef TAPEHEAD_NO_LOCATIONS
#define th_progress_new(...) TH_AT_POINTER(th_progress, th_progress_new(__VA_ARGS__))
#endif

TH_END_DECLS

#endif

/* A progress line: rewritten in place on a terminal, a plain line now and then elsewhere. Written to the FILE that the
 * caller gives, and nowhere else.
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
    FILE *file;             /* always given; stays the caller's */
    int64_t steps;          /* how many there will be; 0: unknown */
    int64_t begin;          /* how many were done before, in a run that was resumed: they took no time now */
    int64_t units_per_step; /* 0: no rate is shown */
    const char *unit;       /* NULL: "samples" */
    int64_t plain_every; /* where the file is no terminal, a line every so many steps; 0: twenty lines in all (every 100
                            steps when steps is unknown) */
} th_progress_options;

/* Belongs to the context. NULL with the error stored: no file, negative numbers, TH_ERROR_MEMORY. */
TH_API th_progress *th_progress_new(th_context *ctx, const th_progress_options *options);
/* A figure to show from now on beside the loss, up to four; the same name again changes its value. NULL bars are fine
 * in all of these. */
TH_API void th_progress_show(th_progress *bar, const char *name, double value);
/* `step` (counted from 0) is done. On a terminal at most ten times a second. */
TH_API void th_progress_update(th_progress *bar, int64_t step, double loss);
/* A line of text above the progress line, without a final newline. */
TH_API void th_progress_note(th_progress *bar, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the line, with the last figures on it, and frees the bar. TH_ERROR_FILE when something could not be written. */
TH_API th_status th_progress_end(th_progress *bar);

#ifndef TAPEHEAD_NO_LOCATIONS
#define th_progress_new(...) TH_AT_POINTER(th_progress, th_progress_new(__VA_ARGS__))
#endif

TH_END_DECLS

#endif

/* What a run tells while it trains: logs, curves, samples, the progress line. Nothing here changes what is learned. */
#ifndef EXAMPLES_LANGUAGE_MODEL_REPORT_H
#define EXAMPLES_LANGUAGE_MODEL_REPORT_H

#include <tapehead/tapehead.h>

typedef struct report {
    th_context *ctx;
    th_json_log *log;
    th_event_log *events;
    th_progress *bar; /* NULL: quiet */
    double begin;     /* seconds, by a clock of its own */
    double seconds;   /* when the last line of the log was written, later by all pauses since, */
    int64_t step;     /* and what the step was */
    double pause;     /* when the last pause began */
} report;

/* RUN/NAME, in memory that the next three calls leave alone (run.c). */
const char *in_run(const char *run, const char *name);
/* The path as a word of a command line: "./-x" instead of "-x", which would be an option. In the same memory as in_run. */
const char *as_word(const char *path);
/* Creates a file in the run, or in its folder `within`, in place of an old one. Returns NULL with errno. It follows no
 * link in the run, so that files of an untrusted run stay in its folder. */
FILE *create_in_run(const char *run, const char *within, const char *name);

/* Opens the logs in the folder of the run; resuming, they go on behind `step`. */
th_status report_open(report *r, th_context *ctx, const char *run, bool resume, int64_t step, bool quiet);
/* A step of the optimizer is done. */
th_status report_step(report *r, const th_optimizer *optimizer, double loss);
/* In between no time passes for the tokens per second. */
void report_pause(report *r);
void report_go_on(report *r);
/* The model was evaluated: into the logs, and the curves anew. */
th_status report_evaluation(report *r, const char *run, int64_t step, double loss);
/* What the model writes now: into the logs and RUN/samples. */
th_status report_sample(report *r, const char *run, int64_t step, th_module *model, th_tokenizer *tokenizer);
/* Prints how the validation loss in the log changed from the start to the end, and what to change if it became
 * worse. */
th_status report_progress(th_context *ctx, const char *run);
/* *seconds: since report_open. */
th_status report_close(report *r, double *seconds);

#endif

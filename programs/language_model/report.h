/* Reports of a training run: logs, curves, samples and the progress line. Reports do not affect the training. */
#ifndef EXAMPLES_LANGUAGE_MODEL_REPORT_H
#define EXAMPLES_LANGUAGE_MODEL_REPORT_H

#include <tapehead/models.h>

#include "shared/run_folder.h"

typedef struct report {
    th_context *ctx;
    th_json_log *log;
    th_event_log *events;
    th_progress *bar;    /* NULL: quiet */
    double start_time;   /* the time of report_open, in seconds of a monotonic clock */
    double log_time;     /* the time of the last line in the log, plus all pauses since then */
    int64_t logged_step; /* the step of that line */
    double pause_start;  /* the time when the last pause began */
    /* Samples answer the prompt of a validation example, and the token of its end ends them. */
    th_token_list question; /* empty: samples continue --prompt, or a new line */
    int64_t answer_end;     /* -1: none */
} report;

/* Opens the logs in the folder of the run. resume: appends to them after `step`. */
th_status report_open(report *r, th_context *ctx, const char *run, bool resume, int64_t step, bool quiet);
/* Reports a step of the optimizer. */
th_status report_step(report *r, const th_optimizer *optimizer);
/* Pauses the clock of the tokens per second. */
void report_pause(report *r);
/* Continues the clock. */
void report_resume(report *r);
/* Reports a validation loss in the logs, and draws the curves again. */
th_status report_evaluation(report *r, const char *run, int64_t step, double loss);
/* Generates a sample, and writes it into the logs and RUN/samples. */
th_status report_sample(report *r, const char *run, int64_t step, th_module *model, th_tokenizer *tokenizer);
/* Prints the first and the last validation loss in the log, and advice if the loss has increased. */
th_status report_progress(th_context *ctx, const char *run);
/* Closes the logs. Sets *seconds to the time since report_open. */
th_status report_close(report *r, double *seconds);

#endif

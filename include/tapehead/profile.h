/* A profile: where the time of some steps went, by operation, and when each operation ran.
 *
 *     th_profile_begin(ctx, NULL);
 *     for (int step = 0; step < 10; step++)
 *         train(model, optimizer);
 *     if (th_profile_end(ctx) || th_profile_print(ctx, stdout) || th_profile_write_trace(ctx, "trace.json"))
 *         puts(th_error_message(ctx));
 *
 * It counts the driver's calls of an operation's forward and backward, forwards that backward runs again
 * (recomputation), sums of gradients that the driver takes itself, and the optimizer's steps. What is left, making
 * handles, recording, zero filling and the program's own work, is the time outside operations. Views run nothing and
 * are not counted. While no profile runs it costs one branch a call; while one runs, two readings of the clock and a
 * record, whose memory is the context's and stays until th_profile_free or th_context_free.
 *
 * In a shapes-only context no kernel runs: calls and multiply-adds are counted, times and bytes are 0. */
#ifndef TAPEHEAD_PROFILE_H
#define TAPEHEAD_PROFILE_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

typedef enum th_profile_phase {
    TH_PROFILE_FORWARD,
    TH_PROFILE_BACKWARD,
    TH_PROFILE_RECOMPUTE, /* a forward that backward runs once more, because its result was not kept */
    TH_PROFILE_STEP,      /* of an optimizer */
    TH_PROFILE_PHASE_COUNT
} th_profile_phase;
/* "forward", "backward", "recompute", "step"; "?" for a value that is no phase. */
TH_API const char *th_profile_phase_name(th_profile_phase phase);

typedef struct th_profile_options {
    int64_t max_events; /* events kept for the trace, the first ones; 0: 262144 (80 bytes each). Later ones are counted
                           in the table, but not kept. -1: none */
} th_profile_options;

/* Starts a profile; the one before it is forgotten. options may be NULL. TH_ERROR_STATE while one runs,
 * TH_ERROR_ARGUMENT, TH_ERROR_MEMORY. */
TH_API th_status th_profile_begin(th_context *ctx, const th_profile_options *options) TH_MUST_CHECK;
/* Ends it, also with an error pending, which is returned. TH_ERROR_STATE when none runs; TH_ERROR_MEMORY when memory
 * for the table ran out meanwhile (a part of the time then counts as outside operations). */
TH_API th_status th_profile_end(th_context *ctx) TH_MUST_CHECK;
/* Gives the memory of the profile back, ended or not. Without one it does nothing. */
TH_API void th_profile_free(th_context *ctx);

/* -- reading: while a profile runs and, until the next begins, after it has ended -- */
/* All calls of one operation in one phase. */
typedef struct th_profile_entry {
    const char *operation; /* "dense"; "gradient sum" for the driver's own; an optimizer's: "adam_w". Valid until the
                              next th_profile_begin or th_profile_free */
    th_profile_phase phase;
    int64_t calls;
    double milliseconds;
    double share;          /* of the whole time, 0 .. 1 */
    int64_t multiply_adds; /* as the operation states them for its value; the gradients of its first two inputs count as
                              many each. 0 where it states none */
    double gflops;         /* 1e9 floating-point operations a second: 2 multiply_adds / time */
    int64_t bytes;         /* of all operands, read and written, as if each was touched once */
} th_profile_entry;
/* The number of entries; 0 without a profile. */
TH_API int64_t th_profile_count(const th_context *ctx);
/* Entry `index` in the order of falling time. TH_ERROR_INDEX outside [0, th_profile_count). */
TH_API th_status th_profile_entry_at(th_context *ctx, int64_t index, th_profile_entry *entry) TH_MUST_CHECK;

typedef struct th_profile_total {
    double milliseconds; /* from begin to end (to now, while it runs), less the overhead */
    double operations;   /* of these, in entries */
    double outside;      /* and outside them */
    double overhead;     /* what the profile itself took */
    int64_t calls, multiply_adds;
    int64_t events, dropped; /* events kept for the trace, and not kept */
} th_profile_total;
/* All zeros without a profile. */
TH_API th_profile_total th_profile_sum(const th_context *ctx);

/* The entries as a table, then the totals. TH_ERROR_STATE without a profile, TH_ERROR_FILE when the file cannot be
 * written. */
TH_API th_status th_profile_print(th_context *ctx, FILE *file) TH_MUST_CHECK;
/* Every event with its time, operand shapes, module path and source line, in the JSON that https://ui.perfetto.dev and
 * chrome://tracing open. Errors as th_profile_print. */
TH_API th_status th_profile_write_trace(th_context *ctx, const char *path) TH_MUST_CHECK;
/* The same to a stream opened for writing, which is flushed. */
TH_API th_status th_profile_write_trace_to(th_context *ctx, FILE *file) TH_MUST_CHECK;

#ifndef TAPEHEAD_NO_LOCATIONS
#define th_profile_begin(...) TH_AT_STATUS(th_profile_begin(__VA_ARGS__))
#define th_profile_end(...) TH_AT_STATUS(th_profile_end(__VA_ARGS__))
#define th_profile_entry_at(...) TH_AT_STATUS(th_profile_entry_at(__VA_ARGS__))
#define th_profile_print(...) TH_AT_STATUS(th_profile_print(__VA_ARGS__))
#define th_profile_write_trace(...) TH_AT_STATUS(th_profile_write_trace(__VA_ARGS__))
#define th_profile_write_trace_to(...) TH_AT_STATUS(th_profile_write_trace_to(__VA_ARGS__))
#endif

TH_END_DECLS

#endif

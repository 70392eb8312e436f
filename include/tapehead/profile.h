/* A profile: the time of some steps by operation, and when each operation ran.
 *
 *     th_profile_begin(ctx, NULL);
 *     for (int step = 0; step < 10; step++)
 *         train(model, optimizer);
 *     if (th_profile_end(ctx) || th_profile_print(ctx, stdout) || th_profile_write_trace(ctx, "trace.json"))
 *         puts(th_error_message(ctx));
 *
 * It measures each forward and backward of an operation, each forward that backward runs again (recomputation), sums
 * of gradients by the driver, and the optimizer's steps. All other time is outside operations: creating handles,
 * recording, zero filling, and the program's own work. Views run no kernel and are not counted.
 *
 * Without a profile the cost is one branch per call. With a profile it is two clock readings and a record per call.
 * The records are memory of the context until th_profile_free or th_context_free.
 *
 * In a shapes-only context no kernel runs: calls and multiply-adds are counted, and times and bytes are 0. */
#ifndef TAPEHEAD_PROFILE_H
#define TAPEHEAD_PROFILE_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

typedef enum th_profile_phase {
    TH_PROFILE_FORWARD,
    TH_PROFILE_BACKWARD,
    TH_PROFILE_RECOMPUTE, /* a forward that backward runs again, because its result was not saved */
    TH_PROFILE_STEP,      /* an optimizer's step, without its exchanges */
    TH_PROFILE_EXCHANGE,  /* messages between the processes of a group, and the time that this process waits for them */
    TH_PROFILE_PHASE_COUNT
} th_profile_phase;
/* Returns "forward", "backward", "recompute", "step" or "exchange"; "?" for any other value. */
TH_API const char *th_profile_phase_name(th_profile_phase phase);

typedef struct th_profile_options {
    int64_t max_events; /* events stored for the trace; 0: 262144 (80 bytes each); -1: none. Later events are counted in
                           the table only */
} th_profile_options;

/* Starts a profile and deletes the previous one. options may be NULL. TH_ERROR_STATE if one is running,
 * TH_ERROR_ARGUMENT, TH_ERROR_MEMORY. */
TH_API th_status th_profile_begin(th_context *ctx, const th_profile_options *options) TH_MUST_CHECK;
/* Ends the profile, also with a pending error, which it returns. TH_ERROR_STATE if none is running. TH_ERROR_MEMORY if
 * memory for the table ran out: the time of the missing entries then counts as outside operations. */
TH_API th_status th_profile_end(th_context *ctx) TH_MUST_CHECK;
/* Frees the profile, running or not. Does nothing without one. */
TH_API void th_profile_free(th_context *ctx);

/* -- reading: while a profile is running, and afterwards until the next one begins -- */
/* The sums of all calls of one operation in one phase. */
typedef struct th_profile_entry {
    const char *operation; /* such as "dense"; "gradient sum" for sums by the driver; "adam_w" for an optimizer. Valid
                              until the next th_profile_begin or th_profile_free */
    th_profile_phase phase;
    int64_t calls;
    double milliseconds;
    double share; /* of the total time, 0 .. 1 */
    /* Of th_op.multiply_adds for the value, and as many for the gradient of each of the first two inputs. 0 without
     * th_op.multiply_adds. */
    int64_t multiply_adds;
    double gflops; /* 1e9 floating-point operations a second: 2 multiply_adds / time */
    int64_t bytes; /* of all operands, each counted once as read or written */
} th_profile_entry;
/* Returns the number of entries; 0 without a profile. */
TH_API int64_t th_profile_count(const th_context *ctx);
/* Sets *entry to entry `index` in the order of decreasing time. TH_ERROR_INDEX outside [0, th_profile_count). */
TH_API th_status th_profile_entry_at(th_context *ctx, int64_t index, th_profile_entry *entry) TH_MUST_CHECK;

typedef struct th_profile_total {
    double milliseconds; /* from begin to end (or to now, if it is running), without the overhead */
    double operations;   /* the part in entries */
    double outside;      /* the part outside operations */
    double overhead;     /* the time of profiling itself */
    int64_t calls, multiply_adds;
    int64_t events, dropped; /* events stored for the trace, and events not stored */
} th_profile_total;
/* Returns the totals; all zeros without a profile. */
TH_API th_profile_total th_profile_sum(const th_context *ctx);

/* Prints the entries as a table, then the totals. TH_ERROR_STATE without a profile, TH_ERROR_FILE if writing fails. */
TH_API th_status th_profile_print(th_context *ctx, FILE *file) TH_MUST_CHECK;
/* Writes every event with its time, operand shapes, module path and source line, as JSON for https://ui.perfetto.dev
 * and chrome://tracing. Errors as th_profile_print. */
TH_API th_status th_profile_write_trace(th_context *ctx, const char *path) TH_MUST_CHECK;
/* As th_profile_write_trace, to a stream that is open for writing, which it flushes. */
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

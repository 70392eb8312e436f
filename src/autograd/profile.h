/* The profile as the library uses it: the driver reports its calls here, and writers (io/profile_trace.c) read the
 * events. profile_table.h defines what is stored. */
#ifndef TH_AUTOGRAD_PROFILE_H
#define TH_AUTOGRAD_PROFILE_H

#include "autograd/frame.h"
#include "autograd/profile_table.h"
#include "platform/system.h"

typedef struct th_profile {
    int64_t begin, end; /* of th_nanoseconds_now */
    int64_t overhead;   /* nanoseconds that recording took */
    th_profile_table table;
} th_profile;

/* -- reporting: start = th_profile_start(ctx); work; if (start) th_profile_...(..., start) -- */

/* Returns the time, or 0 if no profile is running: then nothing needs to be reported. */
static inline int64_t th_profile_start(const th_context *ctx)
{
    return ctx->profiling ? th_nanoseconds_now() : 0;
}
/* Reports a call of the frame's operation. */
void th_profile_call(const th_frame *frame, bool backward, int64_t start);
/* Reports a sum of gradients by the driver, during the frame's call: it read `from` and wrote `to`. */
void th_profile_gradient_sum(const th_frame *frame, const th_array *from, const th_array *to, bool add, int64_t start);
/* Reports an optimizer's step; operation: "adam_w". exchange_time: nanoseconds of its exchanges, which are reported
 * separately. */
void th_profile_step(th_context *ctx, const char *operation, int64_t start, int64_t exchange_time);
/* Reports an exchange of messages for an operation: "optimizer_step". bytes: sent and received. */
void th_profile_exchange(th_context *ctx, const char *operation, int64_t bytes, int64_t start);

/* -- reading -- */
/* Returns false with an error pending: TH_ERROR_STATE without a profile. */
bool th_profile_readable(th_context *ctx, const char *operation);
int64_t th_profile_event_count(const th_context *ctx);
const th_profile_event *th_profile_event_at(const th_context *ctx, int64_t index);

#endif

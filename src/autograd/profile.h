/* The profile from inside: what the driver tells it, and the events that a trace is written from. */
#ifndef TH_AUTOGRAD_PROFILE_H
#define TH_AUTOGRAD_PROFILE_H

#include "autograd/frame.h"
#include "tapehead/profile.h"

/* The geometry of one operand. All bytes count, padding too: equal ones are kept once. */
typedef struct th_profile_shape {
    int64_t size[TH_MAX_DIMS];
    char axes[TH_MAX_DIMS + 1];
    bool given, output;
    uint8_t dtype, ndim;
} th_profile_shape;

/* One call. Everything it points to is the profile's own: the tape may be gone. */
typedef struct th_profile_event {
    const char *operation, *path, *file; /* path "" at the top; file NULL when unknown */
    const th_profile_shape *shape;       /* [n_shapes]: inputs, then outputs */
    int n_shapes, line;
    th_profile_phase phase;
    int64_t start, duration; /* nanoseconds, start since the profile's */
    int64_t multiply_adds;
} th_profile_event;

/* -- for those who do the work: start = th_profile_start(ctx); work; th_profile_...(..., start) -- */

int64_t th_profile_now(void); /* nanoseconds of a clock that never goes back */
/* 0 while no profile runs: then there is nothing to tell at the end. */
static inline int64_t th_profile_start(const th_context *ctx)
{
    return ctx->profiling ? th_profile_now() : 0;
}
/* The call of the frame's operation has run since start. */
void th_profile_call(const th_frame *frame, bool backward, int64_t start);
/* Work on the frame's operands that is no operation: from and to are what it read and wrote. */
void th_profile_sum_of(const th_frame *frame, const th_array *from, const th_array *to, bool add, int64_t start);
/* A step of an optimizer; operation: "adam_w". */
void th_profile_step(th_context *ctx, const char *operation, int64_t start);

/* -- for writers -- */
/* False, with TH_ERROR_STATE, when there is no profile (or an error is pending). */
bool th_profile_readable(th_context *ctx, const char *operation);
int64_t th_profile_event_count(const th_context *ctx);
const th_profile_event *th_profile_event_at(const th_context *ctx, int64_t index);

#endif

/* An operation between guards: a copy of an operation whose kernels run twice, in the checker's memory. A finding is a
 * kernel's mistake that a comparison of gradients would not show: see th_check_op. */
#ifndef TH_CHECKER_CHECK_OP_GUARD_H
#define TH_CHECKER_CHECK_OP_GUARD_H

#include "autograd/frame.h"

enum {
    TH_FINDING_TEXT = 400,
    TH_MAX_READ = TH_MAX_SAMPLE_INPUTS + 2 * TH_MAX_OUTPUTS,
    TH_MAX_GUARDED = TH_MAX_SAMPLE_INPUTS + TH_MAX_OUTPUTS,
    TH_MAX_PLANS = 4
};

/* An array that a kernel may write, and its memory during a run. */
typedef struct th_guarded {
    th_array *array;          /* the call's */
    th_array original;        /* as the driver passed it */
    th_array *same;           /* an array in the same memory (TH_OP_IN_PLACE, TH_OP_OVER_INPUT), or NULL */
    bool holds;               /* the kernel may read its values */
    unsigned char *wall;      /* [wall_bytes]: the elements, and memory that the kernel must not change */
    unsigned char *element;   /* the first element, within wall */
    unsigned char *result[2]; /* [bytes]: the elements after either run, contiguous */
    size_t wall_bytes, bytes;
} th_guarded;

typedef struct th_guard {
    th_op op; /* first, so that a call's op is also its guard */
    const th_op *original;
    char finding[TH_FINDING_TEXT];  /* the first mistake of a kernel, or "" */
    th_scratch_map map;             /* of the last plan */
    int plans;                      /* plans made so far */
    uint64_t planned[TH_MAX_PLANS]; /* bytes that the first plans reserved */
    th_guarded guarded[TH_MAX_GUARDED];
    int count;
    unsigned char *memory; /* [memory_bytes]: walls and results, then values of unsaved operands */
    unsigned char *unsaved[2];
    size_t memory_bytes, unsaved_bytes;
} th_guard;

/* guard->op is op with its kernels guarded. (A view has no kernel.) */
void th_guard_init(th_guard *guard, const th_op *op);
void th_guard_free(th_guard *guard, th_context *ctx);

#endif

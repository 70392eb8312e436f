/* An operation between guards: the same operation, whose kernels run in memory of the checker's, each of them twice.
 * What a kernel does there that no comparison of gradients would show is the guard's finding: see th_check_op. */
#ifndef TH_CHECKER_CHECK_OP_GUARD_H
#define TH_CHECKER_CHECK_OP_GUARD_H

#include "autograd/frame.h"

enum {
    TH_FINDING_TEXT = 400,
    TH_MAX_READ = TH_MAX_SAMPLE_INPUTS + 2 * TH_MAX_OUTPUTS,
    TH_MAX_GUARDED = TH_MAX_SAMPLE_INPUTS + TH_MAX_OUTPUTS,
    TH_MAX_PLANS = 4
};

/* An array that a kernel may write, and where it lies meanwhile. */
typedef struct th_guarded {
    th_array *array;          /* the call's */
    th_array original;        /* where the driver wants it */
    th_array *same;           /* an array in the same memory (TH_OP_IN_PLACE, TH_OP_OVER_INPUT), or NULL */
    bool holds;               /* its values count before the kernel runs */
    unsigned char *wall;      /* [wall_bytes]: the elements, and memory around and between them to be left alone */
    unsigned char *element;   /* the first element, in there */
    unsigned char *result[2]; /* [bytes]: the elements after either run, contiguous */
    size_t wall_bytes, bytes;
} th_guarded;

typedef struct th_guard {
    th_op op; /* first: a call leads from there to its guard */
    const th_op *original;
    char finding[TH_FINDING_TEXT];  /* the first thing that a kernel did wrong; "": none */
    th_scratch_map map;             /* of the last plan */
    int plans;                      /* plans made so far; of the first ones: */
    uint64_t planned[TH_MAX_PLANS]; /* the bytes that they reserved */
    th_guarded guarded[TH_MAX_GUARDED];
    int count;
    unsigned char *memory; /* [memory_bytes]: walls and results, then what takes the place of unsaved operands */
    unsigned char *unsaved[2];
    size_t memory_bytes, unsaved_bytes;
} th_guard;

/* guard->op is op with its kernels guarded. (A view has no kernel.) */
void th_guard_init(th_guard *guard, const th_op *op);
void th_guard_free(th_guard *guard, th_context *ctx);

#endif

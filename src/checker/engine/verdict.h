/* The verdict on one derivative: right, wrong, or cannot tell. */
#ifndef TH_CHECKER_ENGINE_VERDICT_H
#define TH_CHECKER_ENGINE_VERDICT_H

#include "checker/engine/quotients.h"

typedef enum th_verdict_kind {
    TH_NO_VERDICT, /* not compared, or more steps are needed; in a finding: there is nothing to report */
    TH_RIGHT,
    TH_WRONG,
    TH_CANNOT_TELL
} th_verdict_kind;

/* Why the check cannot tell. */
typedef enum th_reason {
    TH_REASON_OTHER,
    TH_REASON_NOT_A_NUMBER,
    TH_REASON_ROUNDING,
    TH_REASON_KINK,
    TH_REASON_JUMP,
    TH_REASON_PLATEAUS,
    TH_REASON_FLOAT32
} th_reason;

typedef struct th_verdict {
    th_verdict_kind kind;
    double numeric, error; /* the best difference quotient, and its uncertainty */
    th_reason reason;
    double below, above; /* at a kink: the slopes on both sides */
} th_verdict;

/* Compares analytic derivatives with difference quotients, line by line. */
typedef struct th_comparison {
    th_quotients quotients;
    double *memory;         /* of the verdicts */
    th_verdict *verdict;    /* [quotients.count]: of the last line */
    int64_t doubtful_lines; /* so far: with a derivative that the check cannot tell */
} th_comparison;

/* Prepares comparisons of `count` derivatives for each line; cotangent: see th_quotients. Returns false with the error
 * pending. Call th_comparison_free in either case. */
bool th_comparison_init(th_comparison *comparison, th_engine *engine, const double *cotangent, int64_t count);
void th_comparison_free(th_comparison *comparison);
/* Compares analytic[0], analytic[stride], ... with the difference quotients along a line, and writes
 * comparison->verdict. Returns false if a run failed. */
bool th_compare_line(th_comparison *comparison, const th_line *line, const double *analytic, int64_t stride);

#endif

/* Finds a wrong element among very many. */
#ifndef TH_CHECKER_ENGINE_SEARCH_H
#define TH_CHECKER_ENGINE_SEARCH_H

#include "checker/engine/engine.h"

/* A direction moves at most this many elements. */
enum { TH_SEARCH_BLOCK = 1 << 20 };

/* The arrays of a search through one variable. */
typedef struct th_search {
    th_variable *variable;
    const double *cotangent;   /* [rows] */
    const double *gradient;    /* [numel]: analytic, under the cotangent */
    double *start, *direction; /* [numel] */
    double *above, *below;     /* [rows]: outputs */
    double largest_derivative; /* of gradient */
    bool incomplete;           /* in some range, an output or a gradient is not finite, so nothing was compared */
} th_search;

/* Looks for an element whose derivative is probably wrong: where the outputs' change along a random direction disagrees
 * with the gradients, it halves the elements. Sets *element, or -1 if all directions agree. The caller compares that
 * element. Returns false if a run failed. */
bool th_search_element(th_engine *engine, th_search *search, int64_t *element);
/* Returns the probability that one search misses a mistake in one element, of at least twice the error of a range. Such a
 * mistake is missed if rounding exceeds four standard deviations when the range, or one of the halves, is compared. */
double th_search_missed_probability(const th_search *search);

#endif

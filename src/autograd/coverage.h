/* Which parts of a gradient have been written. The gradient of a view is a view of its base's gradient: several views
 * write their parts of one memory, in any order, and only what none of them covers has to be filled with zeros. */
#ifndef TH_AUTOGRAD_COVERAGE_H
#define TH_AUTOGRAD_COVERAGE_H

#include "tensor/tensor.h"

/* A set of elements of a dense memory: offset + sum of i_d stride_d, i_d < size_d; strides are positive and fall, each
 * leads past all that those behind it reach, dimensions that continue each other are one. */
typedef struct th_region {
    struct th_region *next;
    int ndim;
    int64_t size[TH_MAX_DIMS], stride[TH_MAX_DIMS]; /* elements */
    int64_t offset, numel;
} th_region;

typedef enum th_relation { TH_DISJOINT, TH_INSIDE, TH_OVERLAPS } th_relation;

/* The region that t's gradient takes in its root's. */
th_region th_region_of(const th_tensor_impl *t);
/* How b lies to a: wholly outside, wholly inside, or anything else (also when that is not known). */
th_relation th_region_relation(const th_region *a, const th_region *b);
/* Fills what the list does not cover of n elements at data with zero bytes. */
void th_fill_uncovered(const th_region *covered, void *data, int64_t n, size_t element);

#endif

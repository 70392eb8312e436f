/* Regions of a gradient buffer: the elements that one view's gradient writes. The functions compare two regions, and
 * write zeros outside all regions. gradient.c records the written regions of a buffer; backward.c compares those of
 * one node. */
#ifndef TH_AUTOGRAD_COVERAGE_H
#define TH_AUTOGRAD_COVERAGE_H

#include "tensor/tensor.h"

/* The elements offset + sum of i_d stride_d, 0 <= i_d < size_d, of a contiguous buffer. Strides are positive and
 * decrease. Neighboring dimensions are merged where possible. */
typedef struct th_region {
    struct th_region *next;
    int ndim;
    int64_t size[TH_MAX_DIMS], stride[TH_MAX_DIMS]; /* elements */
    int64_t offset, numel;
} th_region;

typedef enum th_relation { TH_DISJOINT, TH_INSIDE, TH_OVERLAPS } th_relation;

/* Returns the region of t's gradient in its root's buffer. */
th_region th_region_of(const th_tensor_impl *t);
/* Returns whether b is disjoint from a or inside a. TH_OVERLAPS: neither, or the strides are too irregular to tell. */
th_relation th_region_relation(const th_region *a, const th_region *b);
/* Sets to zero the elements of data [n] that are outside all regions of the list. */
void th_zero_uncovered(const th_region *covered, void *data, int64_t n, size_t element);

#endif

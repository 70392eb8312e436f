/* Compares regions of a gradient buffer: see coverage.h. */
#include "autograd/coverage.h"

#include <string.h>

#include "tensor/shape.h"

th_region th_region_of(const th_tensor_impl *t)
{
    th_region region = {.offset = t->gradient_view.offset, .numel = th_tensor_numel(t)};
    for (int d = 0; d < t->ndim && region.numel > 0; d++) {
        int64_t stride = t->gradient_view.stride[d];
        if (t->size[d] == 1)
            continue;
        if (stride < 0) { /* the same elements from the other end */
            region.offset += (t->size[d] - 1) * stride;
            stride = -stride;
        }
        region.size[region.ndim] = t->size[d];
        region.stride[region.ndim++] = stride;
    }
    int64_t *const stride = region.stride;
    th_sort_dimensions(region.ndim, region.size, 1, &stride);
    region.ndim = th_merge_dimensions(region.ndim, region.size, 1, &stride);
    return region;
}

/* All strides of two regions a and b, and the size of each region along each stride (1 if the region lacks it). A
 * distance in the buffer is written as a number with these strides as place values: one digit for each stride. */
typedef struct digits {
    int count;
    int64_t stride[2 * TH_MAX_DIMS], size[2][2 * TH_MAX_DIMS];
} digits;

static digits common_digits(const th_region *a, const th_region *b)
{
    digits common = {.count = 0};
    for (int i = 0, j = 0; i < a->ndim || j < b->ndim; common.count++) {
        const int64_t sa = i < a->ndim ? a->stride[i] : 0, sb = j < b->ndim ? b->stride[j] : 0;
        const int64_t stride = sa > sb ? sa : sb;
        common.stride[common.count] = stride;
        common.size[0][common.count] = sa == stride ? a->size[i++] : 1;
        common.size[1][common.count] = sb == stride ? b->size[j++] : 1;
    }
    return common;
}

/* Writes the distance between the two offsets in digits. For each digit, the region with the smaller offset occupies 0
 * .. low - 1, and the other one shift .. shift + high - 1. The regions are disjoint if they are disjoint in one digit.
 * One is inside the other if it is inside in all digits. This holds while no digit carries into the one before. */
th_relation th_region_relation(const th_region *a, const th_region *b)
{
    if (a->numel == 0 || b->numel == 0)
        return TH_DISJOINT;
    const bool swapped = b->offset < a->offset;
    const digits common = swapped ? common_digits(b, a) : common_digits(a, b);
    int64_t distance = swapped ? a->offset - b->offset : b->offset - a->offset;
    bool disjoint = false, inside = !swapped;
    int64_t limit = INT64_MAX; /* a larger digit would carry */
    for (int d = 0; d < common.count; d++) {
        const int64_t stride = common.stride[d], shift = distance / stride;
        const int64_t low = common.size[0][d], high = common.size[1][d];
        if (low > limit || shift + high > limit)
            return TH_OVERLAPS;
        disjoint |= shift >= low;
        inside &= shift + high <= low;
        distance -= shift * stride;
        if (d + 1 < common.count && stride % common.stride[d + 1] != 0)
            return TH_OVERLAPS;
        limit = d + 1 < common.count ? stride / common.stride[d + 1] : limit;
    }
    if (distance != 0 || disjoint) /* distance < the smallest stride: no element of a is one of b */
        return TH_DISJOINT;
    return inside ? TH_INSIDE : TH_OVERLAPS;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t remainder = a % b;
        a = b;
        b = remainder;
    }
    return a;
}

/* Returns the largest number of elements such that every aligned run of this length is in a region or outside it. */
static int64_t common_run_length(const th_region *covered, int64_t n)
{
    int64_t length = n;
    for (const th_region *region = covered; region; region = region->next) {
        const int inner = region->ndim - 1;
        const bool dense = inner >= 0 && region->stride[inner] == 1;
        length = common_divisor(length, dense ? region->size[inner] : 1);
        length = common_divisor(length, region->offset);
        for (int d = 0; d < region->ndim - dense; d++)
            length = common_divisor(length, region->stride[d]);
    }
    return length;
}

static bool contains(const th_region *region, int64_t position)
{
    int64_t distance = position - region->offset;
    if (distance < 0 || region->numel == 0)
        return false;
    for (int d = 0; d < region->ndim; d++) {
        const int64_t digit = distance / region->stride[d];
        if (digit >= region->size[d])
            return false;
        distance -= digit * region->stride[d];
    }
    return distance == 0;
}

void th_zero_uncovered(const th_region *covered, void *data, int64_t n, size_t element)
{
    if (data == NULL || n == 0)
        return;
    if (covered == NULL) {
        memset(data, 0, (size_t)n * element);
        return;
    }
    const int64_t length = common_run_length(covered, n);
    for (int64_t position = 0; position < n; position += length) {
        bool found = false;
        for (const th_region *region = covered; region && !found; region = region->next)
            found = contains(region, position);
        if (!found)
            memset((char *)data + (size_t)position * element, 0, (size_t)length * element);
    }
}

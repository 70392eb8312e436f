/* Comparisons of every element type, generated from the list of types, and logical kernels. */
#include "kernels/elementwise/compare.h"

/* Defines one function for each type: y[i] = a[i] op b[i]. */
#define COMPARE(function, type, op)                                                                                    \
    static void function(int64_t n, void *const *operands, const void *parameters)                                     \
    {                                                                                                                  \
        (void)parameters;                                                                                              \
        bool *y = operands[0];                                                                                         \
        const type *a = operands[1], *b = operands[2];                                                                 \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i] = a[i] op b[i];                                                                                       \
    }

#define COMPARISONS(dtype, text, type)                                                                                 \
    COMPARE(equal_##dtype, type, ==)                                                                                   \
    COMPARE(not_equal_##dtype, type, !=)                                                                               \
    COMPARE(less_##dtype, type, <)                                                                                     \
    COMPARE(less_equal_##dtype, type, <=)                                                                              \
    COMPARE(greater_##dtype, type, >)                                                                                  \
    COMPARE(greater_equal_##dtype, type, >=)
TH_DTYPES(COMPARISONS)

#define EQUAL(dtype, text, type) [dtype] = equal_##dtype,
#define NOT_EQUAL(dtype, text, type) [dtype] = not_equal_##dtype,
#define LESS(dtype, text, type) [dtype] = less_##dtype,
#define LESS_EQUAL(dtype, text, type) [dtype] = less_equal_##dtype,
#define GREATER(dtype, text, type) [dtype] = greater_##dtype,
#define GREATER_EQUAL(dtype, text, type) [dtype] = greater_equal_##dtype,
th_elementwise_by_dtype th_compare_equal = {TH_DTYPES(EQUAL)};
th_elementwise_by_dtype th_compare_not_equal = {TH_DTYPES(NOT_EQUAL)};
th_elementwise_by_dtype th_compare_less = {TH_DTYPES(LESS)};
th_elementwise_by_dtype th_compare_less_equal = {TH_DTYPES(LESS_EQUAL)};
th_elementwise_by_dtype th_compare_greater = {TH_DTYPES(GREATER)};
th_elementwise_by_dtype th_compare_greater_equal = {TH_DTYPES(GREATER_EQUAL)};

COMPARE(logical_and, bool, &)
COMPARE(logical_or, bool, |)

static void logical_not(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    bool *y = operands[0];
    const bool *a = operands[1];
    for (int64_t i = 0; i < n; i++)
        y[i] = !a[i];
}

th_elementwise_by_dtype th_logical_and_kernels = {[TH_BOOL] = logical_and};
th_elementwise_by_dtype th_logical_or_kernels = {[TH_BOOL] = logical_or};
th_elementwise_by_dtype th_logical_not_kernels = {[TH_BOOL] = logical_not};

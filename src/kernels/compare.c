/* Comparisons of every element type, made from the list of types, and logical maps. */
#include "kernels/compare.h"

/* One function per type: y[i] = a[i] op b[i]. */
#define COMPARE(function, type, op)                                                                                    \
    static void function(int64_t n, void *const *operands, const void *parameters)                                     \
    {                                                                                                                  \
        (void)parameters;                                                                                              \
        bool *y = operands[0];                                                                                         \
        const type *a = operands[1], *b = operands[2];                                                                 \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i] = a[i] op b[i];                                                                                       \
    }

#define EQUAL(name, text, type) COMPARE(equal_##name, type, ==)
#define NOT_EQUAL(name, text, type) COMPARE(not_equal_##name, type, !=)
#define LESS(name, text, type) COMPARE(less_##name, type, <)
#define LESS_EQUAL(name, text, type) COMPARE(less_equal_##name, type, <=)
TH_DTYPES(EQUAL)
TH_DTYPES(NOT_EQUAL)
TH_DTYPES(LESS)
TH_DTYPES(LESS_EQUAL)

#define EQUAL_ENTRY(name, text, type) [name] = equal_##name,
#define NOT_EQUAL_ENTRY(name, text, type) [name] = not_equal_##name,
#define LESS_ENTRY(name, text, type) [name] = less_##name,
#define LESS_EQUAL_ENTRY(name, text, type) [name] = less_equal_##name,
th_map_kernel *const th_compare_equal[TH_DTYPE_COUNT] = {TH_DTYPES(EQUAL_ENTRY)};
th_map_kernel *const th_compare_not_equal[TH_DTYPE_COUNT] = {TH_DTYPES(NOT_EQUAL_ENTRY)};
th_map_kernel *const th_compare_less[TH_DTYPE_COUNT] = {TH_DTYPES(LESS_ENTRY)};
th_map_kernel *const th_compare_less_equal[TH_DTYPE_COUNT] = {TH_DTYPES(LESS_EQUAL_ENTRY)};

void th_logical_and_map(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    bool *y = operands[0];
    const bool *a = operands[1], *b = operands[2];
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] & b[i];
}

void th_logical_or_map(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    bool *y = operands[0];
    const bool *a = operands[1], *b = operands[2];
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] | b[i];
}

void th_logical_not_map(int64_t n, void *const *operands, const void *parameters)
{
    (void)parameters;
    bool *y = operands[0];
    const bool *a = operands[1];
    for (int64_t i = 0; i < n; i++)
        y[i] = !a[i];
}

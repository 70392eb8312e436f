/* Elementwise kernels: a loop over contiguous operands, destination first, that calls a function on registers. The last
 * register is padded with ones and goes through the same function; only its real elements are stored. */
#ifndef TH_KERNELS_ELEMENTWISE_VECTOR_ELEMENTWISE_H
#define TH_KERNELS_ELEMENTWISE_VECTOR_ELEMENTWISE_H

#include "kernels/vector/vector_math.h"

enum {
    ELEMENTWISE_OPERANDS = 6,
    ELEMENTWISE_UNROLL = 4 /* registers computed together, so that they do not wait for each other's results */
};

/* Computes one register of results. v has one register of each source, in the order of the operands, and then the
 * kernel's numbers, each broadcast to a register. Inlined into the loop. */
typedef vec elementwise_function(const vec v[ELEMENTWISE_OPERANDS]);

/* Defines the elementwise kernel `name` with this many sources and numbers (doubles at `parameters`). Its function
 * follows as a block:
 *
 *     ELEMENTWISE_KERNEL(div, 2, 0)
 *     {
 *         return v[0] / v[1];
 *     }
 */
#define ELEMENTWISE_KERNEL(name, sources, numbers)                                                                     \
    TH_INLINE elementwise_function register_##name;                                                                    \
    void TH_KERNEL(name)(int64_t n, void *const *operands, const void *parameters)                                     \
    {                                                                                                                  \
        run_elementwise(n, operands, sources, numbers, parameters, register_##name);                                   \
    }                                                                                                                  \
    TH_INLINE vec register_##name(const vec *v)

/* Defines an elementwise kernel that is not a single function of registers. Its loop over n elements of the operands
 * follows as a block. */
#define ELEMENTWISE_LOOP(name, sources, numbers)                                                                       \
    void TH_KERNEL(name)(int64_t n, void *const *operands, const void *parameters)

/* operands[0] = f(operands[1], ..., operands[sources], number[0], ..., number[numbers - 1]) */
TH_INLINE void run_elementwise(int64_t n, void *const *operands, int sources, int numbers, const double *number,
                               elementwise_function *f)
{
    vec v[ELEMENTWISE_UNROLL][ELEMENTWISE_OPERANDS], result[ELEMENTWISE_UNROLL];
    for (int t = 0; t < ELEMENTWISE_UNROLL; t++)
        for (int k = 0; k < numbers; k++)
            v[t][sources + k] = vec_broadcast((real)number[k]);
    real *y = operands[0];
    const real *x[ELEMENTWISE_OPERANDS];
    for (int k = 0; k < sources; k++)
        x[k] = operands[k + 1];
    int64_t i = 0;
    for (; i + ELEMENTWISE_UNROLL * TH_REGISTER_LANES <= n; i += ELEMENTWISE_UNROLL * TH_REGISTER_LANES) {
        for (int t = 0; t < ELEMENTWISE_UNROLL; t++)
            for (int k = 0; k < sources; k++)
                v[t][k] = vec_load(x[k] + i + t * TH_REGISTER_LANES);
        for (int t = 0; t < ELEMENTWISE_UNROLL; t++)
            result[t] = f(v[t]);
        for (int t = 0; t < ELEMENTWISE_UNROLL; t++)
            vec_store(y + i + t * TH_REGISTER_LANES, result[t]);
    }
    for (; i + TH_REGISTER_LANES <= n; i += TH_REGISTER_LANES) {
        for (int k = 0; k < sources; k++)
            v[0][k] = vec_load(x[k] + i);
        vec_store(y + i, f(v[0]));
    }
    if (i < n) {
        for (int k = 0; k < sources; k++)
            v[0][k] = vec_load_part(x[k] + i, n - i, 1);
        vec_store_part(y + i, n - i, f(v[0]));
    }
}

#endif

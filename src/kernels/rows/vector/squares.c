/* The sum of squares of n numbers, over 16 virtual lanes that are combined in a fixed order. */
#include "kernels/vector/vector_math.h"

/* Squares are computed in float64, in which the square of a float32 number is exact. Half a register of float32 numbers
 * becomes a whole register. */
enum { SQUARE_LANES = TH_VECTOR_BYTES / 8, SQUARE_REGISTERS = TH_LANES / SQUARE_LANES };

typedef double vec_square __attribute__((vector_size(TH_VECTOR_BYTES)));
typedef real vec_narrow __attribute__((vector_size(SQUARE_LANES * sizeof(real)), aligned(TH_REAL_BITS / 8), may_alias));

TH_INLINE void add_squares(vec_square sum[SQUARE_REGISTERS], const real x[TH_LANES])
{
    for (int r = 0; r < SQUARE_REGISTERS; r++) {
        const vec_square converted = __builtin_convertvector(*(const vec_narrow *)(x + r * SQUARE_LANES), vec_square);
        sum[r] += converted * converted;
    }
}

void TH_KERNEL(sum_squares)(int64_t n, const void *x, double *result)
{
    const real *from = x;
    vec_square sum[SQUARE_REGISTERS];
    for (int r = 0; r < SQUARE_REGISTERS; r++)
        sum[r] = (vec_square){0};
    int64_t i = 0;
    for (; i + TH_LANES <= n; i += TH_LANES)
        add_squares(sum, from + i);
    if (i < n) {
        real last[TH_LANES] = {0};
        memcpy(last, from + i, (size_t)(n - i) * sizeof(real));
        add_squares(sum, last);
    }
    double lane[TH_LANES];
    memcpy(lane, sum, sizeof lane);
    for (int width = TH_LANES / 2; width > 0; width /= 2)
        for (int k = 0; k < width; k++)
            lane[k] += lane[k + width];
    *result = lane[0];
}

/* Orthogonalizes matrices by Newton-Schulz iterations, for Muon. Of G = U S V^T the result is about U V^T: it has the
 * same singular vectors, and singular values near 1.
 *
 *     X = G / max(||G||, eps)                        ||G||: the Frobenius norm
 *     for each step:  A = X X^T,  P = b A + c A A,  X = a X + P X
 *
 * If G has more rows than columns, X^T takes the place of X. A step changes a singular value s to a s + b s^3 + c s^5.
 * torch.optim.Muon computes the same, in bfloat16. */
#ifndef TH_KERNELS_PRODUCTS_ORTHOGONALIZE_H
#define TH_KERNELS_PRODUCTS_ORTHOGONALIZE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/machine/machine.h"

enum { TH_MAX_NEWTON_SCHULZ_STEPS = 16 };

typedef struct th_newton_schulz {
    int steps;                                         /* 0 to TH_MAX_NEWTON_SCHULZ_STEPS */
    double coefficient[TH_MAX_NEWTON_SCHULZ_STEPS][3]; /* a, b, c of each step */
    double eps;                                        /* at least 0 */
    /* Divides X, besides, by the square root of ||A|| of the first step. This is still at least the largest singular
     * value, and usually much nearer to it than ||G||, so the small ones begin larger. It costs nothing. */
    bool normalizes_by_gram;
} th_newton_schulz;

/* Returns Jordan's coefficients (2024), which torch.optim.Muon has too: 3.4445, -4.7750, 2.0315 in each step, eps 1e-7.
 * After 5 steps singular values from 0.002 ||G|| on are between 0.68 and 1.21. */
th_newton_schulz th_newton_schulz_jordan(int steps);

/* Returns the coefficients of Polar Express (Amsel et al. 2025), with normalizes_by_gram and eps 1e-7. Each step has
 * the odd polynomial of degree 5 that is nearest to 1 on the interval of the singular values after the steps before. At
 * the beginning it is [least, 1]. least depends on the number of steps:
 *
 *     steps    least    singular values afterwards
 *     3        0.01     1 +- 0.274
 *     4        0.005    1 +- 0.087
 *     other    0.001    1 +- 0.124 with 5, 1 +- 0.0012 with 6 */
th_newton_schulz th_newton_schulz_polar_express(int steps);

/* Returns the bytes of scratch memory (64-byte aligned) that th_orthogonalize needs; SIZE_MAX if a size_t or an int64_t
 * cannot hold them. */
size_t th_orthogonalize_scratch(const th_machine *machine, th_dtype dtype, int64_t count, int64_t rows, int64_t columns,
                                int threads);

/* Orthogonalizes `count` matrices (rows, columns), contiguous, in place. dtype: TH_FLOAT32 or TH_FLOAT64. The products
 * are computed in this type, whatever the machine's precision is. The bits of a matrix depend neither on `threads` nor
 * on the other matrices. A matrix of zeros remains zero. A matrix with an element that is NaN or infinite becomes NaN.
 * Never fails, never allocates. */
void th_orthogonalize(const th_machine *machine, th_dtype dtype, const th_newton_schulz *schulz, int64_t count,
                      int64_t rows, int64_t columns, void *const matrix[], void *scratch, int threads);

#endif

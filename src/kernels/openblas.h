/* OpenBLAS, loaded when it is first asked for: whichever of Debian's builds (pthread, openmp, serial) is installed.
 * Loading it takes time and memory, so nobody asks unless it is to compute. */
#ifndef TH_KERNELS_OPENBLAS_H
#define TH_KERNELS_OPENBLAS_H

/* CBLAS's numbers for its enumerations. */
enum { TH_BLAS_ROW_MAJOR = 101, TH_BLAS_NO_TRANSPOSE = 111, TH_BLAS_TRANSPOSE = 112 };

typedef void th_cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                            const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void th_cblas_dgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                            const double *a, int lda, const double *b, int ldb, double beta, double *c, int ldc);

typedef struct th_openblas_functions {
    th_cblas_sgemm *sgemm;
    th_cblas_dgemm *dgemm;
    char version[16], core[32]; /* "0.3.21", "Zen"; "?" where it does not say */
} th_openblas_functions;

/* The functions, with OpenBLAS set to one thread per call; NULL when there is no OpenBLAS. Any thread may ask. */
const th_openblas_functions *th_openblas(void);

#endif

/* OpenBLAS, loaded when it is first asked for: whichever of Debian's builds (pthread, openmp, serial) is installed.
 * Loading it takes time and memory, so nobody asks unless it is to compute. */
#ifndef TH_KERNELS_MACHINE_OPENBLAS_H
#define TH_KERNELS_MACHINE_OPENBLAS_H

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

/* The functions; NULL when there is no OpenBLAS. Any thread may ask. Call sgemm and dgemm between th_openblas_begin and
 * th_openblas_end only. */
const th_openblas_functions *th_openblas(void);

/* The calling thread's numbers of OpenMP threads, from before th_openblas_begin. */
enum { TH_OPENMPS = 2 };
typedef struct th_openblas_threads {
    int count[TH_OPENMPS];
} th_openblas_threads;

/* From begin to end, OpenBLAS computes the calls of this thread with one thread. Both cost nothing with a build that
 * does not use OpenMP. */
th_openblas_threads th_openblas_begin(void);
void th_openblas_end(const th_openblas_threads *before);

#endif

/* OpenBLAS, loaded at the first request. Any of Debian's builds (pthread, openmp, serial) will do. Loading takes time
 * and memory, so nothing requests it before it is needed. */
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
    char version[16], core[32]; /* "0.3.21", "Zen"; "?" if unknown */
} th_openblas_functions;

/* Returns the functions; NULL without OpenBLAS. Any thread may call this. Call sgemm and dgemm only between
 * th_openblas_begin and th_openblas_end. */
const th_openblas_functions *th_openblas(void);

/* The calling thread's OpenMP thread counts before th_openblas_begin. */
enum { TH_OPENMPS = 2 };
typedef struct th_openblas_threads {
    int count[TH_OPENMPS];
} th_openblas_threads;

/* Between begin and end, OpenBLAS computes the calls of this thread with one thread. With a build without OpenMP both
 * do nothing. */
th_openblas_threads th_openblas_begin(void);
void th_openblas_end(const th_openblas_threads *before);

#endif

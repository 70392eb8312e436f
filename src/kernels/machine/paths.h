/* Chooses the fastest way to multiply bfloat16 parts (a path: fma, avx512_bf16 or amx) by measurement. All paths of an
 * instruction set have the same bits, so the choice changes speed only. */
#ifndef TH_KERNELS_MACHINE_PATHS_H
#define TH_KERNELS_MACHINE_PATHS_H

#include "kernels/machine/isa.h"

/* The measured product. Its sizes are multiples of the panels of every path. */
enum { TH_PATH_ROWS = 96, TH_PATH_COLUMNS = 64, TH_PATH_STEPS = 128 };

/* Returns the seconds that a path takes for the measured product, with packing. Only one thread may run this. */
double th_path_time(const struct th_product_kernels *path);

/* Returns the path with the least time in several rounds; if times are equal, the last of these paths. count is at
 * least 1. */
const struct th_product_kernels *th_path_fastest(int count, const struct th_product_kernels *const *paths,
                                                 double (*time)(const struct th_product_kernels *path));

/* Returns the fastest path of th_isa_automatic's instruction set that this process may use. Measures once in a process,
 * with one part of each operand, and only if there are several. May ask the operating system for permission. Any thread
 * may call this. */
const struct th_product_kernels *th_path_automatic(void);

#endif

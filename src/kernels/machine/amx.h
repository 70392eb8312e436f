/* Whether this process may multiply by the processor's tiles (Intel AMX). */
#ifndef TH_KERNELS_MACHINE_AMX_H
#define TH_KERNELS_MACHINE_AMX_H

struct th_product_kernels;

/* Sets *products to the kernels that do (product_block.h; [0] of one term, [1] of two) and returns NULL; or leaves it
 * and returns a static sentence saying what is missing: "TAPEHEAD_ISA is amx, but ...". The first call asks the
 * operating system for permission, which holds for the process and its children; later ones, from any thread, know. */
const char *th_amx_detect(const struct th_product_kernels **products);

#endif

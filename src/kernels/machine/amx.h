/* Whether this process may multiply with Intel AMX. */
#ifndef TH_KERNELS_MACHINE_AMX_H
#define TH_KERNELS_MACHINE_AMX_H

struct th_product_kernels;

/* If AMX may be used, sets *products to its kernels (product_kernels.h; [0] for one bfloat16 part, [1] for two) and
 * returns NULL. Otherwise does not change *products and returns a static sentence that says what is missing:
 * "TAPEHEAD_ISA is amx, but ...". The first call requests permission from the operating system, for the process and its
 * children. Any thread may call this. */
const char *th_amx_detect(const struct th_product_kernels **products);

#endif

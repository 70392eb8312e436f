/* Whether this process may multiply with Intel AMX. */
#ifndef TH_KERNELS_MACHINE_AMX_H
#define TH_KERNELS_MACHINE_AMX_H

/* Returns NULL if this process may use AMX, otherwise a static sentence that says what is missing: "TAPEHEAD_ISA is
 * amx, but ...". The first call requests permission from the operating system, for the process and its children. Any
 * thread may call this. */
const char *th_why_not_amx(void);

#endif

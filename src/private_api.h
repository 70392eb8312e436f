/* The private interface of the core library. TH_PRIVATE_API marks the functions of the core that the models library
 * (src/models) calls besides the public ones; models/core.h includes their headers. The shared library exports them with
 * the version TAPEHEAD_PRIVATE. They may change in every release: programs must not call them. */
#ifndef TH_PRIVATE_API_H
#define TH_PRIVATE_API_H

#define TH_PRIVATE_API __attribute__((visibility("default")))

#endif

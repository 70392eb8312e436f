/* The private interface of the core library. TH_PRIVATE_API marks the functions of the core that the models library
 * (src/models) calls besides the public ones. The headers in models/core include theirs. The shared library exports them
 * with a symbol version that names the release (cmake/libraries.cmake). They may change in every release: programs
 * must not call them. */
#ifndef TH_PRIVATE_API_H
#define TH_PRIVATE_API_H

/* Protected: exported, but calls inside the core stay direct. (WebAssembly has no shared library, and Windows
 * no visibility.) */
#if defined _WIN32
#define TH_PRIVATE_API
#elif defined TAPEHEAD_CORE && !defined __wasm__ && !defined __APPLE__
#define TH_PRIVATE_API __attribute__((visibility("protected")))
#else
#define TH_PRIVATE_API __attribute__((visibility("default")))
#endif

#endif

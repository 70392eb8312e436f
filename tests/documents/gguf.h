/* Declarations that the C snippets in gguf.md use. */
#include <tapehead/tapehead.h>

extern th_context *ctx;

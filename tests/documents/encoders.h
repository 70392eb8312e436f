/* Declarations that the C snippets in encoders.md use. */
#include <tapehead/models.h>

extern th_context *ctx;
int report(th_context *ctx);

/* Declarations that the C snippets in precision.md use. */
#include <stdio.h>
#include <tapehead/tapehead.h>

int report(const char *sentence);
extern th_context *ctx;

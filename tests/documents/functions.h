/* Declarations that the C snippets in functions.md use. */
#include <stdio.h>
#include <tapehead/tapehead.h>

extern th_context *ctx;
extern th_module *model;
extern th_optimizer *adam;
extern th_tensor *batch[2], *targets[2];
int report(const char *sentence);

/* Declarations that the C snippets in checkpoints.md use. */
#include <stdio.h>
#include <string.h>
#include <tapehead/tapehead.h>

extern th_context *ctx;
extern th_module *model;
extern th_group *group;
extern const th_checkpoint run;
int report(const char *sentence);
const char *from_the_body(const char *parameter, void *user);

/* Declarations that the C snippets in README.md use. */
#include <stdint.h>
#include <tapehead/tapehead.h>

extern int64_t steps;
extern th_tensor *tokens, *targets, *x;
extern th_module *layer;
th_tensor *my_layer(void *layer, th_tensor *x);
th_module *copy_model_new(th_context *ctx);
void fill_batch(th_tensor *tokens, th_tensor *targets, int64_t step);
int report(const char *sentence);

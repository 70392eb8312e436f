/* Declarations that the C snippets in README.md use. */
#include <tapehead/tapehead.h>

extern th_tensor *x;
extern th_module *layer;
th_tensor *my_layer(void *layer, th_tensor *x);

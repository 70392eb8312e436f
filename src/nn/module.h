/* What the files of the tree of modules share, and what the library's own modules tell it. */
#ifndef TH_NN_MODULE_H
#define TH_NN_MODULE_H

#include "tapehead/module.h"

/* Lies behind the module's own struct. */
struct th_module_state {
    size_t bytes;          /* of the struct and of this */
    int entered;           /* forwards of this module that run now */
    bool training_outside; /* the context's mode while the first of them runs */
    bool freed;            /* by th_module_free: what is left is for sentences */
};

/* All members that m has now are parts of it, which its forward needs. */
void th_module_complete(th_module *m);
/* False with an error pending, or when m is NULL or has been freed (then that is the error). */
bool th_module_usable(const th_module *m, const char *operation);
/* The dotted name of m from below `above` (NULL: from the root) on, into name (of TH_FULL_NAME_SIZE bytes). */
const char *th_module_name_below(const th_module *m, const th_module *above, char *name);

#endif

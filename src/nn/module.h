/* What the library's own modules tell the tree. */
#ifndef TH_NN_MODULE_H
#define TH_NN_MODULE_H

#include "tapehead/module.h"

/* All members that m has now are parts of it, which its forward needs. */
void th_module_complete(th_module *m);

#endif

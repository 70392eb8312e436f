/* The options of library modules that do not change the shapes of parameters. Processes that train one model compare
 * them. */
#ifndef TH_NN_MODULE_OPTIONS_H
#define TH_NN_MODULE_OPTIONS_H

#include "nn/module.h"
#include "processes/group.h"

/* Returns a checksum of the types and options of all modules of the tree; 0 for NULL. */
uint32_t th_module_options_crc32c(const th_module *root);
/* Collective: compares these options, one by one. TH_ERROR_STATE names the first module and option that differ, with
 * both values. */
th_status th_module_options_agree(const th_module *root, th_group *group, const char *operation);

#endif

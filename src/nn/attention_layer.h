/* What else of the library asks of an attention layer. */
#ifndef TH_NN_ATTENTION_LAYER_H
#define TH_NN_ATTENTION_LAYER_H

#include "tapehead/module.h"

/* Whether it was made by th_multi_head_attention_new. */
bool th_is_attention(const th_module *m);

#endif

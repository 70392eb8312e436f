/* All kinds of lines. */
#include "kinds.h"

const kind *kind_at(int index)
{
    static const kind *const tables[] = {elementwise_kinds, shape_kinds,     row_kinds,
                                         product_kinds,     attention_kinds, layer_kinds};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const kind *k = tables[i]; k->name; k++)
            if (index-- == 0)
                return k;
    return NULL;
}

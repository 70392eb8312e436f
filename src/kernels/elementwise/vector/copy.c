/* Copying elements: y = x. */
#include "kernels/elementwise/vector/elementwise.h"

ELEMENTWISE_LOOP(copy, 1, 0)
{
    (void)parameters;
    if (n > 0 && operands[0] != operands[1])
        memcpy(operands[0], operands[1], (size_t)n * sizeof(real));
}

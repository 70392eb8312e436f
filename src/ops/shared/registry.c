/* The built-in operations. The build writes operations.def: a line for every `const th_op th_op_name = {` in src/ops. */
#include <string.h>

#include "tapehead/op.h"

#define OPERATION(name) extern const th_op th_op_##name;
#include "operations.def"
#undef OPERATION

static const th_op *const operations[] = {
#define OPERATION(name) &th_op_##name,
#include "operations.def"
#undef OPERATION
};

int th_op_count(void)
{
    return (int)(sizeof operations / sizeof operations[0]);
}

const th_op *th_op_at(int index)
{
    return index >= 0 && index < th_op_count() ? operations[index] : NULL;
}

const th_op *th_op_find(const char *name)
{
    for (int i = 0; name && i < th_op_count(); i++)
        if (strcmp(operations[i]->name, name) == 0)
            return operations[i];
    return NULL;
}

/* Guards an operation: copies its descriptor. The kernels of the copy run twice, in memory of the checker. */
#ifndef TH_CHECKER_CHECK_OP_GUARD_H
#define TH_CHECKER_CHECK_OP_GUARD_H

#include "checker/check_op_memory.h"

/* Makes guard->op a copy of op with guarded kernels. (A view has no kernel.) Free the guard with th_guard_free. */
void th_guard_init(th_guard *guard, const th_op *op);

#endif

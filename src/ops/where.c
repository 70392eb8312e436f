/* where: y = condition ? a : b; all three broadcast. */
#include "ops/shared/elementwise.h"

enum { CONDITION, IF_TRUE, IF_FALSE };

static th_status where_shape(th_call *call)
{
    th_status status = th_call_bool(call, CONDITION);
    if (!status)
        status = th_call_floating(call, IF_TRUE);
    if (!status)
        status = th_call_floating(call, IF_FALSE);
    if (!status)
        status = th_call_same_type(call);
    return status ? status : th_shape_broadcast(call, call->input[IF_TRUE].dtype);
}

#define BOOL .kind = TH_SAMPLE_BOOL

static const th_sample where_samples[] = {
    {"same shapes", NULL, 3, {{.shape = {2, {3, 4}}, BOOL}, {.shape = {2, {3, 4}}}, {.shape = {2, {3, 4}}}}, 0},
    {"condition broadcast", NULL, 3, {{.shape = {1, {4}}, BOOL}, {.shape = {2, {3, 4}}}, {.shape = {2, {3, 4}}}}, 0},
    {"values broadcast", NULL, 3, {{.shape = {2, {3, 4}}, BOOL}, {.shape = {0, {0}}}, {.shape = {2, {3, 1}}}}, 0},
    {"one value constant", NULL, 3,
     .input = {{.shape = {2, {3, 4}}, BOOL}, {.shape = {2, {3, 4}}}, {.shape = {0, {0}}, .constant = true}}},
    {.name = NULL},
};

/* dL/da = dL/dy where the condition holds, else 0;   dL/db = dL/dy where it does not, else 0
 * (keep_if in kernels/elementwise/vector/masking.c, keep_unless in kernels/elementwise/vector/arithmetic.c) */
const th_op th_op_where = {
    .name = "where",
    .value = "y = condition ? a : b",
    .gradient = "da = condition ? dy : 0; db = condition ? 0 : dy",
    .shape = where_shape,
    .n_inputs = 3,
    .forward = th_elementwise_forward,
    .backward = th_elementwise_backward,
    .kernel = (const th_elementwise_id[]){th_elementwise_id_where, [1 + IF_TRUE] = th_elementwise_id_keep_if,
                                          [1 + IF_FALSE] = th_elementwise_id_keep_unless},
    .saves = TH_INPUT(CONDITION),
    .flags = TH_OP_BROADCASTS | TH_OP_IN_PLACE,
    .samples = where_samples,
};

th_tensor *th_where(th_tensor *condition, th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_where, NULL, condition, a, b);
}

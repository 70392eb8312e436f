/* Elementwise operations: one forward and one backward for all of them. A descriptor names a kernel for the value and
 * one for the gradient of each input (ELEMENTWISE_KERNEL in kernels/elementwise/vector):
 *
 *     TH_BINARY(div, div, div_backward),
 *     .saves_for = {TH_INPUT(1), TH_INPUT(1) | TH_OUTPUT(0)},
 *
 * The value's kernel reads every input: y = div(a, b). A gradient's kernel reads dy, and then what the descriptor saves
 * for this gradient, inputs before the output: da = div(dy, b), db = div_backward(dy, b, y). All of these kernels get
 * the attributes, an array of doubles. tests/ops/test_elementwise_ops.c checks that each kernel gets the operands that
 * it reads. */
#ifndef TH_OPS_SHARED_ELEMENTWISE_H
#define TH_OPS_SHARED_ELEMENTWISE_H

#include "kernels/kernels.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"

/* The elementwise kernels, from the list that the build makes of them: th_elementwise_id_exp is kernel `exp`. */
typedef enum th_elementwise_id {
#define ELEMENTWISE(name, sources, numbers) th_elementwise_id_##name,
#include "elementwise.def"
#undef ELEMENTWISE
    TH_ELEMENTWISE_KERNELS /* their number */
} th_elementwise_id;

/* th_op.kernel is a th_elementwise_id[]: the value's kernel, then the kernel of each input's gradient. */
void th_elementwise_forward(const th_call *call);
void th_elementwise_backward(const th_call *call);

/* th_op.kernel is a table of kernels/elementwise/compare.h. */
void th_elementwise_by_dtype_forward(const th_call *call);

/* These macros expand to lists of fields and of samples, which clang-format would take for blocks. */
/* clang-format off */

/* The fields of a descriptor for y = kernel(x), with dx computed by kernel `dx`. The descriptor adds .saves. */
#define TH_UNARY(kernel, dx) TH_UNARY_WITH(th_shape_elementwise, 0, kernel, dx)

/* The same with another shape rule, which must call th_shape_elementwise, and additional flags. */
#define TH_UNARY_WITH(shape_rule, more_flags, value_kernel, dx)                                   \
    .n_inputs = 1, .shape = (shape_rule),                                                         \
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE | (more_flags),                                    \
    .forward = th_elementwise_forward, .backward = th_elementwise_backward,                       \
    .kernel = (const th_elementwise_id[]){th_elementwise_id_##value_kernel, th_elementwise_id_##dx}

/* The fields of a descriptor for y = kernel(a, b), broadcast, with da and db computed by the kernels `da` and `db`. The
 * descriptor adds .saves or .saves_for. If a gradient is dy itself, its kernel is `copy` and the descriptor adds
 * .identity_gradients. */
#define TH_BINARY(value_kernel, da, db)                                                           \
    .n_inputs = 2, .shape = th_shape_elementwise,                                                 \
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE | TH_OP_BROADCASTS,                                \
    .forward = th_elementwise_forward, .backward = th_elementwise_backward,                       \
    .kernel = (const th_elementwise_id[]){                                                        \
        th_elementwise_id_##value_kernel, th_elementwise_id_##da, th_elementwise_id_##db}

/* The fields of a descriptor whose result is bool, except .shape. */
#define TH_ELEMENTWISE_BY_DTYPE(inputs, kernels)                                                  \
    .n_inputs = (inputs), .forward = th_elementwise_by_dtype_forward, .kernel = (kernels),        \
    .gradient = "none", .not_differentiable = "a truth value does not vary continuously"

/* The standard samples over a range: .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-1, 1))}. They
 * end the list: an operation's own samples come before them. */
#define TH_UNARY_SAMPLES(attributes, range)                                                       \
    {"matrix", (attributes), 1, {{.shape = {2, {3, 4}}, range}}, 0},                              \
    {"three dimensions", (attributes), 1, {{.shape = {3, {2, 3, 7}}, range}}, 0},                 \
    {"scalar", (attributes), 1, {{.shape = {0, {0}}, range}}, 0},                                 \
    {"nothing", (attributes), 1, {{.shape = {2, {0, 3}}, range}}, 0},                             \
    {.name = NULL}
#define TH_BINARY_SAMPLES(a, b)                                                                   \
    {"same shapes", NULL, 2, {{.shape = {2, {3, 4}}, a}, {.shape = {2, {3, 4}}, b}}, 0},          \
    {"row", NULL, 2, {{.shape = {2, {4, 3}}, a}, {.shape = {1, {3}}, b}}, 0},                     \
    {"column", NULL, 2, {{.shape = {2, {3, 1}}, a}, {.shape = {3, {2, 3, 5}}, b}}, 0},            \
    {"both broadcast", NULL, 2, {{.shape = {2, {4, 1}}, a}, {.shape = {2, {1, 3}}, b}}, 0},       \
    {"scalars", NULL, 2, {{.shape = {0, {0}}, a}, {.shape = {0, {0}}, b}}, 0},                    \
    {"nothing", NULL, 2, {{.shape = {2, {0, 3}}, a}, {.shape = {1, {3}}, b}}, 0},                 \
    {.name = NULL}

#define TH_BETWEEN(from, to) .low = (from), .high = (to)
/* The range [-1, 1], except numbers closer than `distance` to one of the kinks, which follow. */
#define TH_AWAY_FROM(distance, ...) .n_kinks = TH_COUNT_(__VA_ARGS__), .kinks = {__VA_ARGS__}, .clearance = (distance)

/* clang-format on */

#endif

/* Elementwise operations: one forward and one backward for all of them. A descriptor names the maps that compute its
 * value and its gradients (ELEMENTWISE_KERNEL in kernels/vector), and what each of them reads:
 *
 *     const th_op th_op_div = {
 *         ...
 *         TH_BINARY(div, (div, TH_DY, TH_B), (div_backward, TH_DY, TH_Y, TH_B)),
 *
 * is y = div(a, b), da = div(dy, b), db = div_backward(dy, y, b). What a gradient reads is what is saved for it; one
 * that is a (copy, TH_DY) is an identity, which the driver hands on. The operation's attributes are the numbers of its
 * value's map, doubles. */
#ifndef TH_OPS_SHARED_ELEMENTWISE_H
#define TH_OPS_SHARED_ELEMENTWISE_H

#include <stddef.h>

#include "kernels/kernels.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"

/* What maps read: input i is i, as in TH_INPUT(i), output 0 is 8, as in TH_OUTPUT(0), its gradient 16. */
enum { TH_X = 0, TH_A = 0, TH_B = 1, TH_Y = TH_MAX_INPUTS, TH_DY = 2 * TH_MAX_INPUTS };

/* How many sources each map reads, and how many numbers. */
enum {
#define ELEMENTWISE(name, sources, numbers) th_##name##_sources = (sources), th_##name##_numbers = (numbers),
#include "elementwise.def"
#undef ELEMENTWISE
};

typedef struct th_elementwise_call {
    size_t kernel; /* its place in th_kernels */
    unsigned count, reads[4];
} th_elementwise_call;

/* .kernel of an elementwise operation */
typedef struct th_elementwise_kernels {
    th_elementwise_call value, gradient[3];
} th_elementwise_kernels;

void th_elementwise_forward(const th_call *call);
void th_elementwise_backward(const th_call *call);

/* Operations with a truth value as their result: `maps` is one of the tables of kernels/elementwise/compare.h. */
#define TH_ELEMENTWISE_BY_DTYPE(inputs, maps)                                                                          \
    .n_inputs = (inputs), .forward = th_elementwise_by_dtype_forward, .kernel = (maps), .gradient = "none",            \
    .not_differentiable = "a truth value does not vary continuously"
void th_elementwise_by_dtype_forward(const th_call *call);

/* What follows are lists, not blocks. */
/* clang-format off */

/* A descriptor's fields .n_inputs, .attributes_size, .flags, .shape, .forward, .backward, .kernel, .saves_for and
 * .identity_gradients, of y = map(x) with the gradient dx, and of y = map(a, b), broadcast, with da and db. */
#define TH_UNARY(map, dx) TH_UNARY_OF(th_shape_elementwise, 0, map, dx)
#define TH_BINARY(map, da, db)                                                                    \
    TH_ELEMENTWISE_KERNELS(2, {{TH_ELEMENTWISE_CALL(map, TH_A, TH_B)}, {{TH_ELEMENTWISE_CALL da}, {TH_ELEMENTWISE_CALL db}}}),                 \
    .attributes_size = TH_ELEMENTWISE_ATTRIBUTES(map, da, db),                                            \
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE | TH_OP_BROADCASTS, .shape = th_shape_elementwise, \
    .saves_for = {TH_ELEMENTWISE_SAVES da, TH_ELEMENTWISE_SAVES db},                                              \
    .identity_gradients = TH_ELEMENTWISE_IS_COPY da << TH_A | TH_ELEMENTWISE_IS_COPY db << TH_B
/* The same with a shape rule of its own, which ends in th_shape_elementwise, and more flags. */
#define TH_UNARY_OF(shape_rule, more_flags, map, dx)                                              \
    TH_ELEMENTWISE_KERNELS(1, {{TH_ELEMENTWISE_CALL(map, TH_X)}, {{TH_ELEMENTWISE_CALL dx}}}),                                       \
    .attributes_size = TH_ELEMENTWISE_ATTRIBUTES(map, dx, dx),                                            \
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE | (more_flags), .shape = (shape_rule),             \
    .saves_for = {TH_ELEMENTWISE_SAVES dx}, .identity_gradients = TH_ELEMENTWISE_IS_COPY dx
/* .n_inputs, .forward, .backward and .kernel alone, of any maps without numbers. */
#define TH_ELEMENTWISE_KERNELS(inputs, ...)                                                                      \
    .n_inputs = (inputs), .forward = th_elementwise_forward, .backward = th_elementwise_backward,               \
    .kernel = &(const th_elementwise_kernels)__VA_ARGS__

/* A th_elementwise_call: {TH_ELEMENTWISE_CALL(name, what it reads ...)}. What is no elementwise kernel, or reads another number of operands,
 * does not compile. */
#define TH_ELEMENTWISE_CALL(name, ...)                                                                      \
    TH_ELEMENTWISE_OFFSET(name),                                                                           \
    TH_COUNT_(__VA_ARGS__) + TH_HOLDS(TH_COUNT_(__VA_ARGS__) == th_##name##_sources,              \
                                      #name " reads another number of operands"),                 \
    {__VA_ARGS__}
#define TH_ELEMENTWISE_OFFSET(name)                                                                        \
    TH_KERNEL_OFFSET(name, th_elementwise_kernel, #name " is not an elementwise kernel (ELEMENTWISE_KERNEL, ELEMENTWISE_LOOP)")
#define TH_ELEMENTWISE_NUMBERS(name, ...) th_##name##_numbers
#define TH_ELEMENTWISE_ATTRIBUTES(map, da, db)                                                            \
    th_##map##_numbers * sizeof(double)                                                           \
    + TH_HOLDS(TH_ELEMENTWISE_NUMBERS da <= th_##map##_numbers && TH_ELEMENTWISE_NUMBERS db <= th_##map##_numbers, \
               "a gradient's kernel reads more numbers than the value's")
#define TH_ELEMENTWISE_IS_COPY(name, ...) (uint32_t)(offsetof(th_kernels, name) == offsetof(th_kernels, copy))
/* The bits of the operands that a map reads: filled up to four with TH_DY, whose bit then goes, as it is not saved. */
#define TH_ELEMENTWISE_SAVES(name, ...) TH_ELEMENTWISE_SAVES_(__VA_ARGS__, TH_DY, TH_DY, TH_DY, TH_DY)
#define TH_ELEMENTWISE_SAVES_(a, b, c, d, ...) ((1u << (a) | 1u << (b) | 1u << (c) | 1u << (d)) & ~(1u << TH_DY))

/* The standard samples, over ranges: .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-1, 1))}. An
 * operation's own come before them, since they end the list. */
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
/* On [-1, 1], at least so far from every kink. */
#define TH_AWAY_FROM(distance, ...) .n_kinks = TH_COUNT_(__VA_ARGS__), .kinks = {__VA_ARGS__}, .clearance = (distance)

/* clang-format on */

#endif

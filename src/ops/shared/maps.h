/* Elementwise operations: one forward and one backward for all of them. A descriptor names the maps that compute its
 * value and its gradients (MAP_KERNEL in kernels/vector), and what each of them reads:
 *
 *     const th_op th_op_div = {
 *         ...
 *         BINARY(div, (div, DY, B), (div_backward, DY, Y, B)),
 *
 * is y = div(a, b), da = div(dy, b), db = div_backward(dy, y, b). What a gradient reads is what is saved for it; one
 * that is a (copy, DY) is an identity, which the driver hands on. The operation's attributes are the maps' numbers. The shape rule is th_shape_elementwise, or one that ends in it. */
#ifndef TH_OPS_SHARED_MAPS_H
#define TH_OPS_SHARED_MAPS_H

#include <stddef.h>

#include "kernels/kernels.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"

/* What maps read: input i is i, as in TH_INPUT(i), output 0 is 8, as in TH_OUTPUT(0), its gradient 16. */
enum { X = 0, A = 0, B = 1, Y = TH_MAX_INPUTS, DY = 2 * TH_MAX_INPUTS };

enum { ELEMENTWISE = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE };

typedef struct th_map {
    size_t kernel; /* its place in th_kernels */
    unsigned count, reads[4];
} th_map;

/* .kernel of an elementwise operation */
typedef struct th_maps {
    th_map value, gradient[3];
} th_maps;

void th_maps_forward(const th_call *call);
void th_maps_backward(const th_call *call);

#define UNARY(map, dx)                                                                                                 \
    MAPS(1, {{MAP(map, X)}, {{MAP dx}}}), .saves_for = {MAP_READS dx}, .identity_gradients = MAP_IS_COPY dx
#define BINARY(map, da, db)                                                                                            \
    MAPS(2, {{MAP(map, A, B)}, {{MAP da}, {MAP db}}}), .saves_for = {MAP_READS da, MAP_READS db},                      \
                                                       .identity_gradients = MAP_IS_COPY da << A | MAP_IS_COPY db << B
#define MAPS(inputs, ...)                                                                                              \
    .n_inputs = (inputs), .forward = th_maps_forward, .backward = th_maps_backward,                                    \
    .kernel = &(const th_maps)__VA_ARGS__

/* Operations with a truth value as their result: `maps` is one of the tables of kernels/compare.h. */
#define TYPED_MAPS(inputs, maps)                                                                                       \
    .n_inputs = (inputs), .forward = th_typed_maps_forward, .kernel = (maps), .gradient = "none",                      \
    .not_differentiable = "a truth value does not vary continuously"
void th_typed_maps_forward(const th_call *call);

/* What follows are lists, not blocks. */
/* clang-format off */

/* A th_map: {MAP(name, what it reads ...)}. The place of a kernel that is none, or no map, does not compile. */
#define MAP(name, ...) MAP_PLACE(name), TH_COUNT_(__VA_ARGS__), {__VA_ARGS__}
#define MAP_PLACE(name) _Generic(((th_kernels *)0)->name, th_map_kernel *: offsetof(th_kernels, name))
#define MAP_IS_COPY(name, ...) (uint32_t)(MAP_PLACE(name) == MAP_PLACE(copy))
#define MAP_READS(name, ...) MAP_SAVED_(__VA_ARGS__, DY, DY, DY, DY)
#define MAP_SAVED_(a, b, c, d, ...) ((1u << (a) | 1u << (b) | 1u << (c) | 1u << (d)) & ~(1u << DY))

/* The standard samples, over ranges: .samples = (const th_sample[]){UNARY_SAMPLES(NULL, BETWEEN(-1, 1))}. An operation's
 * own come before them, since they end the list. */
#define UNARY_SAMPLES(attributes, range)                                                          \
    {"matrix", (attributes), 1, {{.shape = {2, {3, 4}}, range}}, 0},                              \
    {"three dimensions", (attributes), 1, {{.shape = {3, {2, 3, 7}}, range}}, 0},                 \
    {"scalar", (attributes), 1, {{.shape = {0, {0}}, range}}, 0},                                 \
    {"nothing", (attributes), 1, {{.shape = {2, {0, 3}}, range}}, 0},                             \
    {.name = NULL}
#define BINARY_SAMPLES(a, b)                                                                      \
    {"same shapes", NULL, 2, {{.shape = {2, {3, 4}}, a}, {.shape = {2, {3, 4}}, b}}, 0},          \
    {"row", NULL, 2, {{.shape = {2, {4, 3}}, a}, {.shape = {1, {3}}, b}}, 0},                     \
    {"column", NULL, 2, {{.shape = {2, {3, 1}}, a}, {.shape = {3, {2, 3, 5}}, b}}, 0},            \
    {"both broadcast", NULL, 2, {{.shape = {2, {4, 1}}, a}, {.shape = {2, {1, 3}}, b}}, 0},       \
    {"scalars", NULL, 2, {{.shape = {0, {0}}, a}, {.shape = {0, {0}}, b}}, 0},                    \
    {"nothing", NULL, 2, {{.shape = {2, {0, 3}}, a}, {.shape = {1, {3}}, b}}, 0},                 \
    {.name = NULL}

#define BETWEEN(from, to) .low = (from), .high = (to)
/* On [-1, 1], at least so far from every kink. */
#define AWAY_FROM(distance, ...) .n_kinks = TH_COUNT_(__VA_ARGS__), .kinks = {__VA_ARGS__}, .clearance = (distance)

/* clang-format on */

#endif

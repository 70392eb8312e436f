/* The factors of products. An element of an input contributes to an output element through an element of another
 * operand. Example: y[n, o] = sum_i x[n, i] w[o, i]. In the gradient of x[n, i], dy[n, o] is multiplied by w[o, i]. */
#include <string.h>

#include "export/explain/explain.h"
#include "kernels/sizes.h"
#include "tensor/convert.h"

double th_element_value(const th_array *array, const th_element *element)
{
    const int64_t offset = th_offset_of(array->ndim, element->index, array->stride);
    return th_number_read(array->dtype, (const char *)array->data + offset * (int64_t)th_dtype_size(array->dtype));
}

static const th_tensor_impl *input_tensor(const th_node *node, int i)
{
    return th_node_input(node, i)->tensor;
}

/* Returns the element of t that is broadcast to `at`, over the first `axes` axes of t and of an output of `ndim`. */
static th_element broadcast_element(const th_tensor_impl *t, int axes, const th_element *at, int ndim)
{
    th_element element = {{0}};
    const int extra = ndim - axes;
    for (int d = 0; d < axes; d++)
        element.index[d] = t->size[d] == 1 ? 0 : at->index[d + extra];
    return element;
}

static bool is_same_element(int axes, const th_element *a, const th_element *b)
{
    return memcmp(a->index, b->index, (size_t)axes * sizeof a->index[0]) == 0;
}

/* -- sums and elementwise products -- */

static bool find_elementwise_factor(const th_node *node, int input, const th_element *element, const th_element *at,
                                    th_factor *factor)
{
    const th_tensor_impl *x = input_tensor(node, input), *y = th_node_output(node, 0)->tensor;
    const th_element broadcast = broadcast_element(x, x->ndim, at, y->ndim);
    if (!is_same_element(x->ndim, &broadcast, element))
        return false;
    factor->input = -1;
    if (th_node_is(node, "mul")) {
        const th_tensor_impl *other = input_tensor(node, 1 - input);
        factor->input = 1 - input;
        factor->element = broadcast_element(other, other->ndim, at, y->ndim);
    }
    return true;
}

/* -- matrix products -- */

enum { X, WEIGHT, BIAS };

static bool find_dense_factor(const th_node *node, int input, const th_element *element, const th_element *at,
                              th_factor *factor)
{
    const int last = input_tensor(node, X)->ndim - 1;
    const int64_t output = at->index[last];
    switch (input) {
    case X:
        *factor = (th_factor){WEIGHT, {{output, element->index[last]}}};
        return is_same_element(last, element, at);
    case WEIGHT:
        *factor = (th_factor){X, *at};
        factor->element.index[last] = element->index[1];
        return output == element->index[0];
    case BIAS:
        factor->input = -1;
        return output == element->index[0];
    default:
        factor->input = -1;
        return is_same_element(last + 1, element, at);
    }
}

/* c[.., m, n] = sum_k a[.., m, k] b[.., k, n] */
static bool find_matmul_factor(const th_node *node, int input, const th_element *element, const th_element *at,
                               th_factor *factor)
{
    const th_tensor_impl *x = input_tensor(node, input), *other = input_tensor(node, 1 - input);
    const int ndim = th_node_output(node, 0)->tensor->ndim, leading = x->ndim - 2, other_leading = other->ndim - 2;
    const th_element batch = broadcast_element(x, leading, at, ndim - 2);
    const int shared_axis = input == 0 ? 0 : 1; /* the axis, of the last two, that x shares with the output */
    *factor = (th_factor){1 - input, broadcast_element(other, other_leading, at, ndim - 2)};
    factor->element.index[other_leading + shared_axis] = element->index[leading + 1 - shared_axis];
    factor->element.index[other_leading + 1 - shared_axis] = at->index[ndim - 1 - shared_axis];
    return is_same_element(leading, &batch, element) &&
           element->index[leading + shared_axis] == at->index[ndim - 2 + shared_axis];
}

bool th_factor_is_known(const th_node *node, int input)
{
    if (th_node_is(node, "matmul"))
        return input_tensor(node, 0)->ndim > 1 && input_tensor(node, 1)->ndim > 1;
    return th_node_is(node, "dense") || th_node_is(node, "mul") || th_node_is(node, "add") ||
           th_node_is(node, "add_scalar") || th_node_is(node, "expand") || (th_node_is(node, "sub") && input == 0) ||
           (th_node_is(node, "dropout_residual") && input == 1);
}

bool th_find_factor(const th_node *node, int input, const th_element *element, const th_element *at, th_factor *factor)
{
    if (th_node_is(node, "matmul"))
        return find_matmul_factor(node, input, element, at, factor);
    if (th_node_is(node, "dense"))
        return find_dense_factor(node, input, element, at, factor);
    return find_elementwise_factor(node, input, element, at, factor);
}

/* The attributes of each operation as arguments of its function in the script. An operation of the registry without a
 * line in the table at the end cannot be exported. */
#include <inttypes.h>
#include <string.h>

#include "export/python/script.h"
#include "ops/shared/attention.h"
#include "ops/shared/attributes.h"
#include "ops/shared/axes.h"
#include "ops/shared/drop.h"
#include "ops/shared/join.h"
#include "ops/shared/norm.h"
#include "ops/shared/rotary_scaling.h"

typedef struct writer {
    FILE *file;
    const th_node *node;
    const void *attributes;
} writer;

/* -- parts -- */

static void put_number(const writer *w, const char *name, double number)
{
    fprintf(w->file, ", %s=", name);
    th_script_put_double(w->file, number);
}

static void put_integer(const writer *w, const char *name, int64_t number)
{
    fprintf(w->file, ", %s=%" PRId64, name, number);
}

/* Writes an axis counted from the beginning. ndim: of the tensor that has it. */
static void put_axis(const writer *w, int axis, int ndim)
{
    put_integer(w, "axis", axis < 0 ? axis + ndim : axis);
}

static const th_tensor_impl *input_tensor(const writer *w, int i)
{
    return th_node_input(w->node, i)->tensor;
}

static const th_tensor_impl *output_tensor(const writer *w)
{
    return th_node_output(w->node, 0)->tensor;
}

static void put_integers(const writer *w, const char *name, int n, const int64_t *number)
{
    fprintf(w->file, ", %s=", name);
    th_script_put_integers(w->file, n, number);
}

static void put_rules(const writer *w, const th_mask_rules *rules)
{
    static const char *const causal[] = {"None", "\"top left\"", "\"bottom right\""};
    fprintf(w->file, ", causal=%s, window=", causal[rules->causal]);
    if (rules->has_window)
        th_script_put_integers(w->file, 2, (const int64_t[]){rules->left, rules->right});
    else
        fputs("None", w->file);
    if (rules->documents)
        fputs(", documents=True", w->file);
}

/* -- one function for each kind of attributes -- */

static void put_nothing(const writer *w)
{
    (void)w;
}

static void put_factor(const writer *w)
{
    put_number(w, "factor", *(const double *)w->attributes);
}

static void put_scalar(const writer *w)
{
    put_number(w, "number", *(const double *)w->attributes);
}

static void put_exponent(const writer *w)
{
    put_number(w, "exponent", *(const double *)w->attributes);
}

static void put_clamp(const writer *w)
{
    const th_clamp_attributes *a = w->attributes;
    put_number(w, "low", a->low);
    put_number(w, "high", a->high);
}

static void put_dtype(const writer *w)
{
    fprintf(w->file, ", dtype=\"%s\"", th_dtype_name(output_tensor(w)->dtype));
}

static void put_input_axis(const writer *w)
{
    put_axis(w, ((const th_axis *)w->attributes)->axis, input_tensor(w, 0)->ndim);
}

static void put_reduction(const writer *w)
{
    const th_reduction *a = w->attributes;
    int64_t axes[TH_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < input_tensor(w, 0)->ndim; i++)
        if (a->along >> i & 1)
            axes[n++] = i;
    put_integers(w, "axes", n, axes);
    fprintf(w->file, ", keep_axes=%s", a->keep_axes ? "True" : "False");
}

static void put_variance(const writer *w)
{
    put_reduction(w);
    put_number(w, "correction", ((const th_reduction *)w->attributes)->correction);
}

static void put_eps(const writer *w)
{
    put_number(w, "eps", ((const th_norm_attributes *)w->attributes)->eps);
}

static void put_class_loss(const writer *w)
{
    const th_cross_entropy_options *a = w->attributes;
    if (a->ignore)
        put_integer(w, "ignore_index", a->ignore_index);
    else
        fputs(", ignore_index=None", w->file);
    put_number(w, "label_smoothing", a->label_smoothing);
    if (a->normalizer > 0)
        put_number(w, "normalizer", a->normalizer);
    else
        fputs(", normalizer=None", w->file);
}

static void put_joined_axis(const writer *w)
{
    put_axis(w, ((const th_join_attributes *)w->attributes)->axis, output_tensor(w)->ndim);
}

static void put_gathered_axis(const writer *w)
{
    put_axis(w, ((const th_gather_attributes *)w->attributes)->axis, input_tensor(w, 0)->ndim);
}

static void put_squeezed_axis(const writer *w)
{
    put_axis(w, ((const th_squeeze_attributes *)w->attributes)->axis, input_tensor(w, 0)->ndim);
}

static void put_new_axis(const writer *w)
{
    put_axis(w, ((const th_unsqueeze_attributes *)w->attributes)->axis, output_tensor(w)->ndim);
}

static int64_t count_from_start(int64_t index, int64_t size)
{
    return index < 0 ? index + size : index;
}

static void put_selection(const writer *w)
{
    const th_select_attributes *a = w->attributes;
    const int axis_of_x = (int)count_from_start(a->axis, input_tensor(w, 0)->ndim);
    put_integer(w, "axis", axis_of_x);
    put_integer(w, "index", count_from_start(a->index, input_tensor(w, 0)->size[axis_of_x]));
}

static void put_slice(const writer *w)
{
    const th_slice_attributes *a = w->attributes;
    const int axis_of_x = (int)count_from_start(a->axis, input_tensor(w, 0)->ndim);
    const int64_t size = input_tensor(w, 0)->size[axis_of_x];
    put_integer(w, "axis", axis_of_x);
    put_integer(w, "start", count_from_start(a->start, size));
    put_integer(w, "stop", count_from_start(a->stop, size));
    put_integer(w, "step", a->step);
}

static void put_axis_order(const writer *w)
{
    const th_transpose_attributes *a = w->attributes;
    const int ndim = input_tensor(w, 0)->ndim;
    const int64_t first = count_from_start(a->a, ndim), second = count_from_start(a->b, ndim);
    int64_t order[TH_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
        if (a->swap)
            order[i] = i == first ? second : i == second ? first : i;
        else
            order[i] = count_from_start(a->order.size[i], ndim);
    put_integers(w, "order", ndim, order);
}

static void put_output_shape(const writer *w)
{
    put_integers(w, "shape", output_tensor(w)->ndim, output_tensor(w)->size);
}

static void put_repetitions(const writer *w)
{
    const th_shape *times = &((const th_repeat_attributes *)w->attributes)->times;
    put_integers(w, "times", times->ndim, times->size);
}

static void put_probability(const writer *w)
{
    put_number(w, "p", ((const th_drop_attributes *)w->attributes)->p);
}

static void put_side(const writer *w)
{
    const th_masked_matmul_attributes *a = w->attributes;
    fprintf(w->file, ", side=\"%s\"", a->side == TH_MASK_LEFT ? "left" : "result");
}

static void put_mask(const writer *w)
{
    put_rules(w, w->attributes);
}

static void put_attention(const writer *w)
{
    const th_attention_attributes *a = w->attributes;
    put_rules(w, &a->rules);
    put_number(w, "scale", th_attention_scale(a, input_tensor(w, 0)->size[input_tensor(w, 0)->ndim - 1]));
    put_number(w, "soft_cap", a->soft_cap);
    put_number(w, "p", a->dropout);
}

/* Writes numbers as a Python list. */
static void put_list(const writer *w, int64_t count, const double *numbers)
{
    for (int64_t i = 0; i < count; i++) {
        fputs(i ? ", " : "[", w->file);
        th_script_put_double(w->file, numbers[i]);
    }
    fputc(']', w->file);
}

/* The set of one kind of scaling, and of all kinds that have an original length. */
#define KIND(name) (1u << TH_ROTARY_##name)
#define WITH_LENGTH (KIND(LLAMA3) | KIND(DYNAMIC) | KIND(YARN) | KIND(LONGROPE))

/* Writes the members of a scaling that its formula in NumPy and PyTorch reads. */
static void put_scaling(const writer *w, const th_rotary_scaling *scaling)
{
    static const char *const kind[] = {"default", "linear", "llama3", "dynamic", "yarn", "longrope"};
    const struct {
        const char *name;
        double number;
        unsigned kinds; /* that have it */
    } member[] = {
        {"factor", scaling->factor, KIND(LINEAR) | KIND(LLAMA3) | KIND(DYNAMIC) | KIND(YARN)},
        {"low_freq_factor", scaling->low_freq_factor, KIND(LLAMA3)},
        {"high_freq_factor", scaling->high_freq_factor, KIND(LLAMA3)},
        {"original_length", (double)scaling->original_length, WITH_LENGTH},
        {"attention_factor", th_rotary_attention_factor(scaling), KIND(YARN) | KIND(LONGROPE)},
        {"beta_fast", scaling->beta_fast == 0 ? 32 : scaling->beta_fast, KIND(YARN)},
        {"beta_slow", scaling->beta_slow == 0 ? 1 : scaling->beta_slow, KIND(YARN)},
        {"truncate", scaling->no_truncate ? 0 : 1, KIND(YARN)},
    };
    fprintf(w->file, "{\"kind\": \"%s\"", kind[scaling->kind]);
    for (size_t i = 0; i < sizeof member / sizeof member[0]; i++)
        if (member[i].kinds >> scaling->kind & 1) {
            fprintf(w->file, ", \"%s\": ", member[i].name);
            th_script_put_double(w->file, member[i].number);
        }
    if (scaling->kind == TH_ROTARY_LONGROPE) {
        fputs(", \"short_factor\": ", w->file);
        put_list(w, scaling->n_factors, scaling->short_factor);
        fputs(", \"long_factor\": ", w->file);
        put_list(w, scaling->n_factors, scaling->long_factor);
    }
    fputc('}', w->file);
}
#undef KIND
#undef WITH_LENGTH

static void put_rotary(const writer *w)
{
    const th_rotary_attributes *a = w->attributes;
    put_number(w, "base", a->base);
    put_integer(w, "width", a->width);
    fprintf(w->file, ", pairing=\"%s\", scaling=", a->pairing == TH_ROTARY_NEIGHBORS ? "neighbors" : "halves");
    if (a->scaling.kind == TH_ROTARY_UNSCALED)
        fputs("None", w->file);
    else
        put_scaling(w, &a->scaling);
}

/* -- the table -- */

static const struct entry {
    const char *operation;
    void (*put)(const writer *w);
} entries[] = {
    {"abs", put_nothing},
    {"add", put_nothing},
    {"add_scalar", put_scalar},
    {"cast", put_dtype},
    {"clamp", put_clamp},
    {"concat", put_joined_axis},
    {"contiguous", put_nothing},
    {"cos", put_nothing},
    {"cross_entropy", put_class_loss},
    {"dense", put_nothing},
    {"dense_cross_entropy", put_class_loss},
    {"div", put_nothing},
    {"dropout", put_probability},
    {"dropout_residual", put_probability},
    {"embedding", put_nothing},
    {"exp", put_nothing},
    {"expand", put_output_shape},
    {"gather", put_gathered_axis},
    {"gelu", put_nothing},
    {"gelu_tanh", put_nothing},
    {"layer_norm", put_eps},
    {"log", put_nothing},
    {"log_softmax", put_input_axis},
    {"log_sum_exp", put_reduction},
    {"masked_matmul", put_side},
    {"masked_softmax", put_mask},
    {"matmul", put_nothing},
    {"max", put_reduction},
    {"maximum", put_nothing},
    {"mean", put_reduction},
    {"minimum", put_nothing},
    {"mse", put_nothing},
    {"mul", put_nothing},
    {"neg", put_nothing},
    {"pow", put_nothing},
    {"pow_scalar", put_exponent},
    {"relu", put_nothing},
    {"relu_squared", put_nothing},
    {"repeat", put_repetitions},
    {"reshape", put_output_shape},
    {"rms_norm", put_eps},
    {"rotary", put_rotary},
    {"rsqrt", put_nothing},
    {"scale", put_factor},
    {"scaled_dot_product_attention", put_attention},
    {"select", put_selection},
    {"sigmoid", put_nothing},
    {"silu", put_nothing},
    {"sin", put_nothing},
    {"slice", put_slice},
    {"softmax", put_input_axis},
    {"softplus", put_nothing},
    {"sqrt", put_nothing},
    {"squeeze", put_squeezed_axis},
    {"stack", put_joined_axis},
    {"sub", put_nothing},
    {"sum", put_reduction},
    {"tanh", put_nothing},
    {"transpose", put_axis_order},
    {"unsqueeze", put_new_axis},
    {"variance", put_variance},
    {"where", put_nothing},
};

static const struct entry *find_entry(const th_op *op)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        if (strcmp(entries[i].operation, op->name) == 0 && th_op_find(op->name) == op)
            return &entries[i];
    return NULL;
}

bool th_script_supports(const th_op *op)
{
    return find_entry(op) != NULL;
}

void th_script_put_attributes(const th_script *script, int64_t node)
{
    const th_node *recorded = th_listing_node(&script->listing, node);
    const writer w = {.file = script->file, .node = recorded, .attributes = recorded->attributes};
    find_entry(recorded->op)->put(&w);
}

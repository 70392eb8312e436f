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

static const th_tensor_impl *input(const writer *w, int i)
{
    return th_node_input(w->node, i)->tensor;
}

static const th_tensor_impl *output(const writer *w)
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

static void nothing(const writer *w)
{
    (void)w;
}

static void factor(const writer *w)
{
    put_number(w, "factor", *(const double *)w->attributes);
}

static void number(const writer *w)
{
    put_number(w, "number", *(const double *)w->attributes);
}

static void exponent(const writer *w)
{
    put_number(w, "exponent", *(const double *)w->attributes);
}

static void clamp(const writer *w)
{
    const th_clamp_attributes *a = w->attributes;
    put_number(w, "low", a->low);
    put_number(w, "high", a->high);
}

static void cast(const writer *w)
{
    fprintf(w->file, ", dtype=\"%s\"", th_dtype_name(output(w)->dtype));
}

static void axis(const writer *w)
{
    put_axis(w, ((const th_axis *)w->attributes)->axis, input(w, 0)->ndim);
}

static void reduction(const writer *w)
{
    const th_reduction *a = w->attributes;
    int64_t axes[TH_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < input(w, 0)->ndim; i++)
        if (a->along >> i & 1)
            axes[n++] = i;
    put_integers(w, "axes", n, axes);
    fprintf(w->file, ", keep_axes=%s", a->keep_axes ? "True" : "False");
}

static void variance(const writer *w)
{
    reduction(w);
    put_number(w, "correction", ((const th_reduction *)w->attributes)->correction);
}

static void norm(const writer *w)
{
    put_number(w, "eps", ((const th_norm_attributes *)w->attributes)->eps);
}

static void class_loss(const writer *w)
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

static void join(const writer *w)
{
    put_axis(w, ((const th_join_attributes *)w->attributes)->axis, output(w)->ndim);
}

static void gather(const writer *w)
{
    put_axis(w, ((const th_gather_attributes *)w->attributes)->axis, input(w, 0)->ndim);
}

static void squeeze(const writer *w)
{
    put_axis(w, ((const th_squeeze_attributes *)w->attributes)->axis, input(w, 0)->ndim);
}

static void unsqueeze(const writer *w)
{
    put_axis(w, ((const th_unsqueeze_attributes *)w->attributes)->axis, output(w)->ndim);
}

static int64_t from_start(int64_t index, int64_t size)
{
    return index < 0 ? index + size : index;
}

static void select(const writer *w)
{
    const th_select_attributes *a = w->attributes;
    const int axis_of_x = (int)from_start(a->axis, input(w, 0)->ndim);
    put_integer(w, "axis", axis_of_x);
    put_integer(w, "index", from_start(a->index, input(w, 0)->size[axis_of_x]));
}

static void slice(const writer *w)
{
    const th_slice_attributes *a = w->attributes;
    const int axis_of_x = (int)from_start(a->axis, input(w, 0)->ndim);
    const int64_t size = input(w, 0)->size[axis_of_x];
    put_integer(w, "axis", axis_of_x);
    put_integer(w, "start", from_start(a->start, size));
    put_integer(w, "stop", from_start(a->stop, size));
    put_integer(w, "step", a->step);
}

static void transpose(const writer *w)
{
    const th_transpose_attributes *a = w->attributes;
    const int ndim = input(w, 0)->ndim;
    const int64_t first = from_start(a->a, ndim), second = from_start(a->b, ndim);
    int64_t order[TH_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
        if (a->swap)
            order[i] = i == first ? second : i == second ? first : i;
        else
            order[i] = from_start(a->order.size[i], ndim);
    put_integers(w, "order", ndim, order);
}

static void shape(const writer *w)
{
    put_integers(w, "shape", output(w)->ndim, output(w)->size);
}

static void repeat(const writer *w)
{
    const th_shape *times = &((const th_repeat_attributes *)w->attributes)->times;
    put_integers(w, "times", times->ndim, times->size);
}

static void dropout(const writer *w)
{
    put_number(w, "p", ((const th_drop_attributes *)w->attributes)->p);
}

static void masked_matmul(const writer *w)
{
    const th_masked_matmul_attributes *a = w->attributes;
    fprintf(w->file, ", side=\"%s\"", a->side == TH_MASK_LEFT ? "left" : "result");
}

static void masked_softmax(const writer *w)
{
    put_rules(w, w->attributes);
}

static void attention(const writer *w)
{
    const th_attention_attributes *a = w->attributes;
    put_rules(w, &a->rules);
    put_number(w, "scale", th_attention_scale(a, input(w, 0)->size[input(w, 0)->ndim - 1]));
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
static void put_scaling(const writer *w, const th_rotary_scaling *s)
{
    static const char *const kind[] = {"default", "linear", "llama3", "dynamic", "yarn", "longrope"};
    const struct {
        const char *name;
        double number;
        unsigned kinds; /* that have it */
    } member[] = {
        {"factor", s->factor, KIND(LINEAR) | KIND(LLAMA3) | KIND(DYNAMIC) | KIND(YARN)},
        {"low_freq_factor", s->low_freq_factor, KIND(LLAMA3)},
        {"high_freq_factor", s->high_freq_factor, KIND(LLAMA3)},
        {"original_length", (double)s->original_length, WITH_LENGTH},
        {"attention_factor", th_rotary_attention_factor(s), KIND(YARN) | KIND(LONGROPE)},
        {"beta_fast", s->beta_fast == 0 ? 32 : s->beta_fast, KIND(YARN)},
        {"beta_slow", s->beta_slow == 0 ? 1 : s->beta_slow, KIND(YARN)},
        {"truncate", s->no_truncate ? 0 : 1, KIND(YARN)},
    };
    fprintf(w->file, "{\"kind\": \"%s\"", kind[s->kind]);
    for (size_t i = 0; i < sizeof member / sizeof member[0]; i++)
        if (member[i].kinds >> s->kind & 1) {
            fprintf(w->file, ", \"%s\": ", member[i].name);
            th_script_put_double(w->file, member[i].number);
        }
    if (s->kind == TH_ROTARY_LONGROPE) {
        fputs(", \"short_factor\": ", w->file);
        put_list(w, s->n_factors, s->short_factor);
        fputs(", \"long_factor\": ", w->file);
        put_list(w, s->n_factors, s->long_factor);
    }
    fputc('}', w->file);
}
#undef KIND
#undef WITH_LENGTH

static void rotary(const writer *w)
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
    {"abs", nothing},
    {"add", nothing},
    {"add_scalar", number},
    {"cast", cast},
    {"clamp", clamp},
    {"concat", join},
    {"contiguous", nothing},
    {"cos", nothing},
    {"cross_entropy", class_loss},
    {"dense", nothing},
    {"dense_cross_entropy", class_loss},
    {"div", nothing},
    {"dropout", dropout},
    {"dropout_residual", dropout},
    {"embedding", nothing},
    {"exp", nothing},
    {"expand", shape},
    {"gather", gather},
    {"gelu", nothing},
    {"gelu_tanh", nothing},
    {"layer_norm", norm},
    {"log", nothing},
    {"log_softmax", axis},
    {"log_sum_exp", reduction},
    {"masked_matmul", masked_matmul},
    {"masked_softmax", masked_softmax},
    {"matmul", nothing},
    {"max", reduction},
    {"maximum", nothing},
    {"mean", reduction},
    {"minimum", nothing},
    {"mse", nothing},
    {"mul", nothing},
    {"neg", nothing},
    {"pow", nothing},
    {"pow_scalar", exponent},
    {"relu", nothing},
    {"repeat", repeat},
    {"reshape", shape},
    {"rms_norm", norm},
    {"rotary", rotary},
    {"rsqrt", nothing},
    {"scale", factor},
    {"scaled_dot_product_attention", attention},
    {"select", select},
    {"sigmoid", nothing},
    {"silu", nothing},
    {"sin", nothing},
    {"slice", slice},
    {"softmax", axis},
    {"sqrt", nothing},
    {"squeeze", squeeze},
    {"stack", join},
    {"sub", nothing},
    {"sum", reduction},
    {"tanh", nothing},
    {"transpose", transpose},
    {"unsqueeze", unsqueeze},
    {"variance", variance},
    {"where", nothing},
};

static const struct entry *find(const th_op *op)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        if (strcmp(entries[i].operation, op->name) == 0 && th_op_find(op->name) == op)
            return &entries[i];
    return NULL;
}

bool th_script_knows(const th_op *op)
{
    return find(op) != NULL;
}

void th_script_put_attributes(const th_script *s, int64_t node)
{
    const th_node *recorded = th_listing_node(&s->listing, node);
    const writer w = {.file = s->file, .node = recorded, .attributes = recorded->attributes};
    find(recorded->op)->put(&w);
}

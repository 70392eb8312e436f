/* Heads that rotate neighbors become heads that rotate halves, by another order of the rows of queries and keys. Of the
 * rotated rows of each head, the even ones come first, then the odd ones. Scores do not depend on the order of rows. */
#include <stdlib.h>
#include <string.h>

#include "models/core/modules.h"
#include "models/families/family.h"
#include "tapehead/ops.h"
#include "tapehead/tensor.h"

/* Reorders the rows of whole heads, or undoes this. */
static th_tensor *reorder(th_tensor *t, int64_t head_width, int64_t rotated, bool undo)
{
    const th_shape shape = th_shape_of(t);
    const int64_t heads = shape.size[0] / head_width, rest = shape.ndim == 2 ? shape.size[1] : 1;
    th_tensor *rows = th_reshape(t, TH_SHAPE(heads, head_width, rest));
    const int64_t outer = undo ? 2 : rotated / 2, inner = undo ? rotated / 2 : 2;
    th_tensor *pairs = th_reshape(th_slice(rows, 1, 0, rotated, 1), TH_SHAPE(heads, outer, inner, rest));
    th_tensor *parts[] = {th_reshape(th_swap_axes(pairs, 1, 2), TH_SHAPE(heads, rotated, rest)),
                          th_slice(rows, 1, rotated, head_width, 1)};
    return th_reshape(rotated < head_width ? th_concat(parts, 2, 1) : parts[0], shape);
}

/* Returns the number of leading rows that are queries or keys; 0 for other parameters. */
static int64_t rows_of(const char *name, const th_tensor *t, const th_language_model_options *o)
{
    if (th_name_ends_with(name, ".self_attn.in_proj_weight") || th_name_ends_with(name, ".self_attn.in_proj_bias"))
        return (o->heads + o->block.kv_heads) * o->block.head_width;
    static const char *const whole[] = {".self_attn.q_proj_weight", ".self_attn.k_proj_weight",
                                        ".self_attn.q_norm.weight", ".self_attn.k_norm.weight"};
    for (int i = 0; i < 4; i++)
        if (th_name_ends_with(name, whole[i]))
            return th_size(t, 0);
    return 0;
}

th_halves th_halves_of(const th_parameter_iterator *parameter, const th_language_model_options *options)
{
    static const char layers[] = "layers.";
    const int64_t rows = rows_of(parameter->name, parameter->tensor, options);
    if (rows == 0 || strncmp(parameter->name, layers, strlen(layers)) != 0)
        return (th_halves){0};
    const th_score_options *scores = th_scores_of_layer(options, strtoll(parameter->name + strlen(layers), NULL, 10));
    if (!scores->rotary || scores->rotary_pairing != TH_ROTARY_NEIGHBORS)
        return (th_halves){0};
    const int64_t width = options->block.head_width;
    return (th_halves){rows, width, scores->rotary_width > 0 ? scores->rotary_width : width};
}

th_tensor *th_halves_order(th_tensor *t, const th_halves *halves)
{
    const int64_t rows = halves->rows, all = th_size(t, 0);
    if (rows == 0)
        return t;
    if (rows == all)
        return reorder(t, halves->head_width, halves->rotated, false);
    th_tensor *parts[] = {reorder(th_slice(t, 0, 0, rows, 1), halves->head_width, halves->rotated, false),
                          th_slice(t, 0, rows, all, 1)};
    return th_concat(parts, 2, 0);
}

th_tensor *th_halves_undo(th_tensor *t, const th_halves *halves)
{
    return reorder(t, halves->head_width, halves->rotated, true);
}

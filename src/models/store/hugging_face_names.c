/* transformers' names for the tensors of GPT-2 and Llama, and the part of our parameters that each one is. Reading
 * and writing use the same table and the same views. Also transformers' names for choices in config.json. */
#include <stdio.h>
#include <string.h>

#include "models/core.h"
#include "models/store/hugging_face.h"
#include "tapehead/ops.h"
#include "tapehead/tensor.h"

/* A part of our parameter. Our projections of attention are concatenated. The first rows, heads * head width of them,
 * are the queries. Half of the remaining rows are the keys, the other half the values. */
typedef enum which { WHOLE, TRANSPOSED, QUERY, KEY, VALUE } which;

typedef struct renaming {
    const char *ours, *theirs; /* * is the index of a layer */
    which part;
} renaming;

static const renaming gpt2[] = {
    {"embedding.weight", "transformer.wte.weight", WHOLE},
    {"position.weight", "transformer.wpe.weight", WHOLE},
    {"layers.*.norm1.weight", "transformer.h.*.ln_1.weight", WHOLE},
    {"layers.*.norm1.bias", "transformer.h.*.ln_1.bias", WHOLE},
    {"layers.*.self_attn.in_proj_weight", "transformer.h.*.attn.c_attn.weight", TRANSPOSED},
    {"layers.*.self_attn.in_proj_bias", "transformer.h.*.attn.c_attn.bias", WHOLE},
    {"layers.*.self_attn.out_proj.weight", "transformer.h.*.attn.c_proj.weight", TRANSPOSED},
    {"layers.*.self_attn.out_proj.bias", "transformer.h.*.attn.c_proj.bias", WHOLE},
    {"layers.*.norm2.weight", "transformer.h.*.ln_2.weight", WHOLE},
    {"layers.*.norm2.bias", "transformer.h.*.ln_2.bias", WHOLE},
    {"layers.*.linear1.weight", "transformer.h.*.mlp.c_fc.weight", TRANSPOSED},
    {"layers.*.linear1.bias", "transformer.h.*.mlp.c_fc.bias", WHOLE},
    {"layers.*.linear2.weight", "transformer.h.*.mlp.c_proj.weight", TRANSPOSED},
    {"layers.*.linear2.bias", "transformer.h.*.mlp.c_proj.bias", WHOLE},
    {"norm.weight", "transformer.ln_f.weight", WHOLE},
    {"norm.bias", "transformer.ln_f.bias", WHOLE},
    {"classifier.weight", "lm_head.weight", WHOLE},
    {NULL, NULL, WHOLE},
};

static const renaming llama[] = {
    {"embedding.weight", "model.embed_tokens.weight", WHOLE},
    {"layers.*.norm1.weight", "model.layers.*.input_layernorm.weight", WHOLE},
    {"layers.*.self_attn.in_proj_weight", "model.layers.*.self_attn.q_proj.weight", QUERY},
    {"layers.*.self_attn.in_proj_weight", "model.layers.*.self_attn.k_proj.weight", KEY},
    {"layers.*.self_attn.in_proj_weight", "model.layers.*.self_attn.v_proj.weight", VALUE},
    {"layers.*.self_attn.q_proj_weight", "model.layers.*.self_attn.q_proj.weight", WHOLE},
    {"layers.*.self_attn.k_proj_weight", "model.layers.*.self_attn.k_proj.weight", WHOLE},
    {"layers.*.self_attn.v_proj_weight", "model.layers.*.self_attn.v_proj.weight", WHOLE},
    {"layers.*.self_attn.in_proj_bias", "model.layers.*.self_attn.q_proj.bias", QUERY},
    {"layers.*.self_attn.in_proj_bias", "model.layers.*.self_attn.k_proj.bias", KEY},
    {"layers.*.self_attn.in_proj_bias", "model.layers.*.self_attn.v_proj.bias", VALUE},
    {"layers.*.self_attn.out_proj.weight", "model.layers.*.self_attn.o_proj.weight", WHOLE},
    {"layers.*.self_attn.out_proj.bias", "model.layers.*.self_attn.o_proj.bias", WHOLE},
    {"layers.*.norm2.weight", "model.layers.*.post_attention_layernorm.weight", WHOLE},
    {"layers.*.gate.weight", "model.layers.*.mlp.gate_proj.weight", WHOLE},
    {"layers.*.gate.bias", "model.layers.*.mlp.gate_proj.bias", WHOLE},
    {"layers.*.linear1.weight", "model.layers.*.mlp.up_proj.weight", WHOLE},
    {"layers.*.linear1.bias", "model.layers.*.mlp.up_proj.bias", WHOLE},
    {"layers.*.linear2.weight", "model.layers.*.mlp.down_proj.weight", WHOLE},
    {"layers.*.linear2.bias", "model.layers.*.mlp.down_proj.bias", WHOLE},
    {"norm.weight", "model.norm.weight", WHOLE},
    {"classifier.weight", "lm_head.weight", WHOLE},
    {NULL, NULL, WHOLE},
};

const char *th_foreign_prefix(th_architecture architecture)
{
    return architecture == TH_GPT2 ? "transformer." : "model.";
}

/* -- one parameter -- */

/* Whether `ours`, with its *, matches name. Sets *number to the start of the layer's index, *digits to its length. */
static bool matches(const char *ours, const char *name, const char **number, int *digits)
{
    const char *star = strchr(ours, '*');
    *number = "", *digits = 0;
    if (star == NULL)
        return strcmp(ours, name) == 0;
    const size_t before = (size_t)(star - ours);
    if (strncmp(ours, name, before) != 0)
        return false;
    *number = name + before;
    *digits = (int)strspn(*number, "0123456789");
    return *digits > 0 && strcmp(star + 1, *number + *digits) == 0;
}

static void put_number(const char *theirs, const char *number, int digits, char *name)
{
    const char *star = strchr(theirs, '*');
    if (star)
        snprintf(name, TH_FULL_NAME_SIZE, "%.*s%.*s%s", (int)(star - theirs), theirs, digits, number, star + 1);
    else
        snprintf(name, TH_FULL_NAME_SIZE, "%s", theirs);
}

static th_tensor *view_of(th_tensor *parameter, which part, int64_t queries)
{
    if (part == WHOLE)
        return parameter;
    if (part == TRANSPOSED)
        return th_swap_axes(parameter, 0, 1);
    const int64_t rows = th_size(parameter, 0), each = (rows - queries) / 2;
    const int64_t begin = part == QUERY ? 0 : queries + (part == KEY ? 0 : each);
    return th_slice(parameter, 0, begin, begin + (part == QUERY ? queries : each), 1);
}

/* -- all parameters -- */

/* Appends every part of a parameter. If the memory is NULL, only counts them. */
static void add_parameter(th_foreign_tensors *list, char (*names)[TH_FULL_NAME_SIZE], const renaming *table,
                          const th_parameter_iterator *p, int64_t queries)
{
    for (const renaming *n = table; n->ours; n++) {
        const char *number;
        int digits;
        if (!matches(n->ours, p->name, &number, &digits))
            continue;
        if (names) {
            put_number(n->theirs, number, digits, names[list->count]);
            list->tensor[list->count] = (th_named_tensor){names[list->count], view_of(p->tensor, n->part, queries)};
        }
        list->count++;
    }
}

/* Counts the tensors. A parameter without a name is an error. */
static th_status count_tensors(th_module *model, const renaming *table, const char *operation, th_foreign_tensors *list)
{
    *list = (th_foreign_tensors){0};
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
        const int64_t before = list->count;
        add_parameter(list, NULL, table, &p, 0);
        if (list->count == before)
            return th_fail(model->ctx, TH_ERROR_ARGUMENT, operation,
                           "the model has a parameter %s, for which transformers has no name", p.name);
    }
    return TH_OK;
}

th_status th_foreign_tensors_list(th_module *model, th_architecture architecture, const char *operation,
                                  th_foreign_tensors *list)
{
    th_context *ctx = model->ctx;
    const renaming *table = architecture == TH_GPT2 ? gpt2 : llama;
    const th_language_model_options *o = th_language_model_options_of(model);
    const int64_t queries = o->heads * o->block.head_width;
    if (count_tensors(model, table, operation, list) != TH_OK)
        return th_error_code(ctx);
    list->bytes = (size_t)list->count * (sizeof(th_named_tensor) + TH_FULL_NAME_SIZE);
    list->tensor = th_allocate(ctx, list->bytes);
    if (list->tensor == NULL)
        return th_fail_memory(ctx, operation, list->bytes);
    char(*names)[TH_FULL_NAME_SIZE] = (char(*)[TH_FULL_NAME_SIZE])(list->tensor + list->count);
    list->count = 0;
    th_no_grad_begin(ctx);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        add_parameter(list, names, table, &p, queries);
    th_no_grad_end(ctx);
    if (th_failed(ctx))
        th_foreign_tensors_free(ctx, list);
    return th_error_code(ctx);
}

void th_foreign_tensors_free(th_context *ctx, th_foreign_tensors *list)
{
    th_release(ctx, list->tensor, list->bytes);
    *list = (th_foreign_tensors){0};
}

/* -- names in config.json -- */

/* If an activation has several names, the first one is written. */
static const struct {
    const char *name;
    th_activation activation;
} activations[] = {
    {"gelu_new", TH_GELU_TANH},
    {"gelu_pytorch_tanh", TH_GELU_TANH},
    {"gelu_python_tanh", TH_GELU_TANH},
    {"gelu_fast", TH_GELU_TANH},
    {"gelu", TH_GELU},
    {"gelu_python", TH_GELU},
    {"relu", TH_RELU},
    {"silu", TH_SILU},
    {"swish", TH_SILU},
};
enum { ACTIVATIONS = sizeof activations / sizeof activations[0] };

const char *th_activation_name(th_activation activation)
{
    for (int i = 0; i < ACTIVATIONS; i++)
        if (activations[i].activation == activation)
            return activations[i].name;
    return NULL;
}

bool th_activation_find(const char *name, th_activation *activation)
{
    for (int i = 0; i < ACTIVATIONS; i++)
        if (strcmp(activations[i].name, name) == 0) {
            *activation = activations[i].activation;
            return true;
        }
    return false;
}

/* In the order of the enumeration. */
static const char *const rotary_scalings[] = {"default", "linear", "llama3", "dynamic", "yarn", "longrope"};

const char *th_rotary_scaling_name(th_rotary_scaling_kind kind)
{
    return rotary_scalings[kind];
}

bool th_rotary_scaling_find(const char *name, th_rotary_scaling_kind *kind)
{
    for (int i = TH_ROTARY_UNSCALED; i <= TH_ROTARY_LONGROPE; i++)
        if (strcmp(rotary_scalings[i], name) == 0) {
            *kind = (th_rotary_scaling_kind)i;
            return true;
        }
    return false;
}

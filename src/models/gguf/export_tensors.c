/* Lists and writes the tensors of a GGUF file. A tensor is converted when it is written, so that only one takes memory
 * beside the model. */
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/core/tensors.h"
#include "models/families/options.h"
#include "models/gguf/blocks.h"
#include "models/gguf/export.h"
#include "models/gguf/options.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"

static const char positions_name[] = "position_embd.weight";

uint32_t th_gguf_file_type(th_dtype type)
{
    switch (type) {
    case TH_FLOAT16:
        return 1;
    case TH_Q4_0:
        return 2;
    case TH_Q8_0:
        return 7;
    case TH_BFLOAT16:
        return 32;
    default:
        return 0;
    }
}

/* -- the list -- */

static int64_t tensor_bytes(const th_gguf_out *o)
{
    int64_t numbers = 1;
    for (int i = 0; i < o->shape.ndim; i++)
        numbers *= o->shape.size[i];
    return numbers / o->type->numbers * o->type->bytes;
}

/* Returns the type as which a tensor is written. */
static th_dtype type_to_write(const th_gguf_export *e, const th_foreign_tensor *t, const th_shape *shape)
{
    if (shape->ndim != 2 || th_name_ends_with(t->name, "norm.weight") || strcmp(t->name, positions_name) == 0 ||
        strcmp(t->name, "token_types.weight") == 0)
        return TH_FLOAT32;
    const int numbers = th_dtype_numbers(e->type);
    return shape->size[1] % numbers == 0 ? e->type : TH_FLOAT16;
}

void th_gguf_add_tensor(th_gguf_export *e, const char *name, const th_foreign_tensor *source)
{
    th_gguf_out *o = &e->out[e->n_out++];
    *o = (th_gguf_out){.name = name, .source = source, .shape = source->shape};
    const int numbers = th_dtype_numbers(th_dtype_of(source->view[0]));
    o->shape.size[o->shape.ndim - 1] *= numbers;
    o->type = th_gguf_type_of(type_to_write(e, source, &o->shape));
    o->bytes = tensor_bytes(o);
}

static void add_factors(th_gguf_export *e, const char *name, const double *factors, int64_t count)
{
    th_gguf_out *o = &e->out[e->n_out++];
    *o = (th_gguf_out){.name = name, .factors = factors, .shape = TH_SHAPE(count), .type = th_gguf_type_of(TH_FLOAT32)};
    o->bytes = tensor_bytes(o);
}

/* Adds the factors of scaled rotary positions: by how much each frequency is divided. */
static th_status list_factors(th_gguf_export *e)
{
    const th_language_model_options *m = e->options;
    const th_score_options *scores = &m->block.scores;
    const th_rotary_scaling *s = &scores->rotary_scaling;
    if (!scores->rotary || !th_gguf_has_factors(e->architecture, s))
        return TH_OK;
    const int64_t width = scores->rotary_width, pairs = width / 2;
    e->factor_count = 2 * (size_t)pairs;
    e->factors = th_allocate(e->ctx, e->factor_count * sizeof *e->factors);
    if (e->factors == NULL)
        return th_fail_memory(e->ctx, e->operation, e->factor_count * sizeof *e->factors);
    if (e->architecture->factors == TH_GGUF_TWO_FACTORS) {
        add_factors(e, TH_GGUF_SHORT, s->short_factor, pairs);
        add_factors(e, TH_GGUF_LONG, s->long_factor, pairs);
        return TH_OK;
    }
    const th_rotary_scaling none = {0};
    th_rotary_frequencies(&none, scores->rotary_base, width, 1, e->factors);
    th_rotary_frequencies(s, scores->rotary_base, width, 1, e->factors + pairs);
    for (int64_t i = 0; i < pairs; i++)
        e->factors[i] /= e->factors[pairs + i];
    add_factors(e, TH_GGUF_FREQUENCIES, e->factors, pairs);
    return TH_OK;
}

/* Removes the rows before the first position. */
static void cut_positions(const th_gguf_export *e, th_foreign_tensor *t)
{
    const int64_t first = e->options->first_position;
    t->view[0] = th_slice(t->view[0], 0, first, t->shape.size[0], 1);
    t->shape.size[0] -= first;
}

static bool has_stored_weights(const th_module *model)
{
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (th_is_storage_type(th_dtype_of(p.tensor)))
            return true;
    return false;
}

static bool has_rotary_pairing(const th_language_model_options *m, th_rotary_pairing pairing)
{
    for (int64_t i = 0; i < m->layers; i++) {
        const th_score_options *scores = th_scores_of_layer(m, i);
        if (scores->rotary && scores->rotary_pairing == pairing)
            return true;
    }
    return false;
}

th_status th_gguf_list(th_gguf_export *e, th_module *model, const th_family *family)
{
    const bool neighbors = has_rotary_pairing(e->options, TH_ROTARY_NEIGHBORS);
    const bool to_halves = neighbors && !e->architecture->neighbors;
    if (to_halves && has_stored_weights(model))
        return th_fail(e->ctx, TH_ERROR_TYPE, e->operation,
                       "stored weights of queries and keys that rotate neighbors cannot become %s; th_module_store "
                       "converts them back to float32",
                       e->architecture->name);
    if (e->architecture->neighbors && neighbors && has_rotary_pairing(e->options, TH_ROTARY_HALVES))
        return th_fail(e->ctx, TH_ERROR_ARGUMENT, e->operation, "some layers rotate neighbors, and others halves");
    e->reorder = e->architecture->neighbors && has_rotary_pairing(e->options, TH_ROTARY_HALVES);
    if (th_foreign_tensors_list(model, family, e->operation, to_halves, &e->list) != TH_OK)
        return th_error_code(e->ctx);
    e->out_bytes = ((size_t)e->list.count + 3) * sizeof *e->out; /* (factors, and a copy of the embedding) */
    e->out = th_allocate(e->ctx, e->out_bytes);
    if (e->out == NULL) {
        th_gguf_list_free(e);
        return th_fail_memory(e->ctx, e->operation, e->out_bytes);
    }
    for (int64_t i = 0; i < e->list.count; i++) {
        th_foreign_tensor *t = &e->list.tensor[i];
        if (e->options->first_position > 0 && strcmp(t->name, positions_name) == 0)
            cut_positions(e, t);
        th_gguf_add_tensor(e, t->name, t);
        if (e->architecture->needs_output && !e->options->untied && strcmp(t->name, family->embedding) == 0)
            th_gguf_add_tensor(e, family->classifier, t);
    }
    if (list_factors(e) != TH_OK)
        th_gguf_list_free(e);
    return th_error_code(e->ctx);
}

void th_gguf_list_free(th_gguf_export *e)
{
    th_foreign_tensors_free(e->ctx, &e->list);
    th_release(e->ctx, e->out, e->out_bytes);
    th_release(e->ctx, e->factors, e->factor_count * sizeof *e->factors);
    e->out = NULL;
    e->factors = NULL;
}

/* -- the order of rows -- */

/* Whether the tensor is a projection of queries or keys, whose rows have another order if rotary positions rotate
 * neighbors. */
static bool is_query_or_key(const char *name)
{
    return strstr(name, ".attn_q.") || strstr(name, ".attn_k.");
}

/* Writes rows in the order for neighbors: the rows i and i + rotated / 2 of each head become neighbors. */
static void write_reordered(const th_gguf_export *e, FILE *file, const char *data, int64_t rows, size_t row_bytes)
{
    const int64_t width = e->options->block.head_width, rotated = e->options->block.scores.rotary_width;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t head = row / width * width, i = row % width;
        const int64_t from = i >= rotated ? i : i / 2 + (i % 2) * (rotated / 2);
        fwrite(data + (size_t)(head + from) * row_bytes, 1, row_bytes, file);
    }
}

/* -- writing -- */

/* Returns the tensor's values in the type, contiguous. */
static th_tensor *convert_tensor(th_tensor *t, th_dtype type, double addend)
{
    if (addend != 0) /* the sum in float64 is exact for float32 norms, and rounded once */
        t = th_add_scalar(th_cast(t, TH_FLOAT64), addend);
    const th_dtype present = th_dtype_of(t);
    if (present == type)
        return th_is_storage_type(present) ? t : th_contiguous(t); /* (rows of blocks are contiguous) */
    if (th_is_storage_type(present) || present == TH_FLOAT64)
        t = th_cast(t, TH_FLOAT32);
    return th_cast(th_contiguous(t), type);
}

/* Checks that blocks have finite scales: readers refuse others. */
static bool check_values(const th_gguf_export *e, const th_gguf_out *o, const void *data, int64_t count)
{
    const int64_t block = th_gguf_damaged_block(e->ctx, o->type, data, count * o->type->bytes);
    if (block >= 0)
        th_fail(e->ctx, TH_ERROR_VALUE, e->operation,
                "%s cannot be written as %s: block %lld has a number that is infinite, NaN or too large", o->name,
                o->type->name, (long long)block);
    return block < 0;
}

static void write_tensor(const th_gguf_export *e, const th_gguf_out *o, FILE *file)
{
    const double addend = e->architecture->norms_plus_one && th_name_ends_with(o->name, "norm.weight") ? 1 : 0;
    const bool reorder = e->reorder && is_query_or_key(o->name);
    for (int i = 0; i < o->source->places && !th_failed(e->ctx); i++) {
        th_scope_begin(e->ctx, NULL);
        th_tensor *values = convert_tensor(th_foreign_tensor_view_values(o->source, i), o->type->dtype, addend);
        const void *data = values ? th_data_const(values) : NULL;
        if (data && check_values(e, o, data, th_numel(values))) {
            const int64_t rows = th_size(values, 0);
            const size_t bytes = (size_t)th_numel(values) * (size_t)o->type->bytes;
            if (reorder && rows > 0)
                write_reordered(e, file, data, rows, bytes / (size_t)rows);
            else
                fwrite(data, 1, bytes, file);
        }
        th_scope_end(e->ctx, NULL);
    }
}

static int64_t padded_bytes(int64_t bytes)
{
    return (bytes + TH_GGUF_ALIGNMENT - 1) / TH_GGUF_ALIGNMENT * TH_GGUF_ALIGNMENT;
}

static void write_padding(FILE *file, int64_t bytes)
{
    for (int64_t i = bytes; i < padded_bytes(bytes); i++)
        fputc(0, file);
}

/* Writes the description of a tensor. Returns its bytes. */
static int64_t write_description(const th_gguf_out *o, int64_t offset, FILE *file)
{
    th_gguf_write_string(file, o->name, strlen(o->name));
    th_gguf_write_uint32(file, (uint32_t)o->shape.ndim);
    for (int i = o->shape.ndim - 1; i >= 0; i--)
        th_gguf_write_uint64(file, (uint64_t)o->shape.size[i]);
    th_gguf_write_uint32(file, o->type->code);
    th_gguf_write_uint64(file, (uint64_t)offset);
    return (int64_t)(8 + strlen(o->name) + 4 + 8 * (size_t)o->shape.ndim + 4 + 8);
}

void th_gguf_write_all(const th_gguf_export *e, FILE *file, const char *values, size_t bytes, int64_t n_values)
{
    int64_t header = 24 + (int64_t)bytes, offset = 0;
    fwrite("GGUF\3\0\0\0", 1, 8, file);
    th_gguf_write_uint64(file, (uint64_t)e->n_out);
    th_gguf_write_uint64(file, (uint64_t)n_values);
    fwrite(values, 1, bytes, file);
    for (int64_t i = 0; i < e->n_out; i++) {
        header += write_description(&e->out[i], offset, file);
        offset += padded_bytes(e->out[i].bytes);
    }
    write_padding(file, header);
    for (int64_t i = 0; i < e->n_out && !th_failed(e->ctx) && !ferror(file); i++) {
        const th_gguf_out *o = &e->out[i];
        if (o->source)
            write_tensor(e, o, file);
        for (int64_t j = 0; o->factors && j < o->shape.size[0]; j++)
            th_gguf_write_float32(file, o->factors[j]);
        write_padding(file, o->bytes);
    }
}

/* Packs the texts of a padded batch into rows, and unpacks the results: see packed_rows.h. */
#include "nn/packed_rows.h"

#include <math.h>

#include "nn/module.h"
#include "tapehead/ops.h"
#include "tapehead/tensor.h"
#include "tensor/checked.h"
#include "tensor/context.h"
#include "tensor/convert.h"
#include "tensor/memory.h"
#include "tensor/tensor.h"

static int64_t number_at(const th_array *a, int64_t i, int64_t j)
{
    return th_load_index(a->dtype, a->data, i * a->stride[0] + (a->ndim == 2 ? j * a->stride[1] : 0));
}

/* Places texts one after another: text b begins at begin[b] of all rows. Returns the number of rows. */
static int64_t place_texts(const th_array *lengths, int64_t batch, int64_t row, int64_t *begin)
{
    int64_t end = 0;
    for (int64_t b = 0; b < batch; b++) {
        const int64_t n = number_at(lengths, b, 0), used = end % row;
        if (used > 0 && used + n > row)
            end += row - used;
        begin[b] = end;
        end += n;
    }
    return (end + row - 1) / row;
}

/* Returns the length of a row, at least that of the longest text, for which the layers compute least. A token takes
 * about 24 E^2 operations in the dense layers, and 4 C E in the attention of a row of C tokens. */
static int64_t choose_row(const th_array *lengths, int64_t batch, int64_t longest, int64_t most, int64_t width,
                          int64_t *begin)
{
    enum { STEP = 8 };
    int64_t best = longest;
    double least = INFINITY;
    for (int64_t row = longest; row <= most; row += STEP) {
        const int64_t rows = place_texts(lengths, batch, row, begin);
        const double cost = (double)(rows * row) * (1 + (double)row / (6 * (double)width));
        if (cost < least) {
            least = cost;
            best = row;
        }
        if (rows == 1)
            break;
    }
    return best;
}

static th_tensor *new_numbers(const th_module *model, int64_t rows, int64_t columns, int32_t **data)
{
    th_tensor_impl *numbers =
        th_tensor_new(model->ctx, TH_INT32, 2, (const int64_t[]){rows, columns}, false, model->type);
    *data = numbers ? th_tensor_data(numbers) : NULL;
    return th_handle_of(numbers);
}

/* Returns the numbers of a batch (B, T) in packed rows; zeros are padding. */
static th_tensor *pack_numbers(const th_module *model, const th_array *numbers, const th_array *lengths,
                               const int64_t *begin, int64_t rows, int64_t row)
{
    int32_t *data;
    th_tensor *packed = new_numbers(model, rows, row, &data);
    if (packed == NULL)
        return NULL;
    for (int64_t i = 0; i < rows * row; i++)
        data[i] = 0;
    for (int64_t b = 0; b < numbers->size[0]; b++)
        for (int64_t t = 0, n = number_at(lengths, b, 0); t < n; t++)
            data[begin[b] + t] = (int32_t)number_at(numbers, b, t);
    return packed;
}

/* Returns the number of each token's text. Padding gets the number of texts. */
static th_tensor *number_documents(const th_module *model, const th_array *lengths, int64_t batch, const int64_t *begin,
                                   int64_t rows, int64_t row)
{
    int32_t *data;
    th_tensor *documents = new_numbers(model, rows, row, &data);
    if (documents == NULL)
        return NULL;
    for (int64_t i = 0; i < rows * row; i++)
        data[i] = (int32_t)batch;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t t = 0, n = number_at(lengths, b, 0); t < n; t++)
            data[begin[b] + t] = (int32_t)b;
    return documents;
}

static th_tensor *number_places(const th_module *model, const th_array *lengths, const th_array *tokens,
                                const int64_t *begin)
{
    int32_t *data;
    const int64_t batch = tokens->size[0], length = tokens->size[1];
    th_tensor *places = new_numbers(model, batch, length, &data);
    if (places == NULL)
        return NULL;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t t = 0, n = number_at(lengths, b, 0); t < length; t++)
            data[b * length + t] = (int32_t)(begin[b] + (t < n ? t : 0));
    return places;
}

/* Returns whether these are batches (B, T) with data, all of whose lengths are in [1, T]. */
static bool can_pack(const th_array *tokens, const th_array *types, const th_array *lengths)
{
    const int64_t batch = tokens->size[0], length = tokens->size[1];
    if (batch < 2 || tokens->data == NULL || lengths->data == NULL || !th_is_index(lengths->dtype) ||
        lengths->ndim != 1 || lengths->size[0] != batch)
        return false;
    if (types->ndim > 0 && (types->ndim != 2 || types->size[0] != batch || types->size[1] != length ||
                            !th_is_index(types->dtype) || types->data == NULL))
        return false;
    for (int64_t b = 0; b < batch; b++)
        if (number_at(lengths, b, 0) < 1 || number_at(lengths, b, 0) > length)
            return false;
    return true;
}

/* Makes the tensors if the rows have at least an eighth less tokens than the padded batch. */
static bool pack_if_smaller(const th_module *model, const th_array *tokens, const th_array *types,
                            const th_array *lengths, int64_t most, int64_t width, int64_t *begin,
                            th_packed_rows *packed)
{
    const int64_t batch = tokens->size[0], padded = batch * tokens->size[1];
    const int64_t row = choose_row(lengths, batch, tokens->size[1], most, width, begin);
    const int64_t rows = place_texts(lengths, batch, row, begin);
    if (rows * row > padded - padded / 8)
        return false;
    *packed = (th_packed_rows){.tokens = pack_numbers(model, tokens, lengths, begin, rows, row),
                               .types = types->ndim > 0 ? pack_numbers(model, types, lengths, begin, rows, row) : NULL,
                               .documents = number_documents(model, lengths, batch, begin, rows, row),
                               .places = number_places(model, lengths, tokens, begin)};
    return model->ctx->error == TH_OK;
}

bool th_pack_rows(const th_module *model, th_tensor *tokens, th_tensor *types, th_tensor *lengths, int64_t longest,
                  int64_t width, th_packed_rows *packed)
{
    th_context *ctx = model->ctx;
    const th_tensor_impl *count = th_usable_tensor(lengths, ctx, model->type, "lengths");
    const th_tensor_impl *type = types ? th_usable_tensor(types, ctx, model->type, "types") : NULL;
    if (count == NULL || (types && type == NULL))
        return false;
    const th_array all = th_tensor_array(th_tensor_impl_of(tokens)), n = th_tensor_array(count);
    const th_array typed = type ? th_tensor_array(type) : (th_array){.ndim = 0};
    if (!can_pack(&all, &typed, &n))
        return false;
    const size_t bytes = (size_t)all.size[0] * sizeof(int64_t);
    int64_t *begin = th_allocate(ctx, bytes);
    const bool done = begin && pack_if_smaller(model, &all, &typed, &n, longest, width, begin, packed);
    th_release(ctx, begin, bytes);
    return done;
}

th_tensor *th_unpack_rows(th_tensor *x, th_tensor *places)
{
    if (x == NULL)
        return NULL;
    const int64_t width = th_size(x, 2), rows = th_size(x, 0) * th_size(x, 1);
    return th_embedding(th_reshape(x, TH_SHAPE(rows, width)), places);
}

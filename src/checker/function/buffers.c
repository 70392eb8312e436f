/* The memory of th_check_function: buffers between walls (function.h). */
#include <stdlib.h>
#include <string.h>

#include "checker/function/function.h"
#include "kernels/sizes.h"
#include "tensor/half.h"
#include "tensor/splitmix.h"

bool th_is_checked_type(th_dtype dtype)
{
    return dtype == TH_FLOAT64 || dtype == TH_FLOAT32 || dtype == TH_FLOAT16 || dtype == TH_BFLOAT16;
}

/* Sets the strides, and returns the elements from the first to the end of the last row with its gap. A strided buffer
 * has its last two axes exchanged, and one element of gap after each of its rows. */
static int64_t set_strides(th_buffer *b, bool strided)
{
    int order[TH_MAX_DIMS];
    for (int d = 0; d < b->ndim; d++)
        order[d] = d;
    if (strided && b->ndim >= 2) {
        order[b->ndim - 1] = b->ndim - 2;
        order[b->ndim - 2] = b->ndim - 1;
    }
    int64_t span = 1;
    for (int d = b->ndim - 1; d >= 0; d--) {
        const int axis = order[d];
        b->stride[axis] = span;
        span *= b->size[axis] + (strided && d == b->ndim - 1);
    }
    return span;
}

bool th_memory_init(th_function_memory *memory, const th_port *port, th_dtype dtype)
{
    th_buffer *b = &memory->buffer;
    b->dtype = dtype;
    b->ndim = port->ndim;
    b->numel = 1;
    for (int d = 0; d < port->ndim; d++) {
        b->size[d] = port->size[d];
        b->numel *= port->size[d];
    }
    memory->inner = (size_t)set_strides(b, port->strided) * th_dtype_size(dtype);
    memory->bytes = memory->inner + 2 * TH_BUFFER_WALL;
    memory->block = (unsigned char *)malloc(memory->bytes);
    b->data = memory->block ? memory->block + TH_BUFFER_WALL : NULL;
    return memory->block != NULL;
}

void th_memory_free(th_function_memory *memory)
{
    free(memory->block);
    memory->block = NULL;
}

void th_memory_fill(th_function_memory *memory, int byte)
{
    memset(memory->block, byte, memory->bytes);
}

/* Returns whether the gap after each row of a strided buffer has this byte. */
static bool gaps_are(const th_function_memory *memory, int byte)
{
    const th_buffer *b = &memory->buffer;
    const size_t size = th_dtype_size(b->dtype);
    int inner = -1;
    for (int d = 0; d < b->ndim; d++)
        if (b->stride[d] == 1 && inner < 0)
            inner = d;
    const size_t elements = memory->inner / size;
    if (inner < 0 || (int64_t)elements == b->numel)
        return true;
    const size_t row = (size_t)b->size[inner];
    for (size_t start = row; start < elements; start += row + 1)
        if (!th_bytes_are(memory->block + TH_BUFFER_WALL + start * size, size, byte))
            return false;
    return true;
}

bool th_memory_is_intact(const th_function_memory *memory, int byte)
{
    const unsigned char *end = memory->block + TH_BUFFER_WALL + memory->inner;
    return th_bytes_are(memory->block, TH_BUFFER_WALL, byte) && th_bytes_are(end, TH_BUFFER_WALL, byte) &&
           gaps_are(memory, byte);
}

/* The factors are odd, so that no bit of a word is lost, and differ, so that the order counts. */
uint64_t th_memory_sum(const th_function_memory *memory)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < memory->bytes; i += sizeof sum) {
        uint64_t word = 0;
        memcpy(&word, memory->block + i, memory->bytes - i < sizeof word ? memory->bytes - i : sizeof word);
        sum += (word ^ word >> 29) * (th_golden + i);
    }
    return sum;
}

/* Returns whether the elements are row-major without gaps. */
bool th_buffer_is_plain(const th_buffer *b)
{
    int64_t stride = 1;
    for (int d = b->ndim - 1; d >= 0; d--) {
        if (b->stride[d] != stride)
            return false;
        stride *= b->size[d];
    }
    return true;
}

void *th_buffer_element(const th_buffer *buffer, int64_t element)
{
    int64_t offset = element;
    if (buffer->ndim > 0 && !th_buffer_is_plain(buffer)) {
        int64_t index[TH_MAX_DIMS];
        th_index_at(buffer->ndim, buffer->size, element, index);
        offset = th_offset_of(buffer->ndim, index, buffer->stride);
    }
    return (char *)buffer->data + (size_t)offset * th_dtype_size(buffer->dtype);
}

double th_buffer_read(const th_buffer *buffer, int64_t element)
{
    const void *from = th_buffer_element(buffer, element);
    switch (buffer->dtype) {
    case TH_FLOAT64:
        return *(const double *)from;
    case TH_FLOAT32:
        return (double)*(const float *)from;
    case TH_FLOAT16:
        return th_half_value(th_float16_format, *(const uint16_t *)from);
    case TH_BFLOAT16:
        return th_half_value(th_bfloat16_format, *(const uint16_t *)from);
    case TH_INT32:
        return *(const int32_t *)from;
    case TH_INT64:
        return (double)*(const int64_t *)from;
    default:
        return *(const bool *)from;
    }
}

void th_buffer_write(const th_buffer *buffer, int64_t element, double value)
{
    void *to = th_buffer_element(buffer, element);
    switch (buffer->dtype) {
    case TH_FLOAT64:
        *(double *)to = value;
        break;
    case TH_FLOAT32:
        *(float *)to = (float)value;
        break;
    case TH_FLOAT16:
        *(uint16_t *)to = th_half_round(th_float16_format, value);
        break;
    case TH_BFLOAT16:
        *(uint16_t *)to = th_half_round(th_bfloat16_format, value);
        break;
    case TH_INT32:
        *(int32_t *)to = (int32_t)value;
        break;
    case TH_INT64:
        *(int64_t *)to = (int64_t)value;
        break;
    default:
        *(bool *)to = value != 0;
        break;
    }
}

/* -- many elements -- */

/* Element types that a loop converts. */
static bool has_loop(const th_buffer *b)
{
    return th_buffer_is_plain(b) && (b->dtype == TH_FLOAT64 || b->dtype == TH_FLOAT32);
}

void th_buffer_load(const th_buffer *b, int64_t first, int64_t end, double *values)
{
    const double *numbers = (const double *)b->data;
    const float *singles = (const float *)b->data;
    if (!has_loop(b))
        for (int64_t e = first; e < end; e++)
            values[e - first] = th_buffer_read(b, e);
    else if (b->dtype == TH_FLOAT64)
        memcpy(values, numbers + first, (size_t)(end - first) * sizeof *values);
    else
        for (int64_t e = first; e < end; e++)
            values[e - first] = (double)singles[e];
}

void th_buffer_move(const th_buffer *b, int64_t first, int64_t end, const double *start, const double *direction,
                    double h)
{
    double *numbers = (double *)b->data;
    float *singles = (float *)b->data;
    if (!has_loop(b))
        for (int64_t e = first; e < end; e++)
            th_buffer_write(b, e, start[e] + h * direction[e]);
    else if (b->dtype == TH_FLOAT64)
        for (int64_t e = first; e < end; e++)
            numbers[e] = start[e] + h * direction[e];
    else
        for (int64_t e = first; e < end; e++)
            singles[e] = (float)(start[e] + h * direction[e]);
}

void th_buffer_store(const th_buffer *b, const double *values)
{
    th_buffer_move(b, 0, b->numel, values, values, 0);
}

/* Writes the elements of arrays: see elements.h. */
#include "io/elements.h"

#include "kernels/machine/crc32c.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files store numbers in this memory format");

enum { CHUNK = 64 * 1024 };

/* Writes bytes and continues the checksum chunk by chunk, while the chunk is in a cache. */
static bool write_bytes(const char *bytes, size_t count, FILE *file, uint32_t *crc)
{
    for (size_t done = 0; done < count; done += CHUNK) {
        const size_t n = count - done < CHUNK ? count - done : CHUNK;
        if (crc)
            *crc = th_crc32c(*crc, bytes + done, n);
        if (fwrite(bytes + done, 1, n, file) != n)
            return false;
    }
    return true;
}

bool th_write_elements(const th_array *array, FILE *file, uint32_t *crc)
{
    const size_t element = th_dtype_size(array->dtype);
    th_iterator iterator;
    if (!th_iterator_build_row_major(&iterator, array, 0, NULL))
        return true;
    if (th_strides_are_contiguous(array->ndim, array->size, array->stride))
        return write_bytes(array->data, (size_t)iterator.numel * element, file, crc);
    char chunk[CHUNK];
    size_t used = 0;
    th_iterator_position position;
    th_iterator_seek(&iterator, 0, &position);
    for (int64_t done = 0, length; done < iterator.numel;
         done += length, th_iterator_advance(&iterator, length, &position)) {
        const int64_t row_left = th_iterator_run_length(&iterator, &position),
                      space = (int64_t)((CHUNK - used) / element);
        length = row_left < space ? row_left : space;
        th_copy_strided(length, (int64_t)element, chunk + used, (int64_t)element, position.address[0],
                        iterator.array[0].stride[iterator.ndim - 1]);
        used += (size_t)length * element;
        const bool full = CHUNK - used < element;
        if ((full || done + length == iterator.numel) && !write_bytes(chunk, used, file, crc))
            return false;
        used = full ? 0 : used;
    }
    return true;
}

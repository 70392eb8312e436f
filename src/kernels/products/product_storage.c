/* Loads parts of stored operands: see product_storage.h. */
#include "kernels/products/product_storage.h"

#include "kernels/sizes.h"

enum { LINE_PAD = 16 /* numbers that keep lines from being a power of two apart */ };

/* Returns the distance of two loaded lines of `length` numbers. A line may begin and end inside a part of
 * a block. */
static int64_t line_stride_of(int64_t length)
{
    return (length + 2 * (TH_BLOCK_NUMBERS - 1)) / TH_BLOCK_NUMBERS * TH_BLOCK_NUMBERS + LINE_PAD;
}

size_t th_product_load_bytes(int64_t size, int64_t rows, int64_t columns)
{
    return th_aligned((size_t)(th_larger(rows * line_stride_of(columns), columns * line_stride_of(rows)) * size));
}

th_product_matrix th_product_load(const th_kernels *kernels, int64_t size, th_dtype storage, th_product_matrix stored,
                                  int64_t row, int64_t rows, int64_t column, int64_t columns, void *memory)
{
    const bool along_columns = stored.column == 1; /* lines are rows */
    const int64_t first_line = along_columns ? row : column, lines = along_columns ? rows : columns;
    const int64_t first = along_columns ? column : row, length = along_columns ? columns : rows;
    const int64_t stride = along_columns ? stored.row : stored.column, line = line_stride_of(length);
    const int64_t numbers = th_dtype_numbers(storage), element = (int64_t)th_dtype_size(storage);
    const int64_t part = numbers > 1 ? TH_BLOCK_NUMBERS : 1; /* the numbers that are loaded together */
    const int64_t begin = first / part * part, end = th_ceil_div(first + length, part) * part;
    for (int64_t i = 0; i < lines; i++)
        kernels->storage_load(end - begin, (int)storage,
                              (const char *)stored.data + (first_line + i) * stride / numbers * element, begin,
                              (char *)memory + i * line * size);
    return (th_product_matrix){.data = (char *)memory + (first - begin) * size,
                               .row = along_columns ? line : 1,
                               .column = along_columns ? 1 : line};
}

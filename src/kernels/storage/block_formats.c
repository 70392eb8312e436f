/* The table of types with blocks. A header of ggml defines the formats. */
#include "kernels/storage/block_formats.h"

#include <stddef.h>

#include "kernels/dtype.h"

static const th_block_format formats[TH_DTYPE_COUNT] = {
    [TH_Q8_0] = {TH_BLOCK_NUMBERS, 0, 1},
    [TH_Q4_0] = {TH_BLOCK_NUMBERS, 0, 1},
    [TH_Q4_1] = {32, 0, 2},
    [TH_Q5_0] = {32, 0, 1},
    [TH_Q5_1] = {32, 0, 2},
    [TH_Q2_K] = {256, 80, 2},
    [TH_Q3_K] = {256, 108, 1},
    [TH_Q4_K] = {256, 0, 2},
    [TH_Q5_K] = {256, 0, 2},
    [TH_Q6_K] = {256, 208, 1},
    [TH_IQ4_NL] = {32, 0, 1},
    [TH_IQ4_XS] = {256, 0, 1},
};

const th_block_format *th_block_format_of(th_dtype dtype)
{
    return th_is_dtype(dtype) && formats[dtype].numbers > 0 ? &formats[dtype] : NULL;
}

int th_dtype_numbers(th_dtype dtype)
{
    const th_block_format *blocks = th_block_format_of(dtype);
    return blocks ? blocks->numbers : th_is_dtype(dtype);
}

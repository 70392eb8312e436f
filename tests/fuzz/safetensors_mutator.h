/* Changes the header or the numbers of a safetensors file, and repairs the length of the header. So most inputs pass
 * the first checks. */
#ifndef TESTS_FUZZ_SAFETENSORS_MUTATOR_H
#define TESTS_FUZZ_SAFETENSORS_MUTATOR_H

#include "fuzz.h"

/* Returns the length of the header's text; 0 if the file is too short for it. */
static inline size_t header_length(const uint8_t *data, size_t size)
{
    uint64_t length = 0;
    if (size > 8)
        memcpy(&length, data, sizeof length);
    return length < size - 8 || (size > 8 && length == size - 8) ? (size_t)length : 0;
}

/* Changes the text of the header, and its length. */
static inline size_t mutate_header(uint8_t *data, size_t size, size_t max_size)
{
    const size_t length = header_length(data, size), rest = size - 8 - length;
    uint8_t *behind = malloc(rest + 1);
    if (behind == NULL)
        return size;
    memcpy(behind, data + 8 + length, rest);
    const uint64_t changed = LLVMFuzzerMutate(data + 8, length, max_size - 8 - rest);
    memcpy(data, &changed, sizeof changed);
    memcpy(data + 8 + changed, behind, rest);
    free(behind);
    return 8 + (size_t)changed + rest;
}

static inline size_t mutate_safetensors(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const size_t length = header_length(data, size);
    if (length == 0 || seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    if (seed % 16 < 12)
        return mutate_header(data, size, max_size);
    const size_t begin = 8 + length;
    return begin < size ? begin + LLVMFuzzerMutate(data + begin, size - begin, max_size - begin) : size;
}

#endif

/* Growing arrays in the C library's memory. The context counts the arrays of a complete tokenizer
 * (th_tokenizer_if_made). It does not count the working memory of a call, which is proportional to the call's text. */
#ifndef TH_MODELS_TEXT_GROW_H
#define TH_MODELS_TEXT_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes *array, which has a capacity of *capacity elements, large enough for `count` elements. Grows at least by
 * half. Returns false, without any change, if out of memory or if the size overflows. */
static inline bool th_grow(void **array, size_t *capacity, size_t count, size_t element)
{
    if (count <= *capacity)
        return true;
    size_t wanted = *capacity + *capacity / 2;
    wanted = wanted < count ? count : wanted;
    wanted = wanted < 16 ? 16 : wanted;
    if (wanted > PTRDIFF_MAX / element)
        return false;
    void *grown = realloc(*array, wanted * element);
    if (grown == NULL)
        return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

/* TH_GROW(list->item, list->capacity, count) does the same for a pointer of any type. */
#define TH_GROW(array, capacity, count) th_grow_typed((void *)&(array), &(capacity), (count), sizeof *(array))
/* For TH_GROW: array is a pointer to a pointer of any type. */
static inline bool th_grow_typed(void *array, size_t *capacity, size_t count, size_t element)
{
    void *memory;
    __builtin_memcpy(&memory, array, sizeof memory);
    const bool grown = th_grow(&memory, capacity, count, element);
    __builtin_memcpy(array, &memory, sizeof memory);
    return grown;
}

#endif

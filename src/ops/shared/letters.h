/* Axis letters in shape rules: every operation that moves axes moves their letters with them. */
#ifndef TH_OPS_SHARED_LETTERS_H
#define TH_OPS_SHARED_LETTERS_H

#include "tapehead/op.h"

/* The letter of an axis, ' ' for none. */
static inline char th_letter(const th_array *array, int axis)
{
    return array->axes[0] ? array->axes[axis] : ' ';
}

/* Ends a string of ndim letters; "" when none of them names anything. */
static inline const char *th_letters(char *letters, int ndim)
{
    bool named = false;
    for (int i = 0; i < ndim; i++)
        named |= letters[i] != ' ';
    letters[named ? ndim : 0] = 0;
    return letters;
}

#endif

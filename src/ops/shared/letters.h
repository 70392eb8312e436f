/* Axis letters in shape rules: an operation that moves axes moves their letters too. */
#ifndef TH_OPS_SHARED_LETTERS_H
#define TH_OPS_SHARED_LETTERS_H

#include "tapehead/op.h"

/* One letter for each axis, and the terminating 0. */
typedef char th_axis_letters[TH_MAX_DIMS + 1];

/* Returns the letter of an axis, or ' ' for an unnamed one. */
static inline char th_letter(const th_array *array, int axis)
{
    return array->axes[0] ? array->axes[axis] : ' ';
}

/* Terminates a string of ndim letters; makes it "" if all of them are ' '. */
static inline const char *th_letters(char *letters, int ndim)
{
    bool named = false;
    for (int i = 0; i < ndim; i++)
        named |= letters[i] != ' ';
    letters[named ? ndim : 0] = 0;
    return letters;
}

#endif

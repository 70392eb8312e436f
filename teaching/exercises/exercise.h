/* What every exercise uses. An exercise is an operation (tapehead/op.h) with a blank, the place where you write.
 *
 * All numbers are float64. The functions below check their indices. If one is wrong, the marker names the line, the
 * index and the shape. */
#ifndef TAPEHEAD_EXERCISE_H
#define TAPEHEAD_EXERCISE_H

#include <tapehead/core.h>

/* Marks the blank. Replace this line by your own. */
#define NOT_YET exercise_not_yet(__FILE__, __LINE__)

/* Element [i, j, ...] of an array of float64, whatever its strides are. You can read it and assign to it:
 * at(dx, i, j) += at(dy, i, j) * at(w, j). An array without axes has the element at(a, 0). */
#define at(array, ...)                                                                                                 \
    (*exercise_at(__FILE__, __LINE__, "at(" #array ", " #__VA_ARGS__ ")", (array), EXERCISE_INDEX(__VA_ARGS__)))

/* Element [i, ...] of an array of int64. */
#define integer_at(array, ...)                                                                                         \
    exercise_integer_at(__FILE__, __LINE__, "integer_at(" #array ", " #__VA_ARGS__ ")", (array),                       \
                        EXERCISE_INDEX(__VA_ARGS__))

/* Element [i, ...] of an array of bool. */
#define bool_at(array, ...)                                                                                            \
    exercise_bool_at(__FILE__, __LINE__, "bool_at(" #array ", " #__VA_ARGS__ ")", (array), EXERCISE_INDEX(__VA_ARGS__))

/* Prepares the gradient of an input for sums: sets its elements to 0, unless backward must add to them (c->add[input]).
 * After that `+=` is right for every element. Returns false if this gradient is not needed. */
bool start_gradient(const th_call *c, int input);

/* For shape rules: TH_OK if all given inputs of a floating type are float64. */
th_status require_float64(th_call *c);

/* The operation of the exercise. */
extern const th_op exercise;

/* -- what the macros call -- */

#define EXERCISE_INDEX(...)                                                                                            \
    TH_COUNT_(__VA_ARGS__), (const int64_t[])                                                                          \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
void exercise_not_yet(const char *file, int line);
double *exercise_at(const char *file, int line, const char *text, const th_array *a, int count, const int64_t *index);
int64_t exercise_integer_at(const char *file, int line, const char *text, const th_array *a, int count,
                            const int64_t *index);
bool exercise_bool_at(const char *file, int line, const char *text, const th_array *a, int count, const int64_t *index);

#endif

/* Memory of a running function: loads and stores of numbers, and pointers with bounds (language.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../marker/marker.h"
#include "language.h"

number load(base b, const char *data)
{
    number value = {.i = 0};
    bool truth;
    int32_t integer;
    float single;
    switch (b) {
    case BASE_BOOL:
        memcpy(&truth, data, sizeof truth);
        value.i = truth;
        break;
    case BASE_INT:
        memcpy(&integer, data, sizeof integer);
        value.i = integer;
        break;
    case BASE_FLOAT:
        memcpy(&single, data, sizeof single);
        value.d = (double)single;
        break;
    default:
        memcpy(&value, data, sizeof value);
    }
    return value;
}

void store(base b, char *data, number value)
{
    const bool truth = value.i != 0;
    const int32_t integer = (int32_t)value.i;
    const float single = b == BASE_FLOAT ? (float)value.d : 0;
    switch (b) {
    case BASE_BOOL:
        memcpy(data, &truth, sizeof truth);
        break;
    case BASE_INT:
        memcpy(data, &integer, sizeof integer);
        break;
    case BASE_FLOAT:
        memcpy(data, &single, sizeof single);
        break;
    default:
        memcpy(data, &value, sizeof value);
    }
}

/* An integer outside the type's range is what x86-64 gives: the smallest one. */
static int64_t integer_of(double d, base to)
{
    if (to == BASE_INT)
        return d > -2147483649.0 && d < 2147483648.0 ? (int64_t)d : INT32_MIN;
    if (to == BASE_SIZE && d >= 0x1p63 && d < 0x1p64)
        return (int64_t)(uint64_t)d;
    return d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : INT64_MIN;
}

number change_type(number value, base from, base to)
{
    number result;
    const bool real = from >= BASE_FLOAT;
    if (to == BASE_BOOL)
        result.i = real ? value.d != 0 : value.i != 0;
    else if (to < BASE_FLOAT) {
        result.i = real ? integer_of(value.d, to) : value.i;
        result.i = to == BASE_INT ? (int32_t)result.i : result.i;
    } else if (real) {
        result.d = to == BASE_FLOAT ? (double)(float)value.d : value.d;
    } else if (from == BASE_SIZE) {
        result.d = to == BASE_FLOAT ? (double)(float)(uint64_t)value.i : (double)(uint64_t)value.i;
    } else {
        result.d = to == BASE_FLOAT ? (double)(float)value.i : (double)value.i;
    }
    return result;
}

/* -- pointers -- */

pointer array_data(interpreter *in, const th_array *a, int line)
{
    const interpreter_extent *e = &in->call->extents[a - in->call->arrays];
    if (!a->given)
        end_guarded(STOPPED, "this gradient is not needed: test .given (or what start_gradient returned) first",
                    "%s, line %d: this array is not given, so its data is no memory", base_name_of(in->file), line);
    if (a->data == NULL)
        end_guarded(STOPPED, "backward can only read what the descriptor saves (.saves)",
                    "%s, line %d: this array was not saved, so its data is no memory", base_name_of(in->file), line);
    return (pointer){.data = a->data,
                     .low = e->low,
                     .high = e->high,
                     .memory_low = e->memory_low,
                     .memory_high = e->memory_high,
                     .base = a->dtype == TH_BOOL    ? BASE_BOOL
                             : a->dtype == TH_INT64 ? BASE_LONG
                                                    : BASE_DOUBLE,
                     .what = "the array"};
}

/* Ends the check, or only notes it if a compiled program would not stop there. */
static void outside(interpreter *in, const pointer *p, int line, const char *text, bool reads)
{
    char sentence[ERROR_TEXT];
    const bool exists = p->data && p->index >= p->memory_low && p->index < p->memory_high;
    char elements[64] = "which has no elements";
    if (p->low < p->high)
        snprintf(elements, sizeof elements, "whose elements are %lld to %lld", (long long)p->low,
                 (long long)p->high - 1);
    snprintf(sentence, sizeof sentence, "%s, line %d: %s %s element %lld of %s, %s", base_name_of(in->file), line,
             text ? text : "this", reads ? "reads" : "writes", (long long)p->index, p->what, elements);
    if (exists && in->outside[0] == '\0')
        memcpy(in->outside, sentence, sizeof in->outside);
    if (exists)
        return;
    end_guarded(STOPPED, p->written ? CAUSE_LOCAL_INDEX : CAUSE_NO_ARRAY, "%s", sentence);
}

char *element_of(interpreter *in, const pointer *p, int line, const char *text, bool reads)
{
    const int64_t size = element_size(p->base);
    if (p->index < p->low || p->index >= p->high)
        outside(in, p, line, text, reads);
    if (reads && p->written && !p->written[p->index * size])
        end_guarded(WRONG, CAUSE_NO_VALUE, "%s, line %d: %s is read before it has a value", base_name_of(in->file),
                    line, text ? text : "an element");
    return p->data + p->index * size;
}

void note_written(const pointer *p)
{
    if (p->written)
        p->written[p->index * element_size(p->base)] = 1;
}

/* The functions that exercises call (exercise.h). A wrong index or array ends the check with a sentence. */
#include <math.h>
#include <string.h>

#include "marker.h"

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

void exercise_not_yet(const char *file, int line)
{
    end_guarded(BLANK, "", "not yet: the blank in %s, line %d, is empty. Replace NOT_YET by your lines.",
                base_name(file), line);
}

/* Returns the element's distance from the first one. */
static int64_t offset_of(const char *file, int line, const char *text, const th_array *a, int count,
                         const int64_t *index)
{
    if (!a->given)
        end_guarded(WRONG, "this gradient is not needed: test .given (or what start_gradient returned) first",
                    "%s, line %d: %s: this array is not given", base_name(file), line, text);
    const bool scalar = a->ndim == 0 && count == 1 && index[0] == 0;
    if (count != a->ndim && !scalar)
        end_guarded(WRONG, "the number of indices is not the number of axes",
                    "%s, line %d: %s has %d ind%s, but the array is %s", base_name(file), line, text, count,
                    count == 1 ? "ex" : "ices", TH_TEXT(a));
    int64_t offset = 0;
    for (int d = 0; d < a->ndim; d++) {
        if (index[d] < 0 || index[d] >= a->size[d])
            end_guarded(WRONG, "an index is outside the array: check which axis it counts, and the loop's end",
                        "%s, line %d: %s: index %d is %lld, but the array is %s: it must be at least 0 and below %lld",
                        base_name(file), line, text, d, (long long)index[d], TH_TEXT(a), (long long)a->size[d]);
        offset += index[d] * a->stride[d];
    }
    if (a->data == NULL)
        end_guarded(WRONG, "backward can only read what the descriptor saves (.saves)",
                    "%s, line %d: %s: this array was not saved", base_name(file), line, text);
    return offset;
}

static void require_type(const char *file, int line, const char *text, const th_array *a, th_dtype type,
                         const char *function)
{
    if (a->given && a->dtype != type)
        end_guarded(WRONG, "at reads float64, integer_at reads int64 and bool_at reads bool",
                    "%s, line %d: %s: use %s for this array", base_name(file), line, text, function);
}

static const char *reader_of(const th_array *a)
{
    return a->dtype == TH_BOOL ? "bool_at" : a->dtype == TH_INT64 ? "integer_at" : "at";
}

double *exercise_at(const char *file, int line, const char *text, const th_array *a, int count, const int64_t *index)
{
    require_type(file, line, text, a, TH_FLOAT64, reader_of(a));
    return (double *)a->data + offset_of(file, line, text, a, count, index);
}

int64_t exercise_integer_at(const char *file, int line, const char *text, const th_array *a, int count,
                            const int64_t *index)
{
    require_type(file, line, text, a, TH_INT64, reader_of(a));
    return ((const int64_t *)a->data)[offset_of(file, line, text, a, count, index)];
}

bool exercise_bool_at(const char *file, int line, const char *text, const th_array *a, int count, const int64_t *index)
{
    require_type(file, line, text, a, TH_BOOL, reader_of(a));
    return ((const bool *)a->data)[offset_of(file, line, text, a, count, index)];
}

bool start_gradient(const th_call *c, int input)
{
    const th_array *gradient = &c->input_gradient[input];
    const int64_t numel = gradient->given ? th_array_numel(gradient) : 0;
    for (int64_t n = 0; n < numel && !c->add[input]; n++) {
        int64_t offset = 0;
        for (int64_t d = gradient->ndim - 1, rest = n; d >= 0; rest /= gradient->size[d], d--)
            offset += rest % gradient->size[d] * gradient->stride[d];
        ((double *)gradient->data)[offset] = 0;
    }
    return gradient->given;
}

th_status require_float64(th_call *c)
{
    for (int i = 0; i < c->n_inputs; i++) {
        const th_array *a = &c->input[i];
        if (a->given && a->dtype != TH_FLOAT64 && a->dtype != TH_INT64 && a->dtype != TH_BOOL)
            return th_call_fail(c, TH_ERROR_TYPE, "exercises compute in float64, but input %d has another type", i);
    }
    return TH_OK;
}

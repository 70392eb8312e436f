/* The beginning of a call, and its refusal (call.h). */
#include "call.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

bool begin_call(class_engine *e)
{
    e->problem[0] = 0;
    return th_error_code(e->ctx) == TH_OK;
}

double refuse_call(class_engine *e, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(e->problem, sizeof e->problem, format, arguments);
    va_end(arguments);
    return NAN;
}

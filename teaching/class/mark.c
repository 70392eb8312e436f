/* Marks a student's lines in the page: the marker of teaching/exercises with its interpreter (engine.h). */
#include <stdio.h>
#include <stdlib.h>

#include "../exercises/marker/marker.h"
#include "call.h"
#include "engine.h"

EMSCRIPTEN_KEEPALIVE const char *class_mark(int exercise_number, const char *name, const char *source)
{
    static mark_report report;
    static char *text;
    size_t length;
    free(text);
    text = NULL;
    FILE *file = exercise_number >= 0 && exercise_number < SUBJECTS ? open_memstream(&text, &length) : NULL;
    if (file == NULL)
        return NULL;
    report_begin(&report, exercise_number, name, source);
    mark_interpreted(&report);
    print_report(file, &report, JSON);
    return fclose(file) == 0 ? text : NULL;
}

/* Runs a check in this process, where there are no others: in WebAssembly (marker.h). What a check that ends early had
 * allocated is not released, so the page starts a new instance for each file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "marker.h"

static jmp_buf start;
static mark_result ended;

void end_guarded(mark_state s, const char *cause, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ended.sentence, SENTENCE, format, arguments);
    va_end(arguments);
    write_text(ended.cause, CAUSE, "%s", cause);
    ended.state = s;
    longjmp(start, 1);
}

void run_guarded(void (*work)(const void *user, mark_result *r), const void *user, mark_result *r)
{
    memset(r, 0, sizeof *r);
    memset(&ended, 0, sizeof ended);
    if (setjmp(start) == 0)
        work(user, r);
    else
        *r = ended;
}

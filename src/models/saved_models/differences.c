/* Differences between a file and its destination: see differences.h. */
#include "models/saved_models/differences.h"

#include <string.h>

#include "models/core/context.h"

void th_report_print(const char *line, void *file)
{
    if (line && file)
        fprintf(file, "%s\n", line);
}

void th_report_difference(th_differences *d, th_difference kind, const char *format, ...)
{
    char text[sizeof d->list] = "", line[sizeof d->list] = "";
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(text, sizeof text, format, arguments);
    va_end(arguments);
    th_append_visible(line, sizeof line, text); /* escapes control characters, because the program may print the line */
    if (d->list[0] == 0 || strlen(d->list) + strlen("; ") + strlen(line) < sizeof d->list)
        th_append(d->list, sizeof d->list, "%s%s", d->list[0] ? "; " : "", line);
    d->found[kind]++;
    if (d->report)
        d->report(line, d->user);
}

th_status th_differences_end(const th_differences *d)
{
    static const char *const words[TH_DIFFERENCES] = {
        "missing",           "unexpected",         "of a different shape", "of a different type",
        "different options", "of different values"};
    char all[160] = "";
    for (int i = 0; i < TH_DIFFERENCES; i++)
        if (d->found[i] > 0)
            th_append(all, sizeof all, "%s%lld %s", all[0] ? ", " : "", (long long)d->found[i], words[i]);
    if (all[0] == 0)
        return TH_OK;
    return th_fail(d->ctx, TH_ERROR_FILE, d->operation, "%.300s does not fit: %s (in all: %s)", d->path, d->list, all);
}

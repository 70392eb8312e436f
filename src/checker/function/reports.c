/* Writes reports for test runners (check_function.h). */
#include <string.h>

#include "checker/function/function.h"

/* Writes a text in which these characters have another meaning in XML. */
static void write_xml(FILE *file, const char *text)
{
    for (; *text; text++) {
        const char *name = *text == '<'   ? "&lt;"
                           : *text == '>' ? "&gt;"
                           : *text == '&' ? "&amp;"
                           : *text == '"' ? "&quot;"
                                          : NULL;
        if (name)
            fputs(name, file);
        else
            fputc(*text, file);
    }
}

static void write_junit(FILE *file, const char *name, const th_function_report *report)
{
    fputs("  <testcase classname=\"gradients\" name=\"", file);
    write_xml(file, name);
    fputs(report->ok ? "\"/>\n" : "\">\n    <failure message=\"the gradient is not right\">", file);
    write_xml(file, report->text);
    fputs(report->ok ? "" : "</failure>\n  </testcase>\n", file);
}

/* A line of a failed test's text starts with "# ". */
static void write_tap(FILE *file, int number, const char *name, const th_function_report *report)
{
    fprintf(file, "%s %d - %s\n", report->ok ? "ok" : "not ok", number, name);
    for (const char *line = report->text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        fprintf(file, "# %.*s\n", (int)strcspn(line, "\n"), line);
}

th_status th_write_function_reports(FILE *file, th_report_format format, int count, const char *const *names,
                                    const th_function_report *reports)
{
    int failures = 0;
    for (int i = 0; i < count; i++)
        failures += !reports[i].ok;
    if (format == TH_REPORT_TAP)
        fprintf(file, "TAP version 13\n1..%d\n", count);
    else
        fprintf(
            file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"gradients\" tests=\"%d\" failures=\"%d\">\n",
            count, failures);
    for (int i = 0; i < count; i++)
        if (format == TH_REPORT_TAP)
            write_tap(file, i + 1, names[i], &reports[i]);
        else
            write_junit(file, names[i], &reports[i]);
    if (format == TH_REPORT_JUNIT)
        fputs("</testsuite>\n", file);
    return fflush(file) || ferror(file) ? TH_ERROR_FILE : TH_OK;
}

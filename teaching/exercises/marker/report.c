/* Prints what the marker found: as text, as one JSON object, or as a row of a table (marker.h). */
#include <stdio.h>
#include <string.h>

#include "marker.h"

static int marks_of(const mark_report *r)
{
    int marks = 0;
    for (int i = 0; i < r->count; i++)
        marks += r->result[i].state == RIGHT ? r->marks[i] : 0;
    return marks;
}

static int maximum_of(const mark_report *r)
{
    int marks = 0;
    for (int i = 0; i < r->count; i++)
        marks += r->marks[i];
    return marks;
}

static bool is_blank(const mark_report *r)
{
    return r->refusal[0] == '\0' && r->result[0].state == BLANK;
}

static bool passed(const mark_report *r)
{
    return r->refusal[0] == '\0' && marks_of(r) == maximum_of(r);
}

static const char *status_of(const mark_report *r)
{
    if (r->refusal[0])
        return "not run";
    return is_blank(r) ? "not yet" : passed(r) ? "passed" : "wrong";
}

static bool failed(const mark_report *r, int i)
{
    return r->result[i].state != RIGHT && r->result[i].state != NOT_RUN;
}

/* Returns the check whose numbers are printed: the first one that failed, because small checks come first. The gradient
 * checker is printed only if all other checks are right. */
static int check_to_print(const mark_report *r)
{
    for (int i = 1; i < r->count; i++)
        if (failed(r, i))
            return i;
    return 0;
}

/* Returns the likely cause that says most: one that all checks agree on; otherwise what stopped a check; otherwise the
 * gradient checker's, if it alone failed. It does not know the exercise's typical mistakes. */
static const char *cause_of(const mark_report *r)
{
    if (r->causes[0][0])
        return r->causes[0];
    for (int i = 1; i < r->count; i++)
        if (r->result[i].cause[0])
            return r->result[i].cause;
    return check_to_print(r) == 0 ? r->result[0].cause : "";
}

/* Returns a line about the whole exercise. */
static const char *summary_of(const mark_report *r)
{
    static char line[CAUSE];
    if (r->refusal[0])
        return r->refusal;
    if (is_blank(r))
        return r->result[0].sentence;
    if (passed(r))
        return "everything is right";
    if (cause_of(r)[0])
        return cause_of(r);
    const char *sentence = r->result[check_to_print(r)].sentence; /* its first line */
    write_text(line, CAUSE, "%.*s", (int)strcspn(sentence, "\n"), sentence);
    return line;
}

/* -- text -- */

static const char *state_word(mark_state s)
{
    static const char *const words[] = {"not run", "right", "WRONG", "not yet", "STOPPED", "ENDLESS"};
    return words[s];
}

static void print_indented(FILE *file, const char *text)
{
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        fprintf(file, "             %.*s\n", (int)strcspn(text, "\n"), text);
}

/* Prints the causes below the check whose numbers are printed. */
static void print_causes(FILE *file, const mark_report *r)
{
    for (int i = 0; i < OPERANDS && r->causes[i][0]; i++)
        fprintf(file, "             Likely cause: %s\n", r->causes[i]);
    if (r->causes[0][0] == '\0' && cause_of(r)[0])
        fprintf(file, "             Likely cause: %s\n", cause_of(r));
}

static void print_result(FILE *file, const mark_report *r, int i)
{
    const mark_result *one = &r->result[i];
    fprintf(file, "  %-8s %d/%d  %s\n", state_word(one->state), one->state == RIGHT ? r->marks[i] : 0, r->marks[i],
            r->name[i]);
    if (!failed(r, i) || i != check_to_print(r))
        return;
    print_indented(file, one->sentence);
    print_causes(file, r);
}

static void print_text(FILE *file, const mark_report *r)
{
    fprintf(file, "exercise %d, %s: %s\n", r->number, r->subject->title, r->file);
    if (r->refusal[0])
        fprintf(file, "  %s\n", r->refusal);
    else if (is_blank(r))
        fprintf(file, "  %s\n", r->result[0].sentence);
    for (int i = 0; i < r->count && r->refusal[0] == '\0' && !is_blank(r); i++)
        print_result(file, r, i);
    if (r->warning[0] && !passed(r) && !is_blank(r) && r->refusal[0] == '\0')
        fprintf(file, "  %s: %s\n", r->result[0].note[0] ? "outside an array" : "the compiler warns", r->warning);
    fprintf(file, "%d of %d marks: %s\n", marks_of(r), maximum_of(r), status_of(r));
}

/* -- JSON -- */

/* Bytes that are not UTF-8 may come from the compiler's message about a source file: they become question marks. */
static int valid_utf8(const unsigned char *s)
{
    const int length = s[0] < 0x80                   ? 1
                       : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                       : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
                       : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                                     : 0;
    for (int i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

static void print_string(FILE *file, const char *text)
{
    putc('"', file);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int length = valid_utf8(s);
        if (length == 0)
            putc('?', file);
        else if (*s == '"' || *s == '\\')
            fprintf(file, "\\%c", *s);
        else if (*s == '\n')
            fprintf(file, "\\n");
        else if (*s < 0x20 || *s == 0x7f)
            fprintf(file, "\\u%04x", *s);
        else
            fprintf(file, "%.*s", length, (const char *)s);
        s += length ? length : 1;
    }
    putc('"', file);
}

static void print_json(FILE *file, const mark_report *r)
{
    fprintf(file, "{\"exercise\":%d,\"name\":\"%s\",\"file\":", r->number, r->subject->name);
    print_string(file, r->file);
    fprintf(file, ",\"status\":\"%s\",\"passed\":%s,\"marks\":%d,\"max\":%d,\"summary\":", status_of(r),
            passed(r) ? "true" : "false", marks_of(r), maximum_of(r));
    print_string(file, summary_of(r));
    fprintf(file, ",\"cause\":");
    print_string(file, cause_of(r));
    fprintf(file, ",\"warning\":");
    print_string(file, r->warning);
    fprintf(file, ",\"printed\":");
    print_string(file, r->result[check_to_print(r)].printed);
    fprintf(file, ",\"checks\":[");
    for (int i = 0; i < r->count; i++) {
        fprintf(file, "%s{\"name\":", i ? "," : "");
        print_string(file, r->name[i]);
        fprintf(file, ",\"state\":\"%s\",\"marks\":%d,\"max\":%d,\"sentence\":", state_word(r->result[i].state),
                r->result[i].state == RIGHT ? r->marks[i] : 0, r->marks[i]);
        print_string(file, r->result[i].sentence);
        fprintf(file, ",\"cause\":");
        print_string(file, r->result[i].cause);
        fprintf(file, "}");
    }
    fprintf(file, "]}\n");
}

bool print_report(FILE *file, const mark_report *r, mark_style style)
{
    if (style == JSON)
        print_json(file, r);
    else if (style == ROW)
        fprintf(file, "%2d  %-17s  %-8s %2d/%-2d  %s\n", r->number, r->subject->name, status_of(r), marks_of(r),
                maximum_of(r), is_blank(r) ? "" : summary_of(r));
    else
        print_text(file, r);
    return passed(r);
}

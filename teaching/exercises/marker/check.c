/* The two kinds of checks: the library's gradient checker, and one run with known results (marker.h). */
#include <stdio.h>
#include <string.h>

#include "comparison.h"

/* Copies the line of the report that names the kind of mistake; it is indented and has no map. */
static void cause_of_report(const char *text, char *cause)
{
    const char *line = strchr(text, '\n');
    if (line == NULL || strncmp(line + 1, "  ", 2) != 0 || strncmp(line + 1, "  where", 7) == 0)
        return;
    line += 3;
    write_text(cause, CAUSE, "%.*s", (int)strcspn(line, "\n"), line);
}

void run_gradient_checker(const th_op *op, mark_result *r)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 1, .threads = 1});
    th_gradient_report report = {0};
    const th_status status = ctx ? th_check_op(ctx, op, NULL, &report) : TH_ERROR_MEMORY;
    r->state = status == TH_OK && report.ok && !any_outside() ? RIGHT : WRONG;
    if (r->state == RIGHT) {
        write_text(r->sentence, SENTENCE, "%lld difference quotients agree", (long long)report.checked);
    } else {
        write_text(r->sentence, SENTENCE, "%s",
                   report.text[0] ? report.text
                   : report.ok    ? "memory was written outside the elements of an array"
                   : ctx          ? th_error_message(ctx)
                                  : "the marker has no memory");
        cause_of_report(report.text, r->cause);
        for (size_t length = strlen(r->sentence); length && r->sentence[length - 1] == '\n'; length--)
            r->sentence[length - 1] = '\0';
    }
    th_context_free(ctx);
}

/* Returns whether the same check passes with row-major memory. */
static bool passes_unstrided(const scene *s, const mark_subject *subject, const mark_check *check, const th_op *op)
{
    mark_check plain = *check;
    student st;
    plain.strided = false;
    student_run(&st, s, subject, &plain, op);
    const bool right = all_right(s, &st, subject, &plain);
    student_free(&st);
    return right;
}

void run_check(const mark_subject *subject, const mark_check *check, const th_op *op, mark_result *r)
{
    scene s;
    student st;
    scene_make(&s, subject, check);
    student_run(&st, &s, subject, check, op);
    explain(&s, &st, subject, check, r);
    if (r->state == WRONG && check->strided && passes_unstrided(&s, subject, check, op))
        for (int operand = 0; operand < OPERANDS; operand++)
            if (r->evidence[operand].wrong)
                note_strides(&r->evidence[operand]);
    student_free(&st);
    scene_free(&s);
}

/* Marks one file of an exercise: all its checks, one after the other (marker.h). */
#include <string.h>

#include "marker.h"

static const struct {
    const mark_subject *subject;
    const th_op *original;
} subjects[SUBJECTS] = {
    {&tape_subject, &exercise_0},       {&multiply_subject, &exercise_1},  {&dense_subject, &exercise_2},
    {&broadcast_subject, &exercise_3},  {&softmax_subject, &exercise_4},   {&cross_entropy_subject, &exercise_5},
    {&layer_norm_subject, &exercise_6}, {&embedding_subject, &exercise_7}, {&rotary_subject, &exercise_8},
    {&attention_subject, &exercise_9},  {&running_subject, &exercise_10},
};

enum { CHECKER_MARKS = 4, CHECK_MARKS = 1 };

void report_begin(mark_report *r, int number, const char *file, const char *source)
{
    *r = (mark_report){
        .number = number, .subject = subjects[number].subject, .file = file, .source = source, .count = 1};
    r->name[0] = "gradient checker";
    r->marks[0] = CHECKER_MARKS;
    for (const mark_check *c = r->subject->checks; c->name && r->count < CHECKS; c++) {
        r->name[r->count] = c->name;
        r->marks[r->count++] = CHECK_MARKS;
    }
}

typedef struct work {
    const mark_report *report;
    const mark_code *code;
    int check; /* FIRST_START: only start the code; 0: the gradient checker */
} work;
enum { FIRST_START = -1 };

static void run_work(const void *user, mark_result *r)
{
    const work *w = user;
    const mark_subject *subject = w->report->subject;
    const th_op op = w->code->op(w->code->user, subjects[w->report->number].original);
    forget_outside();
    w->code->start(w->code->user, w->report, r);
    if (w->check > 0)
        run_check(subject, &subject->checks[w->check - 1], &op, r);
    else if (w->check == 0)
        run_gradient_checker(&op, r);
    if (w->code->finish && w->check >= 0)
        w->code->finish(w->code->user, r);
}

void mark_all(mark_report *r, const mark_code *code)
{
    static mark_result start;
    run_guarded(run_work, &(work){r, code, FIRST_START}, &start);
    if (start.state != RIGHT) {
        write_text(r->refusal, CAUSE, "%s", start.sentence);
        return;
    }
    for (int i = 0; i < r->count; i++) {
        run_guarded(run_work, &(work){r, code, i}, &r->result[i]);
        if (r->warning[0] == '\0')
            write_text(r->warning, CAUSE, "%s", r->result[i].note);
        if (r->result[i].state == BLANK || r->result[i].state == ENDLESS)
            break;
    }
    agree_on_causes(r);
}

void require_operation(const mark_report *report, const char *name)
{
    if (strcmp(name, report->subject->name) != 0)
        end_guarded(WRONG, "", "the file's operation is \"%s\", but exercise %d is \"%s\"", name, report->number,
                    report->subject->name);
}

/* Returns what to write instead, if the compiler's error is a typical one. */
static const char *advice_on(const char *error)
{
    if (strstr(error, "th_array") && strstr(error, "struct th_array *") == NULL && strstr(error, "at(a, i)") == NULL)
        return ". An array is not a number: element i of a is at(a, i), not a[i]";
    return "";
}

void refuse_source(mark_report *r, const char *error)
{
    write_text(r->refusal, CAUSE, "the file does not compile: %s%s", error, advice_on(error));
}

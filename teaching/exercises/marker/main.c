/* exercise_marker: marks one file of an exercise. scripts/exercise.sh compiles the file and calls this program. */
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "marker.h"

static const mark_subject *const subjects[SUBJECTS] = {
    &multiply_subject,   &dense_subject,     &broadcast_subject, &softmax_subject,   &cross_entropy_subject,
    &layer_norm_subject, &embedding_subject, &rotary_subject,    &attention_subject, &running_subject,
};

enum { CHECKER_MARKS = 4, CHECK_MARKS = 1 };

static const th_op *const originals[SUBJECTS] = {
    &exercise_1, &exercise_2, &exercise_3, &exercise_4, &exercise_5,
    &exercise_6, &exercise_7, &exercise_8, &exercise_9, &exercise_10,
};

typedef struct work {
    const mark_report *report;
    const mark_runner *runner;
    int check; /* FIRST_START: only start the runner; 0: the gradient checker */
} work;
enum { FIRST_START = -1 };

static void run_work(const void *user, mark_result *r)
{
    const work *w = user;
    const mark_subject *subject = w->report->subject;
    const th_op op = remote_op(originals[w->report->number - 1]);
    runner_start(w->runner, w->report, r);
    if (w->check > 0)
        run_check(subject, &subject->checks[w->check - 1], &op, r);
    else if (w->check == 0)
        run_gradient_checker(&op, r);
}

/* Copies the first line of the compiler's messages that contains `kind`. */
static void first_message(const char *log, const char *kind, char *text)
{
    char line[2048];
    FILE *file = fopen(log, "r");
    while (file && text[0] == '\0' && fgets(line, sizeof line, file))
        if (strstr(line, kind))
            write_text(text, CAUSE, "%.*s", (int)strcspn(line, "\n"), line);
    if (file)
        fclose(file);
}

/* Returns what to write instead, if the compiler's error is a typical one. */
static const char *advice_on(const char *error)
{
    if (strstr(error, "th_array") && strstr(error, "struct th_array *") == NULL)
        return ". An array is not a number: element i of a is at(a, i), not a[i]";
    return "";
}

static void run_all(mark_report *r, const mark_runner *runner)
{
    mark_result start;
    run_guarded(run_work, &(work){r, runner, FIRST_START}, &start);
    if (start.state != RIGHT) {
        write_text(r->refusal, CAUSE, "%s", start.sentence);
        return;
    }
    for (int i = 0; i < r->count; i++) {
        run_guarded(run_work, &(work){r, runner, i}, &r->result[i]);
        if (r->result[i].state == BLANK || r->result[i].state == ENDLESS)
            return;
    }
}

static void list_checks(mark_report *r)
{
    r->name[0] = "gradient checker";
    r->marks[0] = CHECKER_MARKS;
    r->count = 1;
    for (const mark_check *c = r->subject->checks; c->name && r->count < CHECKS; c++) {
        r->name[r->count] = c->name;
        r->marks[r->count++] = CHECK_MARKS;
    }
}

static _Noreturn void refuse(const char *problem, const char *value)
{
    fprintf(stderr, "exercise_marker: %s%s (scripts/exercise.sh --help explains the options)\n", problem, value);
    exit(2);
}

static int number(const char *text, int most)
{
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || value < 1 || value > most)
        refuse("not a number in the allowed range: ", text);
    return (int)value;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},          {"row", no_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 's'}, {"messages", required_argument, NULL, 'm'},
        {"library", required_argument, NULL, 'l'}, {NULL, 0, NULL, 0},
    };
    static mark_report r;
    mark_style style = TEXT;
    int seconds = 10;
    const char *messages = NULL, *library = NULL;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'j':
            style = JSON;
            break;
        case 'r':
            style = ROW;
            break;
        case 's':
            seconds = number(optarg, 3600);
            break;
        case 'm':
            messages = optarg;
            break;
        case 'l':
            library = optarg;
            break;
        default:
            refuse("unknown option", "");
        }
    if (argc - optind != 2)
        refuse("usage: exercise_marker [--json|--row] [--seconds S] --messages FILE [--library FILE] N FILE", "");
    r.number = number(argv[optind], SUBJECTS);
    r.subject = subjects[r.number - 1];
    r.file = argv[optind + 1];
    list_checks(&r);
    if (messages)
        first_message(messages, library ? "warning: " : "error: ", library ? r.warning : r.refusal);
    if (library == NULL) { /* it did not compile */
        char error[CAUSE];
        write_text(error, CAUSE, "%s", r.refusal[0] ? r.refusal : "the compiler failed without an error message");
        write_text(r.refusal, CAUSE, "the file does not compile: %s%s", error, advice_on(error));
    } else {
        char program[4096];
        const char *slash = strrchr(argv[0], '/');
        snprintf(program, sizeof program, "%.*sexercise_runner", slash ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
        run_all(&r, &(mark_runner){program, library, seconds});
        agree_on_causes(&r);
    }
    return print_report(&r, style) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* exercise_marker: marks one file of an exercise. scripts/exercise.sh compiles the file and calls this program. */
#include <ctype.h>
#include <dlfcn.h>
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

typedef struct work {
    const mark_subject *subject;
    const mark_check *check; /* NULL: the gradient checker */
    const th_op *op;
} work;

static void run_work(const void *user, mark_result *r)
{
    const work *w = user;
    if (w->check)
        run_check(w->subject, w->check, w->op, r);
    else
        run_gradient_checker(w->op, r);
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

/* Loads the student's operation; NULL with a refusal if that is not possible. */
static const th_op *load(const char *library, mark_report *r)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *reason = dlerror(), *undefined = strstr(reason, "undefined symbol: ");
        if (undefined)
            write_text(r->refusal, CAUSE, "the file calls a function that does not exist: %s",
                       undefined + strlen("undefined symbol: "));
        else
            write_text(r->refusal, CAUSE, "the compiled file cannot be loaded: %s", reason);
        return NULL;
    }
    const th_op *op = dlsym(handle, "exercise");
    if (op == NULL)
        write_text(r->refusal, CAUSE, "the file has no operation with the name `exercise`: keep its last lines");
    else if (op->name == NULL || strcmp(op->name, r->subject->name) != 0)
        write_text(r->refusal, CAUSE, "the file's operation is \"%s\", but exercise %d is \"%s\"",
                   op->name ? op->name : "", r->number, r->subject->name);
    else if (op->n_inputs != r->subject->n_inputs || !op->shape || !op->forward || !op->backward || op->flags ||
             op->plan || op->attributes_size)
        write_text(r->refusal, CAUSE, "the descriptor at the end of the file was changed: restore its lines");
    return r->refusal[0] ? NULL : op;
}

static void run_all(mark_report *r, const th_op *op, int seconds)
{
    for (int i = 0; i < r->count; i++) {
        const work w = {r->subject, i ? &r->subject->checks[i - 1] : NULL, op};
        run_guarded(run_work, &w, seconds, &r->result[i]);
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
        write_text(r.refusal, CAUSE, "the file does not compile: %s", error);
    } else {
        const th_op *op = load(library, &r);
        if (op)
            run_all(&r, op, seconds);
    }
    return print_report(&r, style) ? EXIT_SUCCESS : EXIT_FAILURE;
}

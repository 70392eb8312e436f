/* exercise_marker: marks one file of an exercise. scripts/exercise.sh compiles the file and calls this program. */
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "marker.h"

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

static _Noreturn void refuse(const char *problem, const char *value)
{
    fprintf(stderr, "exercise_marker: %s%s (scripts/exercise.sh --help explains the options)\n", problem, value);
    exit(2);
}

static int number(const char *text, int least, int most)
{
    char *end = NULL;
    const long value = strtol(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || value < least || value > most)
        refuse("not a number in the allowed range: ", text);
    return (int)value;
}

/* Returns the text of a file. Bytes after a 0 are ignored. */
static const char *text_of(const char *path)
{
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "r");
    char *text = calloc(1, MOST);
    if (file == NULL || text == NULL)
        refuse("cannot read ", path);
    const size_t length = fread(text, 1, MOST, file);
    fclose(file);
    if (length == MOST)
        refuse("the file is longer than 1 MiB: ", path);
    return text;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'},
        {"row", no_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 's'},
        {"messages", required_argument, NULL, 'm'},
        {"library", required_argument, NULL, 'l'},
        {"interpret", no_argument, NULL, 'i'},
        {NULL, 0, NULL, 0},
    };
    static mark_report r;
    mark_style style = TEXT;
    int seconds = 10;
    bool interpret = false;
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
            seconds = number(optarg, 1, 3600);
            break;
        case 'm':
            messages = optarg;
            break;
        case 'i':
            interpret = true;
            break;
        case 'l':
            library = optarg;
            break;
        default:
            refuse("unknown option", "");
        }
    if (argc - optind != 2)
        refuse(
            "usage: exercise_marker [--json|--row] [--seconds S] --interpret|--messages FILE [--library FILE] N FILE",
            "");
    report_begin(&r, number(argv[optind], 0, SUBJECTS - 1), argv[optind + 1], text_of(argv[optind + 1]));
    if (messages)
        first_message(messages, library ? "warning: " : "error: ", library ? r.warning : r.refusal);
    if (interpret) {
        mark_interpreted(&r);
    } else if (library == NULL) { /* it did not compile */
        char error[CAUSE];
        write_text(error, CAUSE, "%s", r.refusal[0] ? r.refusal : "the compiler failed without an error message");
        refuse_source(&r, error);
    } else {
        char program[4096];
        const char *slash = strrchr(argv[0], '/');
        snprintf(program, sizeof program, "%.*sexercise_runner", slash ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
        const mark_code code = runner_code(&(mark_runner){program, library, seconds});
        mark_all(&r, &code);
    }
    fputs(r.result[0].printed, stderr);
    return print_report(stdout, &r, style) ? EXIT_SUCCESS : EXIT_FAILURE;
}

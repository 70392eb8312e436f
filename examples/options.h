/* The command line of the examples, and how they end.
 *
 * Options: a table of names, variables and ranges. Every program also takes -h, --help and --version; both print and
 * exit with status 0 before the program does anything. An option that is unknown or out of range ends the program with
 * a message and status 2.
 *
 * The end: print_written() names each file that the program wrote, print_next() a command to paste. Both write to
 * standard error, so that standard output holds results only. */
#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H

#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tapehead/tapehead.h>
#include <unistd.h>

#include "started.h"

/* One option. It has exactly one of integer, real, text and flag, or it has real and text, for a number or another
 * word. A table ends with an entry without a name. */
typedef struct {
    const char *name, *help;
    int64_t *integer; /* --name N, an integer from low to high */
    double *real;     /* --name N, a number from low to high */
    const char **text;
    bool *flag;
    double low, high;
    const char *group;    /* a line above it in --help; NULL: none */
    bool *given;          /* becomes true if the command line has the option; may be NULL */
    const char *standard; /* the default in --help, instead of the variable's value; NULL: that value */
} program_option;

enum { MAX_OPTIONS = 120 };

/* Begins a message to standard error about the end of this process: "copy_task: ". If there are several
 * processes, the others wait for the first to report the same error. Then they name their rank. */
static inline void begin_last_message(const char *program)
{
    wait_for_first_report();
    fprintf(stderr, "%s: ", program);
    if (started_rank() > 0)
        fprintf(stderr, "rank %d: ", started_rank());
}

/* Ends the program after an error at run time. */
static inline void give_up(const char *program, const char *problem)
{
    begin_last_message(program);
    fprintf(stderr, "%s\n", problem);
    exit(EXIT_FAILURE);
}

/* Ends the program because of a wrong option. */
static inline void refuse(const char *program, const char *problem, const char *value)
{
    begin_last_message(program);
    fprintf(stderr, "%s%s (--help lists the options)\n", problem, value);
    exit(2);
}

/* Exits with status 0 before help or the version is printed, unless this is the first of several processes. */
static inline void exit_unless_first(void)
{
    if (started_rank() > 0)
        exit(EXIT_SUCCESS);
}

/* Exits with status 0 after help or the version was printed, or with a failure if it could not be written. */
static inline void exit_after_printing(void)
{
    exit(fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Prints "copy_task (Tapehead) 0.3.0" and exits. */
static inline void print_version(const char *program)
{
    exit_unless_first();
    printf("%s (Tapehead) %s\n", program, th_version());
    exit_after_printing();
}

/* Writes a number for readers, integers with all digits, into memory of 32 bytes. Returns the memory. */
static inline const char *spell_number(double value, char *text)
{
    snprintf(text, 32, value == floor(value) && fabs(value) < 1e16 ? "%.0f" : "%g", value);
    return text;
}

/* Prints what the program does and its options, and exits. */
static inline void print_help(const char *about, const program_option *options)
{
    char low[32], high[32], standard[32];
    exit_unless_first();
    printf("%s\n\n", about);
    for (const program_option *option = options; option->name; option++) {
        if (option->group)
            printf("%s%s\n", option == options ? "" : "\n", option->group);
        printf("  --%-18s %s", option->name, option->help);
        if (option->integer || option->real)
            printf(" (%s to %s, default %s)", spell_number(option->low, low), spell_number(option->high, high),
                   option->standard
                       ? option->standard
                       : spell_number(option->integer ? (double)*option->integer : *option->real, standard));
        else if (option->text && (option->standard || *option->text))
            printf(" (default %s)", option->standard ? option->standard : *option->text);
        printf("\n");
    }
    printf("%s  -h, --%-14s %s\n  --%-18s %s\n", options->name ? "\n" : "", "help", "print this help and exit",
           "version", "print the version and exit");
    exit_after_printing();
}

static inline void set_option(const char *program, const program_option *option, const char *argument)
{
    if (option->given)
        *option->given = true;
    if (option->flag) {
        *option->flag = true;
        return;
    }
    char *end;
    const double value = strtod(argument, &end);
    const bool is_number = end != argument && *end == 0;
    const bool is_word = option->text && (!option->real || !is_number);
    if (is_word) {
        *option->text = argument;
        return;
    }
    const bool is_in_range = is_number && value >= option->low && value <= option->high; /* false for NaN */
    if (!is_in_range || (option->integer && value != floor(value))) {
        char problem[160], low[32], high[32];
        snprintf(problem, sizeof problem, "--%s takes a%s number from %s to %s, not ", option->name,
                 option->integer ? " whole" : "", spell_number(option->low, low), spell_number(option->high, high));
        refuse(program, problem, argument);
    }
    if (option->integer)
        *option->integer = (int64_t)value;
    else
        *option->real = value;
}

/* Parses options and at most max other words, which it writes to `words`. Returns the number of words. about: the first
 * lines of --help. */
static inline int parse_options_and_words(int argc, char **argv, const char *program, const char *about,
                                          const program_option *options, const char **words, int max)
{
    enum { HELP = 'h', UNKNOWN = '?', FIRST = 256, VERSION = FIRST + MAX_OPTIONS }; /* FIRST: no character */
    struct option list[MAX_OPTIONS + 3] = {{0}};
    int count = 0;
    for (; count < MAX_OPTIONS && options[count].name; count++)
        list[count] = (struct option){options[count].name, options[count].flag ? no_argument : required_argument, NULL,
                                      FIRST + count};
    list[count] = (struct option){"help", no_argument, NULL, HELP};
    list[count + 1] = (struct option){"version", no_argument, NULL, VERSION};
    opterr = started_rank() < 1;
    for (int i; (i = getopt_long(argc, argv, "h", list, NULL)) != -1;) {
        if (i == UNKNOWN) { /* getopt_long has printed the reason */
            wait_for_first_report();
            fprintf(stderr, "%s: --help lists the options\n", program);
            exit(2);
        }
        if (i == HELP)
            print_help(about, options);
        if (i == VERSION)
            print_version(program);
        set_option(program, &options[i - FIRST], optarg);
    }
    for (int i = optind; i < argc && i - optind < max; i++)
        words[i - optind] = argv[i];
    if (argc - optind > max)
        refuse(program, "this word is one too many: ", argv[optind + max]);
    return argc - optind;
}

static inline void parse_options(int argc, char **argv, const char *program, const char *about,
                                 const program_option *options)
{
    parse_options_and_words(argc, argv, program, about, options, NULL, 0);
}

/* -- the end of a program -- */

/* Ends the program if its standard output could not be written: a full disk must not look like success. */
static inline void finish_output(const char *program)
{
    if (fflush(stdout) || ferror(stdout))
        give_up(program, "standard output could not be written");
}

#ifdef _WIN32
#define OTHER_PLAIN "\\"
enum { SHELL_QUOTE = '"' };
#define SHELL_QUOTE_WITHIN "\\\""
#else
#define OTHER_PLAIN ""
enum { SHELL_QUOTE = '\'' };
#define SHELL_QUOTE_WITHIN "'\\''"
#endif

/* Writes a word, quoted if a shell would otherwise read another word. */
static inline void write_shell_word(FILE *file, const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=.,:/@%" OTHER_PLAIN;
    if (*word && word[strspn(word, plain)] == 0) {
        fputs(word, file);
        return;
    }
    fputc(SHELL_QUOTE, file);
    for (; *word; word++)
        fputs(*word == SHELL_QUOTE ? SHELL_QUOTE_WITHIN : (const char[]){*word, 0}, file);
    fputc(SHELL_QUOTE, file);
}

/* Prints that the program wrote this file. The path is relative to the directory where the user started the program. */
static inline void print_written(const char *path)
{
    fflush(stdout); /* results come before */
    fprintf(stderr, "wrote: %s\n", path);
}

/* Returns the end of the directory in a path; NULL if it has none. */
static inline const char *find_last_slash(const char *path)
{
    const char *slash = strrchr(path, '/');
#ifdef _WIN32
    const char *other = strrchr(path, '\\');
    slash = slash == NULL || (other && other > slash) ? other : slash;
#endif
    return slash;
}

/* Whether the path leads to a program. (On Windows its name ends with .exe, which a shell adds.) */
static inline bool can_run(const char *path)
{
#ifdef _WIN32
    return path[0] != 0;
#else
    return access(path, X_OK) == 0;
#endif
}

/* Prints `label` and a command, so that it can be pasted into the shell that started this program. It runs `program`,
 * an example (often this one), with `words`, which end with NULL.
 *
 * scripts/run.sh leaves its own path in TAPEHEAD_RUN: then the command begins with that script. Otherwise the example
 * is in the directory of argv[0]. If that directory has no such program, nothing is printed. */
static inline void print_command(const char *label, const char *argv0, const char *program, const char *const *words)
{
    const char *script = getenv("TAPEHEAD_RUN"), *slash = find_last_slash(argv0);
    const size_t size = strlen(argv0) + strlen(program) + 1;
    char *path = calloc(size, 1);
    if (path == NULL)
        return;
    snprintf(path, size, "%.*s%s", slash ? (int)(slash + 1 - argv0) : 0, argv0, program);
    if (script || !slash || can_run(path)) {
        fflush(stdout);
        fputs(label, stderr);
        write_shell_word(stderr, script ? script : path);
        if (script)
            fprintf(stderr, " %s", program);
        for (; *words; words++) {
            fputc(' ', stderr);
            write_shell_word(stderr, *words);
        }
        fputc('\n', stderr);
    }
    free(path);
}

/* Prints a command to run next, as print_command. */
static inline void print_next(const char *argv0, const char *program, const char *const *words)
{
    print_command("next:  ", argv0, program, words);
}

#endif

/* Command-line options of the examples: a table of names, places and ranges in, values out; and words that are no
 * options, such as names of files. Nonsense ends the program with a sentence and status 2. Nothing here is about
 * Tapehead. */
#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H

#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* One option; exactly one of the places is given. A table ends with an entry without a name. */
typedef struct {
    const char *name, *help;
    int64_t *whole; /* --name N, a whole number from low to high */
    double *real;   /* --name N, a number from low to high */
    const char **text;
    bool *flag;
    double low, high;
    const char *group; /* a line above it in --help; NULL: none */
} program_option;

enum { MAX_OPTIONS = 64 };

/* Ends the program when something went wrong while it ran. */
static inline void give_up(const char *program, const char *problem)
{
    fprintf(stderr, "%s: %s\n", program, problem);
    exit(EXIT_FAILURE);
}

/* Ends it for an option that makes no sense. */
static inline void refuse(const char *program, const char *problem, const char *what)
{
    fprintf(stderr, "%s: %s%s (--help lists the options)\n", program, problem, what);
    exit(2);
}

/* A number as people write it: whole ones with all their digits. Into memory of 32 bytes, which it returns. */
static inline const char *spell_number(double value, char *text)
{
    snprintf(text, 32, value == floor(value) && fabs(value) < 1e16 ? "%.0f" : "%g", value);
    return text;
}

static inline void print_help(const char *about, const program_option *options)
{
    char low[32], high[32], usual[32];
    printf("%s\n\n", about);
    for (const program_option *o = options; o->name; o++) {
        if (o->group)
            printf("%s%s\n", o == options ? "" : "\n", o->group);
        printf("  --%-18s %s", o->name, o->help);
        if (o->whole || o->real)
            printf(" (%s to %s, default %s)", spell_number(o->low, low), spell_number(o->high, high),
                   spell_number(o->whole ? (double)*o->whole : *o->real, usual));
        if (o->text && *o->text)
            printf(" (default %s)", *o->text);
        printf("\n");
    }
    exit(fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE);
}

static inline void set_option(const char *program, const program_option *o, const char *argument)
{
    if (o->flag)
        *o->flag = true;
    if (o->text)
        *o->text = argument;
    if (!o->whole && !o->real)
        return;
    char *end;
    const double value = strtod(argument, &end);
    const bool number = end != argument && *end == 0 && value >= o->low && value <= o->high; /* NaN is in no range */
    if (!number || (o->whole && value != floor(value))) {
        char problem[160], low[32], high[32];
        snprintf(problem, sizeof problem, "--%s takes a%s number from %s to %s, not ", o->name,
                 o->whole ? " whole" : "", spell_number(o->low, low), spell_number(o->high, high));
        refuse(program, problem, argument);
    }
    if (o->whole)
        *o->whole = (int64_t)value;
    else
        *o->real = value;
}

/* Options and at most `most` words, which go to `words`; returns how many there were. about: the first lines of
 * --help. */
static inline int parse_options_and_words(int argc, char **argv, const char *program, const char *about,
                                          const program_option *options, const char **words, int most)
{
    struct option list[MAX_OPTIONS + 2] = {{0}};
    int count = 0;
    for (; options[count].name && count < MAX_OPTIONS; count++)
        list[count] =
            (struct option){options[count].name, options[count].flag ? no_argument : required_argument, NULL, count};
    list[count] = (struct option){"help", no_argument, NULL, MAX_OPTIONS};
    for (int i; (i = getopt_long(argc, argv, "", list, NULL)) != -1;) {
        if (i == '?')
            exit(2); /* getopt_long has said why */
        if (i == MAX_OPTIONS)
            print_help(about, options);
        set_option(program, &options[i], optarg);
    }
    for (int i = optind; i < argc && i - optind < most; i++)
        words[i - optind] = argv[i];
    if (argc - optind > most)
        refuse(program, "this is no option: ", argv[optind + most]);
    return argc - optind;
}

static inline void parse_options(int argc, char **argv, const char *program, const char *about,
                                 const program_option *options)
{
    parse_options_and_words(argc, argv, program, about, options, NULL, 0);
}

#endif

/* The main function of a program with subcommands. */
#ifndef PROGRAMS_SHARED_SUBCOMMANDS_H
#define PROGRAMS_SHARED_SUBCOMMANDS_H

/* argv[0], for the next command that the program suggests at its end. */
extern const char *program_path;

typedef struct subcommand {
    const char *name, *about;               /* about: its words and what it does, for --help */
    int (*function)(int argc, char **argv); /* returns the program's exit status */
} subcommand;

/* Runs the subcommand that argv[1] names, or answers --help and --version. list ends with an entry without a name. about
 * stands before the list in --help, advice behind it. Returns the program's exit status. */
int run_named_subcommand(int argc, char **argv, const subcommand *list, const char *about, const char *advice);

#endif

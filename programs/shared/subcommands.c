/* The main function of a program with subcommands: see subcommands.h. */
#include "shared/subcommands.h"

#include <string.h>

#include "options.h"
#include "shared/run_folder.h"
#include "shared/system.h"

const char *program_path;

static void print_subcommands(FILE *file, const subcommand *list, const char *about, const char *advice)
{
    fprintf(file, "%s: %s\n\n", program_name, about);
    for (; list->name; list++)
        fprintf(file, "  %s %s %s\n", program_name, list->name, list->about);
    fprintf(file, "\n%s", advice);
}

/* If standard output or error is closed, the next file that is opened would get its descriptor and receive the output.
 * Opens /dev/null for reading there instead, so that writing fails. */
static void keep_standard_descriptors(void)
{
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
        if (fcntl(i, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != i)
            exit(EXIT_FAILURE);
}

int run_named_subcommand(int argc, char **argv, const subcommand *list, const char *about, const char *advice)
{
    begin_process(&argc, &argv);
    keep_standard_descriptors();
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN); /* beyond the limit of `ulimit -f`, writing fails with a message as on a full disk */
#endif
    program_path = argv[0] ? argv[0] : program_name;
    for (const subcommand *chosen = list; argc > 1 && chosen->name; chosen++)
        if (strcmp(argv[1], chosen->name) == 0) {
            char name[64]; /* getopt begins its messages with it */
            snprintf(name, sizeof name, "%s %s", program_name, chosen->name);
            argv[1] = name;
            const int status = chosen->function(argc - 1, argv + 1);
            finish_output(program_name);
            return status;
        }
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        print_version(program_name);
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        exit_unless_first();
        print_subcommands(stdout, list, about, advice);
        exit_after_printing();
    }
    if (argc > 1)
        fprintf(stderr, "%s: unknown command: %s\n\n", program_name, argv[1]);
    print_subcommands(stderr, list, about, advice);
    return 2;
}

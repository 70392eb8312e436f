/* The command that repeats a planned run: see plan.h. */
#include <string.h>

#include "plan.h"
#include "shared/system.h"

/* Lists the words of the command after the program's name. The caller frees the list. */
static const char **list_words(const trainer *t, const char *const *sources, int count)
{
    const char *const *options = repeating_options();
    int n_options = 0, used = 0;
    while (options[n_options])
        n_options++;
    const char **words = calloc((size_t)count + (size_t)n_options + 3, sizeof *words);
    if (words == NULL)
        give_up(PROGRAM, "out of memory");
    words[used++] = "train";
    for (int i = 0; i < count; i++)
        words[used++] = sources[i];
    words[used++] = t->run;
    for (int i = 0; i < n_options; i++)
        words[used++] = options[i];
    return words;
}

void write_command(const trainer *t, const char *const *sources, int count)
{
    char *text = NULL;
    size_t bytes = 0;
    const char **words = list_words(t, sources, count);
    FILE *file = open_memstream(&text, &bytes);
    if (file == NULL)
        give_up(PROGRAM, "out of memory");
    fputs(PROGRAM, file);
    for (const char **word = words; *word; word++) {
        fputc(' ', file);
        write_shell_word(file, *word);
    }
    fputc('\n', file);
    if (fclose(file) != 0)
        give_up(PROGRAM, "out of memory");
    require_ok(t, th_file_write(t->ctx, path_in(t->run, "command.txt"), text, bytes));
    print_command("repeat:  ", program_path, PROGRAM, words);
    free(text);
    free(words);
}

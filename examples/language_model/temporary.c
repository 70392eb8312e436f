/* Token files of texts that are only measured: they are in a temporary folder, which does not outlive the program. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tuning.h"

static char folder[2048], path[2100], unfinished[2120];

static void remove_temporary(void)
{
    if (folder[0] == 0)
        return;
    unlink(path);
    unlink(unfinished);
    rmdir(folder);
    folder[0] = 0;
}

/* Ends the program by the signal, as without this function. It calls functions that a handler may call. */
static void remove_and_end(int received)
{
    remove_temporary();
    signal(received, SIG_DFL);
    raise(received);
}

/* Removes the folder at every end of the program except SIGKILL. */
static void remove_at_end(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    static bool registered;
    if (!registered && atexit(remove_temporary) != 0)
        give_up(PROGRAM, "out of memory");
    registered = true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (signal(ends[i], remove_and_end) == SIG_IGN) /* of nohup, for example */
            signal(ends[i], SIG_IGN);
}

static void make_temporary(void)
{
    const char *parent = getenv("TMPDIR");
    char name[sizeof folder];
    if (parent == NULL || parent[0] == 0)
        parent = "/tmp";
    if (snprintf(name, sizeof name, "%s/language_model_XXXXXX", parent) >= (int)sizeof name || mkdtemp(name) == NULL)
        refuse(PROGRAM, "a temporary folder cannot be created in ", parent);
    snprintf(path, sizeof path, "%s/text.tokens", name);
    snprintf(unfinished, sizeof unfinished, "%s" UNFINISHED, path);
    memcpy(folder, name, sizeof folder);
}

th_status with_tokens(trainer *t, const texts *text, th_status (*use)(trainer *t, const char *path))
{
    remove_at_end();
    make_temporary();
    th_status status = chosen.marked ? encode_instructions(t, text, chat_folder(t), path)
                                     : encode_text(t->ctx, t->tokenizer, text, path);
    if (status == TH_OK)
        status = use(t, path);
    remove_temporary();
    return status;
}

/* Token files of texts that are only measured: they are in a temporary folder, which does not outlive the program. */
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "tuning.h"

static char folder[2048], path[2100], unfinished[2120];

/* Removes the folder. It calls only functions that a signal handler may call. */
static void remove_temporary(void)
{
    if (folder[0] == 0)
        return;
    unlink(path);
    unlink(unfinished);
    rmdir(folder);
    folder[0] = 0;
}

/* Creates the folder. A signal that arrives afterwards removes it. */
static void make_temporary(void)
{
    const char *parent = getenv("TMPDIR");
    char name[sizeof folder];
    if (parent == NULL || parent[0] == 0)
        parent = "/tmp";
    sigset_t before;
    hold_signals(&before);
    if (snprintf(name, sizeof name, "%s/language_model_XXXXXX", parent) >= (int)sizeof name || mkdtemp(name) == NULL)
        refuse(PROGRAM, "a temporary folder cannot be created in ", parent);
    snprintf(path, sizeof path, "%s/text.tokens", name);
    snprintf(unfinished, sizeof unfinished, "%s" UNFINISHED, path);
    memcpy(folder, name, sizeof folder);
    release_signals(&before);
}

th_status with_tokens(trainer *t, const texts *text, th_status (*use)(trainer *t, const char *path))
{
    at_every_end(remove_temporary, remove_temporary);
    make_temporary();
    th_status status = chosen.marked ? encode_instructions(t, text, chat_folder(t), path)
                                     : encode_text(t->ctx, t->tokenizer, text, path);
    if (status == TH_OK)
        status = use(t, path);
    remove_temporary();
    return status;
}

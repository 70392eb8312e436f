/* Token files of texts that are only measured: they are in a temporary folder, which does not outlive the program. */
#include <string.h>

#include "cleanup.h"
#include "shared/system.h"
#include "tuning.h"

static char temporary_folder[2048], token_path[2100], unfinished_path[2120];

/* Removes the folder. It calls only functions that a signal handler may call. */
static void remove_temporary(void)
{
    if (temporary_folder[0] == 0)
        return;
    unlink(token_path);
    unlink(unfinished_path);
    rmdir(temporary_folder);
    temporary_folder[0] = 0;
}

/* Creates the folder. A signal that arrives afterwards removes it. */
static void make_temporary(void)
{
    const char *parent = temporary_parent();
    char name[sizeof temporary_folder];
    sigset_t old_signals;
    block_signals(&old_signals);
    if (snprintf(name, sizeof name, "%s/language_model_XXXXXX", parent) >= (int)sizeof name || mkdtemp(name) == NULL)
        refuse(PROGRAM, "a temporary folder cannot be created in ", parent);
    snprintf(token_path, sizeof token_path, "%s/text.tokens", name);
    snprintf(unfinished_path, sizeof unfinished_path, "%s" UNFINISHED, token_path);
    memcpy(temporary_folder, name, sizeof temporary_folder);
    restore_signals(&old_signals);
}

th_status with_token_file(trainer *t, const texts *text, th_status (*use)(trainer *t, const char *token_path))
{
    register_cleanup(remove_temporary, remove_temporary);
    make_temporary();
    th_status status = chosen.marked ? encode_instructions(t, text, chat_template_folder(t), token_path)
                                     : encode_text(t->ctx, t->tokenizer, text, token_path);
    if (status == TH_OK)
        status = use(t, token_path);
    remove_temporary();
    return status;
}

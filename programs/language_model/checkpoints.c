/* Keeps the newest checkpoints of a run, and finds the one to continue from: see checkpoints.h. */
#include "checkpoints.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "report.h"
#include "settings.h"
#include "trainer.h"

/* Returns the name of the newest (0) or an older checkpoint. It is valid for two calls. */
static const char *name_of(int number)
{
    static char names[2][32];
    static int turn;
    turn = !turn;
    if (number == 0)
        return NEWEST_CHECKPOINT;
    snprintf(names[turn], sizeof names[turn], "last.%d.safetensors", number);
    return names[turn];
}

static bool is_there(const char *run, const char *name)
{
    return access(in_run(run, name), F_OK) == 0;
}

static void rename_in_run(const char *run, const char *from, const char *to)
{
    char problem[400];
    if (rename(in_run(run, from), in_run(run, to)) == 0)
        return;
    snprintf(problem, sizeof problem, "%.200s cannot be renamed to %s: %s", in_run(run, from), to, strerror(errno));
    give_up(PROGRAM, problem);
}

void keep_checkpoint(const char *run, int64_t keep)
{
    int free_number = 0; /* the first number without a checkpoint; if all are taken, the oldest is replaced */
    while (free_number < keep - 1 && is_there(run, name_of(free_number)))
        free_number++;
    for (int i = free_number; i > 1; i--)
        rename_in_run(run, name_of(i - 1), name_of(i));
    if (free_number > 0) {
        /* A hard link keeps the newest under its name until it is replaced. Not all file systems have hard links. */
        unlink(in_run(run, name_of(1)));
        if (link(in_run(run, NEWEST_CHECKPOINT), in_run(run, name_of(1))) != 0)
            rename_in_run(run, NEWEST_CHECKPOINT, name_of(1));
    }
    rename_in_run(run, NEXT_CHECKPOINT, NEWEST_CHECKPOINT);
}

bool has_checkpoint(const char *run)
{
    for (int i = 0; i < MAX_CHECKPOINTS; i++)
        if (is_there(run, name_of(i)))
            return true;
    return false;
}

const char *find_intact_checkpoint(const char *run)
{
    static char found[32];
    th_context *ctx = th_context_new(NULL);
    bool any = false;
    for (int i = 0; i < MAX_CHECKPOINTS && found[0] == 0; i++) {
        if (!is_there(run, name_of(i)))
            continue;
        if (th_checkpoint_verify(ctx, in_run(run, name_of(i))) == TH_OK)
            snprintf(found, sizeof found, "%s", name_of(i));
        else if (started_rank() < 1)
            fprintf(stderr, PROGRAM ": %s\n", th_error_text(ctx));
        th_error_clear(ctx);
        any = true;
    }
    th_context_free(ctx);
    if (!any)
        refuse_folder(run, "a run");
    if (found[0] == 0)
        give_up(PROGRAM, "no checkpoint of the run is intact: begin it again with train --force");
    return found;
}

void return_to_checkpoint(const char *run, const char *name)
{
    for (int i = 0; i < MAX_CHECKPOINTS && strcmp(name, name_of(i)) != 0; i++) {
        char aside[64];
        snprintf(aside, sizeof aside, "%s.damaged", name_of(i));
        if (is_there(run, name_of(i)))
            rename_in_run(run, name_of(i), aside);
    }
    if (strcmp(name, NEWEST_CHECKPOINT) != 0)
        rename_in_run(run, name, NEWEST_CHECKPOINT);
}

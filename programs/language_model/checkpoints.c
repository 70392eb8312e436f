/* Keeps the newest checkpoints of a run, and finds the one to continue from: see checkpoints.h. */
#include "checkpoints.h"

#include <errno.h>
#include <string.h>

#include "report.h"
#include "settings.h"
#include "shared/system.h"
#include "trainer.h"

/* Returns the name of the newest (0) or an older checkpoint. It is valid for two calls. */
static const char *checkpoint_name(int number)
{
    static char names[2][32];
    static int slot;
    slot = !slot;
    if (number == 0)
        return NEWEST_CHECKPOINT;
    snprintf(names[slot], sizeof names[slot], "last.%d.safetensors", number);
    return names[slot];
}

static bool file_exists(const char *run, const char *name)
{
    return access(path_in(run, name), F_OK) == 0;
}

static void rename_in_run(const char *run, const char *from, const char *to)
{
    char problem[400];
    if (rename(path_in(run, from), path_in(run, to)) == 0)
        return;
    snprintf(problem, sizeof problem, "%.200s cannot be renamed to %s: %s", path_in(run, from), to, strerror(errno));
    give_up(PROGRAM, problem);
}

void rotate_checkpoints(const char *run, int64_t keep)
{
    int free_number = 0; /* the first number without a checkpoint; if all are taken, the oldest is replaced */
    while (free_number < keep - 1 && file_exists(run, checkpoint_name(free_number)))
        free_number++;
    for (int i = free_number; i > 1; i--)
        rename_in_run(run, checkpoint_name(i - 1), checkpoint_name(i));
    if (free_number > 0) {
        /* A hard link keeps the newest under its name until it is replaced. Not all file systems have hard links. */
        unlink(path_in(run, checkpoint_name(1)));
        if (link(path_in(run, NEWEST_CHECKPOINT), path_in(run, checkpoint_name(1))) != 0)
            rename_in_run(run, NEWEST_CHECKPOINT, checkpoint_name(1));
    }
    rename_in_run(run, NEXT_CHECKPOINT, NEWEST_CHECKPOINT);
}

bool has_checkpoint(const char *run)
{
    for (int i = 0; i < MAX_CHECKPOINTS; i++)
        if (file_exists(run, checkpoint_name(i)))
            return true;
    return false;
}

const char *find_intact_checkpoint(const char *run)
{
    static char found[32];
    th_context *ctx = th_context_new(NULL);
    bool any_found = false;
    for (int i = 0; i < MAX_CHECKPOINTS && found[0] == 0; i++) {
        if (!file_exists(run, checkpoint_name(i)))
            continue;
        if (th_checkpoint_verify(ctx, path_in(run, checkpoint_name(i))) == TH_OK)
            snprintf(found, sizeof found, "%s", checkpoint_name(i));
        else if (started_rank() < 1)
            fprintf(stderr, PROGRAM ": %s\n", th_error_text(ctx));
        th_error_clear(ctx);
        any_found = true;
    }
    th_context_free(ctx);
    if (!any_found)
        refuse_folder(run, "a run");
    if (found[0] == 0)
        give_up(PROGRAM, "no checkpoint of the run is intact: begin it again with train --force");
    return found;
}

void return_to_checkpoint(const char *run, const char *name)
{
    for (int i = 0; i < MAX_CHECKPOINTS && strcmp(name, checkpoint_name(i)) != 0; i++) {
        char damaged_name[64];
        snprintf(damaged_name, sizeof damaged_name, "%s.damaged", checkpoint_name(i));
        if (file_exists(run, checkpoint_name(i)))
            rename_in_run(run, checkpoint_name(i), damaged_name);
    }
    if (strcmp(name, NEWEST_CHECKPOINT) != 0)
        rename_in_run(run, name, NEWEST_CHECKPOINT);
}

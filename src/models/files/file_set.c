/* Files of a folder that get their names together: see file_set.h. */
#include "models/files/file_set.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/core/context.h"
#include "models/core/files.h"

struct th_set_file {
    th_set_file *next;
    bool removed, complete; /* the old file is removed; the new one waits for its name */
    char path[TH_MAX_PATH];
    th_atomic_file file;
};

static th_status fail(const th_file_set *s, const char *path)
{
    return th_fail(s->ctx, TH_ERROR_FILE, s->operation, "%.300s: %s", path, strerror(errno));
}

th_status th_file_set_make_folder(th_file_set *s)
{
    s->folder_is_new = mkdir(s->folder, 0777) == 0;
    return s->folder_is_new || errno == EEXIST ? TH_OK : fail(s, s->folder);
}

/* Appends an entry. Returns NULL with the error pending. */
static th_set_file *append_entry(th_file_set *s, const char *name)
{
    th_set_file *f = th_allocate(s->ctx, sizeof *f);
    if (f == NULL) {
        th_fail_memory(s->ctx, s->operation, sizeof *f);
        return NULL;
    }
    f->next = NULL;
    f->removed = f->complete = false;
    if (!th_path_join(f->path, s->folder, name)) {
        th_fail(s->ctx, TH_ERROR_ARGUMENT, s->operation, "the path of %.60s in %.300s is too long", name, s->folder);
        th_release(s->ctx, f, sizeof *f);
        return NULL;
    }
    *(s->last ? &s->last->next : &s->first) = f;
    s->last = f;
    return f;
}

th_status th_file_set_add(th_file_set *s, const char *name, th_set_writer *writer, const void *content)
{
    th_set_file *f = append_entry(s, name);
    if (f == NULL)
        return th_error_code(s->ctx);
    errno = 0;
    if (!th_atomic_begin(&f->file, f->path))
        return fail(s, f->path);
    errno = 0;
    f->complete = th_atomic_finish(&f->file, writer(f->file.file, content));
    return f->complete ? TH_OK : fail(s, f->path);
}

th_status th_file_set_add_removal(th_file_set *s, const char *name)
{
    struct stat status;
    th_set_file *f = append_entry(s, name);
    if (f == NULL)
        return th_error_code(s->ctx);
    f->removed = true;
    errno = EISDIR; /* found before anything is removed */
    return lstat(f->path, &status) == 0 && S_ISDIR(status.st_mode) ? fail(s, f->path) : TH_OK;
}

th_status th_file_set_remove_old_version(th_file_set *s)
{
    const th_atomic_file *file = &s->last->file;
    return file->direct || th_remove_file(file->target) ? TH_OK : fail(s, file->target);
}

th_status th_file_set_publish(th_file_set *s)
{
    th_status status = TH_OK;
    for (th_set_file *f = s->first; f && status == TH_OK; f = f->next) {
        s->folder_is_new = false;
        if (f->removed) {
            status = th_remove_file(f->path) ? TH_OK : fail(s, f->path);
        } else {
            f->complete = false;
            status = th_atomic_publish(&f->file) ? TH_OK : fail(s, f->path);
        }
    }
    return status;
}

void th_file_set_free(th_file_set *s)
{
    for (th_set_file *f = s->first, *next; f; f = next) {
        next = f->next;
        if (f->complete)
            th_atomic_discard(&f->file);
        th_release(s->ctx, f, sizeof *f);
    }
    if (s->folder_is_new)
        (void)rmdir(s->folder); /* fails if it has other files */
}

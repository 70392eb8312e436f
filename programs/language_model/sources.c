/* Protects the files that export reads: it must not replace the run, the model that the run was tuned from, or the GGUF
 * file, under whatever name. */
#include <errno.h>
#include <string.h>

#include "shared/system.h"
#include "tuning.h"

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool is_gguf_name(const char *name)
{
    const size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".gguf") == 0;
}

/* Returns whether the folder has the regular file, perhaps under another name or through a link. skip_gguf: except
 * names of GGUF files. */
static bool has_file(const char *folder, const struct stat *file, bool skip_gguf)
{
    DIR *directory = opendir(folder);
    if (directory == NULL)
        give_up_file(folder, "read");
    bool found = false;
    struct stat status;
    for (const struct dirent *entry; !found && (entry = readdir(directory)) != NULL;)
        found = !(skip_gguf && is_gguf_name(entry->d_name)) &&
                fstatat(dirfd(directory), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode) &&
                is_same_file(&status, file);
    closedir(directory);
    return found;
}

/* Returns whether writing to `path` would replace a file of the source. */
static bool would_replace(const char *source, const char *path, const struct stat *at_path)
{
    struct stat status;
    if (source == NULL || stat(source, &status) != 0)
        return false;
    if (is_same_file(&status, at_path))
        return true;
    if (S_ISDIR(status.st_mode))
        return S_ISREG(at_path->st_mode) && has_file(source, at_path, false);
    return S_ISDIR(at_path->st_mode) && has_file(path, &status, true);
}

void protect_sources(const char *source, const char *path)
{
    struct stat at_path;
    char problem[400];
    if (stat(path, &at_path) != 0)
        return;
    if (would_replace(source, path, &at_path))
        refuse(PROGRAM, "export would replace what it reads; give another name: ", path);
    if (!would_replace(chosen.from, path, &at_path))
        return;
    snprintf(
        problem, sizeof problem,
        "export would replace the model in %.200s, from which the run was tuned; give another name: ", chosen.from);
    refuse(PROGRAM, problem, path);
}

/* Reads the files of a folder and compares them: see calls_files.h. */
#include "calls_files.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- reading -- */

static void stop(const char *what)
{
    perror(what);
    exit(2);
}

static void read_file(calls_file *file, const char *path, off_t size)
{
    file->bytes = malloc((size_t)size + 1);
    FILE *stream = fopen(path, "rb");
    if (file->bytes == NULL || stream == NULL)
        stop(path);
    file->count = fread(file->bytes, 1, (size_t)size, stream);
    fclose(stream);
}

static void read_link(calls_file *file, const char *path)
{
    char target[LONGEST_NAME];
    const ssize_t length = readlink(path, target, sizeof target);
    if (length < 0 || (file->bytes = malloc((size_t)length + 1)) == NULL)
        stop(path);
    memcpy(file->bytes, target, (size_t)length);
    file->count = (size_t)length;
}

static void add_files(calls_files *files, const char *folder, const char *prefix)
{
    DIR *directory = opendir(folder);
    if (directory == NULL)
        stop(folder);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[512], name[LONGEST_NAME];
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (snprintf(name, sizeof name, "%s%s", prefix, entry->d_name) >= LONGEST_NAME || lstat(path, &status) != 0)
            stop(path);
        if (S_ISDIR(status.st_mode)) {
            strncat(name, "/", sizeof name - strlen(name) - 1);
            add_files(files, path, name);
            continue;
        }
        if (files->count == MOST_FILES)
            stop("too many files");
        calls_file *file = &files->file[files->count++];
        *file = (calls_file){.mode = status.st_mode};
        strcpy(file->name, name);
        if (S_ISLNK(status.st_mode))
            read_link(file, path);
        else
            read_file(file, path, status.st_size);
    }
    closedir(directory);
}

void calls_files_read(calls_files *files, const char *folder)
{
    files->count = 0;
    add_files(files, folder, "");
}

void calls_files_free(calls_files *files)
{
    for (int i = 0; i < files->count; i++)
        free(files->file[i].bytes);
    files->count = 0;
}

static void remove_files(const char *folder)
{
    DIR *directory = opendir(folder);
    for (const struct dirent *entry; directory && (entry = readdir(directory)) != NULL;) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || unlink(path) == 0)
            continue;
        remove_files(path);
        if (rmdir(path) != 0)
            stop(path);
    }
    if (directory)
        closedir(directory);
}

void calls_folder_empty(const char *folder)
{
    remove_files(folder);
    if (access(folder, F_OK) != 0 && mkdir(folder, 0700) != 0)
        stop(folder);
}

/* -- comparing -- */

static const calls_file *find(const calls_files *files, const char *name)
{
    for (int i = 0; i < files->count; i++)
        if (strcmp(files->file[i].name, name) == 0)
            return &files->file[i];
    return NULL;
}

static bool equal(const calls_file *a, const calls_file *b)
{
    return a && b && a->mode == b->mode && a->count == b->count && memcmp(a->bytes, b->bytes, a->count) == 0;
}

static bool begins(const calls_file *whole, const calls_file *part)
{
    return whole && part->count <= whole->count && memcmp(whole->bytes, part->bytes, part->count) == 0;
}

static bool has_whole_lines(const calls_file *file)
{
    return file->count == 0 || file->bytes[file->count - 1] == '\n';
}

static bool has_whole_records(const calls_file *file)
{
    size_t at = 0;
    while (at + 16 <= file->count) {
        uint64_t length;
        memcpy(&length, file->bytes + at, sizeof length);
        at += length > file->count ? file->count : 16 + (size_t)length;
    }
    return at == file->count && at > 0;
}

/* Whether the file has the time in it, so that no two are equal. */
static bool has_time(const char *name)
{
    return strncmp(name, "events.", 7) == 0 || strcmp(name, "trace.json") == 0;
}

static bool has_end_of_trace(const calls_file *file)
{
    return file->count > 4 && memcmp(file->bytes + file->count - 4, "\n]}\n", 4) == 0;
}

static bool complain(const char *problem, const char *name)
{
    printf("    %s: %s\n", name, problem);
    return false;
}

static bool is_allowed(const calls_file *file, const calls_file *old, const calls_file *new, bool leftovers)
{
    if (has_time(file->name))
        return leftovers ||
               (strncmp(file->name, "events.", 7) == 0 ? has_whole_records(file) : has_end_of_trace(file)) ||
               complain("it is incomplete", file->name);
    if (strstr(file->name, ".unfinished"))
        return leftovers || equal(file, old) || complain("it was left", file->name);
    if (old == NULL && new == NULL)
        return complain("it is another file", file->name);
    if (strstr(file->name, ".jsonl"))
        return ((leftovers || has_whole_lines(file)) && (begins(old, file) || begins(new, file))) ||
               complain("it is neither whole lines of the old log nor of the new one", file->name);
    return equal(file, old) || equal(file, new) || complain("it is neither the old file nor the new one", file->name);
}

/* The last file of a folder: without it the folder has neither a model nor an adapter. */
static const char *const marks[] = {"config.json", "adapter_config.json"};
enum { MARKS = sizeof marks / sizeof *marks };

/* The length of the folder in a name, with its slash. */
static size_t folder_length(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? (size_t)(slash - name) + 1 : 0;
}

/* Whether the file is in a folder that is being replaced: it has lost its mark. */
static bool is_of_no_model(const calls_files *now, const calls_files *old, const char *name)
{
    const size_t length = folder_length(name);
    char mark[LONGEST_NAME + 24];
    bool lost = false;
    for (int i = 0; i < MARKS && length > 0 && !lost; i++) {
        snprintf(mark, sizeof mark, "%.*s%s", (int)length, name, marks[i]);
        lost = find(old, mark) && find(now, mark) == NULL;
    }
    return lost;
}

/* Whether the files of a folder are those of `as`, no more and no fewer. */
static bool has_files_of(const calls_files *now, const calls_files *as, const char *folder, size_t length)
{
    bool same = true;
    for (int i = 0; i < now->count && same; i++)
        if (strncmp(now->file[i].name, folder, length) == 0 && strstr(now->file[i].name, ".unfinished") == NULL)
            same = equal(&now->file[i], find(as, now->file[i].name));
    for (int i = 0; i < as->count && same; i++)
        if (strncmp(as->file[i].name, folder, length) == 0)
            same = find(now, as->file[i].name) != NULL;
    return same;
}

/* Whether each folder with a mark has only files of the old model, or only files of the new one. */
static bool sets_are_whole(const calls_files *now, const calls_files *old, const calls_files *new)
{
    bool whole = true;
    for (int i = 0; i < now->count; i++) {
        const char *name = now->file[i].name;
        const size_t length = folder_length(name);
        for (int m = 0; m < MARKS && length > 0; m++)
            if (strcmp(name + length, marks[m]) == 0 && !has_files_of(now, old, name, length) &&
                !has_files_of(now, new, name, length))
                whole = complain("its folder has files of the old model and of the new one", name);
    }
    return whole;
}

bool calls_files_allowed(const calls_files *now, const calls_files *old, const calls_files *new, bool leftovers)
{
    bool good = true;
    for (int i = 0; i < now->count; i++) {
        const char *name = now->file[i].name;
        good &= is_allowed(&now->file[i], find(old, name), find(new, name), leftovers);
    }
    for (int i = 0; i < old->count; i++)
        if (find(new, old->file[i].name) && find(now, old->file[i].name) == NULL &&
            !is_of_no_model(now, old, old->file[i].name))
            good = complain("it is gone", old->file[i].name);
    return sets_are_whole(now, old, new) && good;
}

bool calls_files_new(const calls_files *now, const calls_files *old, const calls_files *new)
{
    bool good = true;
    for (int i = 0; i < new->count; i++)
        if (!has_time(new->file[i].name) && !equal(&new->file[i], find(now, new->file[i].name)))
            good = complain("it is not the new file", new->file[i].name);
    for (int i = 0; i < now->count; i++)
        if (!has_time(now->file[i].name) && find(new, now->file[i].name) == NULL &&
            !equal(&now->file[i], find(old, now->file[i].name)))
            good = complain("it was left", now->file[i].name);
    return good;
}

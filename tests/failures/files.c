/* Reads and compares the files that a program leaves. */
#include "files.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef void visit(void *user, const char *path, const char *name);

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), expected = strlen(end);
    return length >= expected && strcmp(name + length - expected, end) == 0;
}

/* Calls function(user, path, name) for each file in folder/inside. name begins with inside. */
static void visit_files(const char *folder, const char *inside, visit *function, void *user)
{
    char path[1024], name[512];
    snprintf(path, sizeof path, "%s/%s", folder, inside);
    DIR *entries = opendir(path);
    if (entries == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(entries));) {
        struct stat kind;
        snprintf(name, sizeof name, "%.200s%s%.255s", inside, *inside ? "/" : "", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (entry->d_name[0] == '.' || stat(path, &kind) != 0)
            continue;
        if (!S_ISDIR(kind.st_mode))
            function(user, path, name);
        else if (*inside == 0)
            visit_files(folder, entry->d_name, function, user);
    }
    closedir(entries);
}

/* Files whose bytes a run does not determine: what a program prints, a profile's times, and TensorBoard's logs. */
static bool is_determined(const char *name)
{
    return strcmp(name, "output") != 0 && !ends_with(name, ".timed") && strncmp(name, "events/", 7) != 0;
}

static known_file read_known(const char *path, const char *name)
{
    unsigned char bytes[4096];
    known_file known = {.hash = 1, .whole_lines = true};
    snprintf(known.name, sizeof known.name, "%.127s", name);
    const int file = open(path, O_RDONLY);
    for (ssize_t count; (count = read(file, bytes, sizeof bytes)) > 0;)
        for (ssize_t i = 0; i < count; i++, known.bytes++) {
            known.hash = known.hash * 0x01000193u ^ bytes[i];
            known.whole_lines = bytes[i] == '\n';
        }
    close(file);
    return known;
}

static void add_known(void *user, const char *path, const char *name)
{
    known_files *files = user;
    if (is_determined(name) && files->count < FILES)
        files->file[files->count++] = read_known(path, name);
}

void read_files(known_files *files, const char *folder)
{
    files->count = 0;
    visit_files(folder, "", add_known, files);
}

static void remove_one(void *user, const char *path, const char *name)
{
    (void)user;
    (void)name;
    unlink(path);
}

void remove_files(const char *folder)
{
    visit_files(folder, "", remove_one, NULL);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *position)
{
    (void)status;
    (void)type;
    (void)position;
    return remove(path);
}

void remove_folder(const char *folder)
{
    nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* -- comparing -- */

typedef struct comparison {
    const known_files *complete;
    char sentence[256];
} comparison;

static void compare(void *user, const char *path, const char *name)
{
    comparison *c = user;
    if (strstr(name, "unfinished")) {
        snprintf(c->sentence, sizeof c->sentence, "the unfinished file %.100s is left", name);
        return;
    }
    for (int i = 0; is_determined(name) && i < c->complete->count; i++) {
        const known_file *known = &c->complete->file[i];
        if (strcmp(known->name, name) != 0)
            continue;
        const known_file found = read_known(path, name);
        if (ends_with(name, ".jsonl") ? !found.whole_lines : found.hash != known->hash || found.bytes != known->bytes)
            snprintf(c->sentence, sizeof c->sentence, "%.100s is not complete: it has %lld of %lld bytes", name,
                     (long long)found.bytes, (long long)known->bytes);
    }
}

const char *find_damage(const known_files *complete, const char *folder)
{
    static comparison c;
    c = (comparison){.complete = complete};
    visit_files(folder, "", compare, &c);
    return c.sentence[0] ? c.sentence : NULL;
}

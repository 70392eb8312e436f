/* The quota of control groups. cgroups(7) describes their files: cpu.max of version 2, cpu.cfs_quota_us of version 1. A
 * container may show them under any mount point. */
#include "platform/control_groups.h"

#include <limits.h>

#ifdef __linux__

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *open_below(const char *directory, const char *name)
{
    char path[3 * PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s%s", directory, name);
    return length < (int)sizeof path ? fopen(path, "re") : NULL;
}

/* One mounted hierarchy of control groups that can limit processor time. */
typedef struct hierarchy {
    bool version2;
    char top[PATH_MAX];   /* the group that is mounted; "/" is the whole hierarchy */
    char mount[PATH_MAX]; /* its mount point */
} hierarchy;

/* Returns whether the word is in the comma-separated list. */
static bool list_contains(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && (at[length] == 0 || at[length] == ',' || at[length] == '\n'))
            return true;
    return false;
}

/* Parses a line of /proc/self/mountinfo: "36 35 98:0 /top /mount/point rw,noatime shared:1 - cgroup cgroup
 * rw,cpu,cpuacct". Returns false unless it mounts a hierarchy that can limit processor time. */
static bool parse_mount(const char *line, hierarchy *h)
{
    char type[16], options[256];
    const char *end = strstr(line, " - ");
    if (!end || sscanf(line, "%*s %*s %*s %4095s %4095s", h->top, h->mount) != 2 ||
        sscanf(end, " - %15s %*s %255s", type, options) != 2)
        return false;
    h->version2 = strcmp(type, "cgroup2") == 0;
    return h->version2 || (strcmp(type, "cgroup") == 0 && list_contains(options, "cpu"));
}

/* Parses a line of /proc/self/cgroup: "4:cpu,cpuacct:/a/group" or, in version 2, "0::/a/group". Returns the group's
 * path in its hierarchy; NULL for lines of other hierarchies. */
static const char *parse_group(const char *line, bool version2)
{
    const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path)
        return NULL;
    if (version2)
        return strncmp(line, "0::", 3) == 0 ? path + 1 : NULL;
    for (const char *at = list; at < path; at += 1 + strcspn(at + 1, ",:"))
        if (strncmp(at + 1, "cpu", 3) == 0 && (at[4] == ',' || at[4] == ':'))
            return path + 1;
    return NULL;
}

/* Sets path to this process's group relative to the hierarchy's mount point: "" or a path that begins with a slash. */
static bool find_group(const char *root, const hierarchy *h, char path[PATH_MAX])
{
    FILE *file = open_below(root, "/proc/self/cgroup");
    if (!file)
        return false;
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (!found && getline(&line, &size, file) > 0) {
        const char *group = parse_group(line, h->version2);
        if (!group)
            continue;
        found = true;
        line[strcspn(line, "\n")] = 0;
        const size_t top = strcmp(h->top, "/") == 0 ? 0 : strlen(h->top);
        const bool below = strncmp(group, h->top, top) == 0 && (group[top] == '/' || group[top] == 0);
        snprintf(path, PATH_MAX, "%s", below && strcmp(group + top, "/") != 0 ? group + top : "");
    }
    free(line);
    fclose(file);
    return found;
}

/* Reads at most two numbers at the beginning of a file; returns how many there are. */
static int read_numbers(const char *directory, const char *name, long long number[2])
{
    FILE *file = open_below(directory, name);
    if (!file)
        return 0;
    const int count = fscanf(file, "%lld %lld", &number[0], &number[1]); /* 0 for "max 100000" */
    fclose(file);
    return count;
}

/* Returns the quota of one group alone, in processors. */
static int quota_of(const char *directory, bool version2)
{
    long long quota[2], period[2]; /* microseconds of processor time in each period */
    if (version2 ? read_numbers(directory, "/cpu.max", quota) < 2
                 : read_numbers(directory, "/cpu.cfs_quota_us", quota) < 1 ||
                       read_numbers(directory, "/cpu.cfs_period_us", period) < 1)
        return INT_MAX;
    const long long time = quota[0], every = version2 ? quota[1] : period[0];
    if (time <= 0 || every <= 0)
        return INT_MAX;
    const long long processors = time / every + (time % every != 0);
    return processors < INT_MAX ? (int)processors : INT_MAX;
}

/* Returns the smallest quota among the process's group and the groups above it, up to the group that is mounted. */
static int smallest_quota_in(const char *root, const hierarchy *h)
{
    char group[PATH_MAX], directory[2 * PATH_MAX];
    if (!find_group(root, h, group))
        return INT_MAX;
    int least = INT_MAX;
    for (;;) {
        snprintf(directory, sizeof directory, "%s%s%s", root, h->mount, group);
        const int quota = quota_of(directory, h->version2);
        least = quota < least ? quota : least;
        char *last = strrchr(group, '/');
        if (!last)
            return least;
        *last = 0;
    }
}

int th_processors_quota(const char *root)
{
    FILE *file = open_below(root, "/proc/self/mountinfo");
    if (!file)
        return INT_MAX;
    char *line = NULL;
    size_t size = 0;
    hierarchy h;
    int least = INT_MAX;
    while (getline(&line, &size, file) > 0) {
        const int quota = parse_mount(line, &h) ? smallest_quota_in(root, &h) : INT_MAX;
        least = quota < least ? quota : least;
    }
    free(line);
    fclose(file);
    return least;
}

#else

int th_processors_quota(const char *root)
{
    (void)root;
    return INT_MAX;
}

#endif

/* The calls of POSIX that the library and the programs use (src/models/posix): the same on Windows, where they are ours, and on
 * other systems, where they are the system's. */
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "suite.h"

static char folder[TH_MAX_PATH], path[TH_MAX_PATH], other[TH_MAX_PATH];

static const char *in_folder(char result[TH_MAX_PATH], const char *name)
{
    ck_assert(th_path_join(result, folder, name));
    return result;
}

static void make_folder(void)
{
#ifdef _WIN32
    snprintf(folder, sizeof folder, "%s", th_posix_temporary_folder());
#else
    snprintf(folder, sizeof folder, "/tmp/");
#endif
    strcat(folder, "tapehead_größe_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    DIR *entries = opendir(folder);
    ck_assert_ptr_nonnull(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        unlinkat(dirfd(entries), entry->d_name, 0);
    closedir(entries);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void write_text(const char *name, const char *text)
{
    const int file = th_open_file(in_folder(path, name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, text, strlen(text)), (int64_t)strlen(text));
    ck_assert_int_eq(close(file), 0);
}

static void expect_text(const char *name, const char *text)
{
    char found[100] = "";
    const int file = open(in_folder(path, name), O_RDONLY);
    ck_assert_int_ge(file, 0);
    ck_assert_int_ge(read(file, found, sizeof found - 1), 0);
    ck_assert_int_eq(close(file), 0);
    ck_assert_str_eq(found, text);
}

/* -- files and folders -- */

START_TEST(test_status)
{
    struct stat status, again;
    write_text("ein Wörtchen", "five\n");
    ck_assert_int_eq(stat(in_folder(path, "ein Wörtchen"), &status), 0);
    ck_assert(S_ISREG(status.st_mode) && status.st_size == 5);
    ck_assert_int_eq(lstat(path, &again), 0);
    ck_assert(S_ISREG(again.st_mode));
    ck_assert_int_eq(stat(folder, &again), 0);
    ck_assert(S_ISDIR(again.st_mode));
    ck_assert(again.st_ino != status.st_ino);
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_int_eq(link(path, in_folder(other, "same")), 0);
    ck_assert_int_eq(stat(other, &again), 0);
    ck_assert(again.st_ino == status.st_ino && again.st_dev == status.st_dev);
    errno = 0;
    ck_assert(stat(in_folder(path, "absent"), &status) != 0 && errno == ENOENT);
    errno = 0;
    ck_assert(access(path, F_OK) != 0 && errno == ENOENT);
    errno = 0;
    ck_assert(mkdir(folder, 0777) != 0 && errno == EEXIST);
    errno = 0;
    ck_assert(unlink(path) != 0 && errno == ENOENT);
    errno = 0;
    ck_assert(open(path, O_RDONLY) < 0 && errno == ENOENT);
    char *const whole = realpath(folder, NULL);
    ck_assert_ptr_nonnull(whole);
    ck_assert_ptr_nonnull(strstr(whole, "größe"));
    free(whole);
    ck_assert_ptr_null(realpath(path, NULL));
}
END_TEST

START_TEST(test_rename)
{
    write_text("old", "new text");
    write_text("taken", "old text");
    const int reader = open(in_folder(other, "taken"), O_RDONLY); /* somebody reads the file that is replaced */
    ck_assert_int_eq(rename(in_folder(path, "old"), other), 0);
    expect_text("taken", "new text");
    char text[20] = "";
    ck_assert_int_eq(pread(reader, text, 3, 4), 3);
    ck_assert_str_eq(text, "tex");
    ck_assert_int_eq(close(reader), 0);
    ck_assert_int_ne(access(in_folder(path, "old"), F_OK), 0);
}
END_TEST

static int is_not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

START_TEST(test_folders)
{
    struct dirent **entry;
    struct stat status;
    write_text("zwei", "2");
    write_text("eins", "1");
    write_text("дрей", "3");
    write_text(".hidden", "");
    ck_assert_int_eq(scandir(folder, &entry, is_not_hidden, alphasort), 3);
    const char *const names[] = {"eins", "zwei", "дрей"};
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(entry[i]->d_name, names[i]);
        free(entry[i]);
    }
    free(entry);
    ck_assert_int_lt(scandir(in_folder(path, "absent"), &entry, is_not_hidden, alphasort), 0);
    ck_assert_ptr_null(opendir(path));
    errno = 0;
    ck_assert_ptr_null(opendir(in_folder(path, "eins")));
    ck_assert_int_eq(errno, ENOTDIR);

    const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(descriptor, 0);
    ck_assert_int_eq(fstatat(descriptor, "дрей", &status, 0), 0);
    ck_assert(S_ISREG(status.st_mode));
    const int file = openat(descriptor, "zwei", O_RDONLY);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(close(file), 0);
    ck_assert_int_eq(unlinkat(descriptor, "zwei", 0), 0);
    ck_assert_int_ne(access(in_folder(path, "zwei"), F_OK), 0);
    ck_assert_int_eq(mkdir(in_folder(path, "inner"), 0777), 0);
    ck_assert_int_eq(unlinkat(descriptor, "inner", AT_REMOVEDIR), 0);
    ck_assert_int_eq(close(descriptor), 0);
}
END_TEST

START_TEST(test_lock)
{
    const int first = open(folder, O_RDONLY | O_DIRECTORY), second = open(folder, O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(flock(first, LOCK_EX | LOCK_NB), 0);
    ck_assert(flock(second, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK);
    ck_assert_int_eq(close(first), 0);
    ck_assert_int_eq(close(second), 0);
}
END_TEST

/* -- memory and temporary files -- */

START_TEST(test_mapping)
{
    char name[TH_MAX_PATH];
    in_folder(name, "unnamed_XXXXXX");
    const int file = mkstemp(name);
    ck_assert_int_ge(file, 0);
#ifndef _WIN32
    ck_assert_int_eq(unlink(name), 0);
#endif
    ck_assert_int_eq(write(file, "mapped", 6), 6);
    char *const memory = mmap(NULL, 6, PROT_READ, MAP_PRIVATE, file, 0);
    ck_assert(memory != MAP_FAILED);
    ck_assert_int_eq(close(file), 0);
    ck_assert_mem_eq(memory, "mapped", 6);
    ck_assert_int_eq(munmap(memory, 6), 0);
    ck_assert_int_ne(access(name, F_OK), 0);
    ck_assert(mmap(NULL, 6, PROT_READ, MAP_PRIVATE, -1, 0) == MAP_FAILED);
}
END_TEST

START_TEST(test_memory_stream)
{
    char *text[2] = {NULL, NULL};
    size_t bytes[2];
    FILE *file[2] = {open_memstream(&text[0], &bytes[0]), open_memstream(&text[1], &bytes[1])};
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_nonnull(file[i]);
        fprintf(file[i], "number %d\n", i);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(fclose(file[i]), 0);
    ck_assert_str_eq(text[0], "number 0\n");
    ck_assert_str_eq(text[1], "number 1\n");
    ck_assert_uint_eq(bytes[0], 9);
    free(text[0]);
    free(text[1]);
    file[0] = open_memstream(&text[0], &bytes[0]); /* Windows uses the file of a closed stream again */
    ck_assert_ptr_nonnull(file[0]);
    fputs("short", file[0]);
    ck_assert_int_eq(fclose(file[0]), 0);
    ck_assert_str_eq(text[0], "short");
    ck_assert_uint_eq(bytes[0], 5);
    free(text[0]);
}
END_TEST

/* -- text -- */

START_TEST(test_text)
{
    char list[] = "a,,b";
    char *rest = list;
    ck_assert_str_eq(strsep(&rest, ","), "a");
    ck_assert_str_eq(strsep(&rest, ","), "");
    ck_assert_str_eq(strsep(&rest, ","), "b");
    ck_assert_ptr_null(strsep(&rest, ","));
    const char text[] = "xaab", zeros[] = "abab\0c";
    ck_assert_ptr_eq(memmem(zeros, 6, "b\0c", 3), zeros + 3);
    ck_assert_ptr_null(memmem(zeros, 5, "b\0c", 3));
    ck_assert_ptr_eq(memmem(text, 4, "ab", 2), text + 2);
    ck_assert_ptr_eq(memmem(text, 4, "", 0), text);
    ck_assert_ptr_null(memmem(text, 3, "ab", 2));
    ck_assert_ptr_null(memmem(text, 1, "xa", 2));
    char *const copy = strndup("abc", 2), *const whole = strndup("abc", 3);
    ck_assert_str_eq(copy, "ab");
    ck_assert_str_eq(whole, "abc");
    free(copy);
    free(whole);
}
END_TEST

START_TEST(test_patterns)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {{"*", "", true},
                 {"layers.[0-5].*", "layers.3.w", true},
                 {"layers.[0-5].*", "layers.7.w", false},
                 {"layers.[!0-5].*", "layers.7.w", true},
                 {"*.safetensors", "last.1.safetensors", true},
                 {"*.safetensors", "last.safetensors.damaged", false},
                 {"a?c", "abc", true},
                 {"a?c", "ac", false},
                 {"a\\*c", "a*c", true},
                 {"a\\*c", "abc", false},
                 {"[]a]", "]", true},
                 {"[a-]", "-", true},
                 {"[", "[", true},
                 {"**b*", "aabc", true},
                 {"abc", "abcd", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg((fnmatch(cases[i].pattern, cases[i].text, 0) == 0) == cases[i].matches, "%s and %s",
                      cases[i].pattern, cases[i].text);
    ck_assert_int_ne(fnmatch("*.txt", ".a.txt", FNM_PERIOD), 0);
    ck_assert_int_eq(fnmatch(".*.txt", ".a.txt", FNM_PERIOD), 0);
}
END_TEST

START_TEST(test_lines)
{
    char *line = NULL;
    size_t capacity = 0;
    write_text("lines", "one\r\n\nlast");
    const int descriptor = open(in_folder(path, "lines"), O_RDONLY);
    FILE *file = fdopen(descriptor, "rb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(getline(&line, &capacity, file), 5);
    ck_assert_str_eq(line, "one\r\n");
    ck_assert_int_eq(getline(&line, &capacity, file), 1);
    ck_assert_int_eq(getline(&line, &capacity, file), 4);
    ck_assert_str_eq(line, "last");
    ck_assert_int_eq(getline(&line, &capacity, file), -1);
    free(line);
    fclose(file);
}
END_TEST

START_TEST(test_dates)
{
    struct tm day = {
        .tm_mday = 5, .tm_mon = 6, .tm_year = 124, .tm_hour = 9, .tm_min = 3, .tm_wday = 5, .tm_yday = 186};
    char text[100];
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    ck_assert_uint_eq(strftime_l(text, sizeof text, "%d %b %Y, %B %-d, %e|%F %H:%M %A %%", &day, c), strlen(text));
    ck_assert_str_eq(text, "05 Jul 2024, July 5,  5|2024-07-05 09:03 Friday %");
    ck_assert_uint_eq(strftime_l(text, 5, "%F", &day, c), 0);
    ck_assert_uint_eq(strftime_l(text, 5, "abcde", &day, c), 0);
    ck_assert_uint_eq(strftime_l(text, 5, "abcd", &day, c), 4);
    freelocale(c);
}
END_TEST

/* -- the process -- */

static volatile sig_atomic_t received;

static void note_signal(int number)
{
    received = number;
}

START_TEST(test_signals)
{
    ck_assert(signal(SIGHUP, note_signal) == SIG_DFL);
    ck_assert_int_eq(raise(SIGHUP), 0);
    ck_assert_int_eq(received, SIGHUP);
    ck_assert(signal(SIGHUP, SIG_IGN) == note_signal);
    received = 0;
    ck_assert_int_eq(raise(SIGHUP), 0);
    ck_assert_int_eq(received, 0);
    ck_assert(signal(SIGHUP, SIG_DFL) == SIG_IGN);
}
END_TEST

START_TEST(test_system)
{
    struct timespec before, after;
    char name[100];
    unsigned char random[2][16];
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &before), 0);
    ck_assert_int_eq(nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL), 0);
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &after), 0);
    ck_assert_int_ge((int64_t)(after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec, 2000000);
    ck_assert_int_eq(clock_gettime(CLOCK_REALTIME, &after), 0);
    const int64_t difference = (int64_t)after.tv_sec - (int64_t)time(NULL);
    ck_assert(difference >= -2 && difference <= 2);
    ck_assert_int_eq(getentropy(random[0], 16), 0);
    ck_assert_int_eq(getentropy(random[1], 16), 0);
    ck_assert_mem_ne(random[0], random[1], 16);
    ck_assert_int_eq(gethostname(name, sizeof name), 0);
    ck_assert_int_ge(sysconf(_SC_PAGESIZE), 4096);
    ck_assert_int_ge((int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), 64 << 20);
    ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD) < 0, 0);
    ck_assert_int_lt(fcntl(99, F_GETFD), 0);
    const int null = open("/dev/null", O_RDONLY);
    ck_assert_int_ge(null, 0);
    ck_assert_int_eq(isatty(null), 0);
    ck_assert_int_eq(close(null), 0);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("posix_calls", make_folder, remove_folder);
    tcase_add_test(tests, test_status);
    tcase_add_test(tests, test_rename);
    tcase_add_test(tests, test_folders);
    tcase_add_test(tests, test_lock);
    tcase_add_test(tests, test_mapping);
    tcase_add_test(tests, test_memory_stream);
    tcase_add_test(tests, test_text);
    tcase_add_test(tests, test_patterns);
    tcase_add_test(tests, test_lines);
    tcase_add_test(tests, test_dates);
    tcase_add_test(tests, test_signals);
    tcase_add_test(tests, test_system);
    return run_suites();
}

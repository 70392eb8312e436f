/* Files that replace others. The library must not write to, read from or wait for anything else at their path or
 * under a similar name. (Kills at any time, full disks: test_checkpoint.c.) */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "platform/atomic_file.h"

#include "tapehead/models.h"

#include "context.h"
#include "folder.h"

static char path[96], temporary[120], second[120], victim[96];

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    make_folder();
    strcpy(path, in_folder("file"));
    strcpy(temporary, in_folder("file.unfinished0"));
    strcpy(second, in_folder("file.unfinished1"));
    strcpy(victim, in_folder("victim"));
    umask(022);
    alarm(600); /* ends the test if the library waits for a file (valgrind needs two minutes) */
}

static void teardown(void)
{
    close_context();
    remove_folder();
}

/* -- writing and reading -- */

static bool begin(th_atomic_file *f, const char *at)
{
    const bool begun = th_atomic_begin(f, at);
    ck_assert_msg(begun, "%s: %s", at, strerror(errno));
    f->unsynchronized = true;
    return begun;
}

static void end(th_atomic_file *f, const char *text)
{
    const bool written = fputs(text, f->file) >= 0;
    ck_assert_msg(th_atomic_end(f, written), "%s", strerror(errno));
}

static void write_whole(const char *at, const char *text)
{
    th_atomic_file f;
    begin(&f, at);
    end(&f, text);
}

static void put(const char *at, const char *text)
{
    write_bytes(at, text, strlen(text));
}

static void expect_text(const char *at, const char *text)
{
    size_t bytes;
    char *there = read_bytes(at, &bytes);
    ck_assert_str_eq(there, text);
    free(there);
}

static struct stat status_of(const char *at)
{
    struct stat status;
    ck_assert_msg(lstat(at, &status) == 0, "%s: %s", at, strerror(errno));
    return status;
}

static mode_t mode_of(const char *at)
{
    return status_of(at).st_mode & 07777;
}

static bool is_there(const char *at)
{
    struct stat status;
    return lstat(at, &status) == 0;
}

/* -- other files with the name of the temporary file -- */

static void make_pipe(void)
{
    ck_assert_int_eq(mkfifo(temporary, 0666), 0);
}

/* Opening the pipe then does not wait, and a reader gets the bytes that are written to it. */
static void make_pipe_that_is_read(void)
{
    make_pipe();
    ck_assert_int_ge(open(temporary, O_RDONLY | O_NONBLOCK), 0);
}

static void make_directory(void)
{
    ck_assert_int_eq(mkdir(temporary, 0777), 0);
}

static void make_second_name(void)
{
    ck_assert_int_eq(link(victim, temporary), 0);
}

static void make_link(void)
{
    ck_assert_int_eq(symlink(victim, temporary), 0);
}

static void make_dangling_link(void)
{
    ck_assert_int_eq(symlink(in_folder("none"), temporary), 0);
}

static void make_socket(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, temporary);
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(s, (const struct sockaddr *)&address, sizeof address), 0);
    close(s);
}

static void make_file_of_another_user(void)
{
    if (geteuid() != 0) {
        make_second_name(); /* another user's file cannot be made */
        return;
    }
    put(temporary, "");
    ck_assert_int_eq(chmod(temporary, 0666), 0);
    ck_assert_int_eq(chown(temporary, 12345, 12345), 0);
}

static void make_file_of_a_writer(void)
{
    put(temporary, "");
    const int writer = open(temporary, O_WRONLY);
    ck_assert_int_eq(flock(writer, LOCK_EX), 0); /* until the test ends */
}

static void (*const makers[])(void) = {
    make_pipe,   make_pipe_that_is_read,    make_directory,       make_second_name, make_link, make_dangling_link,
    make_socket, make_file_of_another_user, make_file_of_a_writer};

/* It does not change, and the temporary file gets the next number. */
START_TEST(other_files_with_the_temporary_name_do_not_change)
{
    put(victim, "precious");
    makers[_i]();
    const struct stat before = status_of(temporary);
    for (int exists = 0; exists < 2; exists++) {
        write_whole(path, exists ? "new" : "first");
        expect_text(path, exists ? "new" : "first");
        const struct stat status = status_of(path), after = status_of(temporary);
        ck_assert(S_ISREG(status.st_mode) && status.st_nlink == 1);
        ck_assert_int_eq(status.st_uid, geteuid());
        ck_assert_int_eq(status.st_mode & 07777, 0644);
        ck_assert(after.st_ino == before.st_ino && after.st_mode == before.st_mode && after.st_size == before.st_size);
        ck_assert(after.st_uid == before.st_uid && after.st_nlink == before.st_nlink);
        ck_assert(!is_there(second));
    }
    expect_text(victim, "precious");
    ck_assert(!is_there(in_folder("none")));
}
END_TEST

START_TEST(it_is_an_error_if_all_names_are_taken)
{
    char name[120];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "%s%d", in_folder("file.unfinished"), i);
        ck_assert_int_eq(mkfifo(name, 0600), 0);
    }
    th_atomic_file f;
    ck_assert(!th_atomic_begin(&f, path) && errno == EEXIST);
    ck_assert_int_eq(unlink(name), 0); /* one is enough */
    write_whole(path, "x");
    expect_text(path, "x");
    ck_assert(!th_atomic_begin(&f, in_folder("none/file")) && errno == ENOENT);
}
END_TEST

/* The library removes the file of a killed process. It does not write to it, because another process may read or write
 * it. */
START_TEST(a_leftover_is_removed)
{
    static const mode_t modes[] = {0666, 0600, 0444};
    for (int i = 0; i < 3; i++) {
        put(path, "old");
        ck_assert_int_eq(chmod(path, modes[i]), 0);
        const pid_t child = fork();
        if (child == 0) {
            th_atomic_file f;
            begin(&f, path);
            fputs("half", f.file);
            fflush(f.file);
            kill(getpid(), SIGKILL);
        }
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        expect_text(temporary, "half");
        const int spy = open(temporary, O_RDONLY);
        write_whole(path, "secret");
        char bytes[8] = "";
        ck_assert_int_eq(read(spy, bytes, sizeof bytes), 4);
        ck_assert_str_eq(bytes, "half");
        close(spy);
        expect_text(path, "secret");
        ck_assert_int_eq(mode_of(path), modes[i]);
        ck_assert_int_eq(count_files(), 1);
        ck_assert_int_eq(unlink(path), 0);
    }
    put(temporary, "left by a program that did not care for permissions");
    ck_assert_int_eq(chmod(temporary, 0666), 0);
    write_whole(path, "new");
    ck_assert_int_eq(mode_of(path), 0644);
    ck_assert_int_eq(count_files(), 1);
}
END_TEST

/* No byte of a leftover gets into the new file, however long the two are, and whether a file exists or not. */
START_TEST(a_leftover_of_any_length_leaves_no_byte)
{
    static char left[10000], text[10000];
    static const size_t lengths[] = {0, 1, 5, 4095, 4096, 4097, sizeof left - 1};
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    for (int i = 0; i < 2 * LENGTHS * LENGTHS; i++) {
        const size_t old = lengths[i / 2 % LENGTHS], new = lengths[i / 2 / LENGTHS];
        memset(left, 'x', old), left[old] = 0;
        memset(text, 'n', new), text[new] = 0;
        unlink(path);
        if (i % 2)
            put(path, left);
        put(temporary, left);
        put(second, left); /* (only the first free name is used) */
        write_whole(path, text);
        expect_text(path, text);
        ck_assert(!is_there(temporary));
        expect_text(second, left);
    }
}
END_TEST

/* -- permissions -- */

START_TEST(the_new_file_has_the_permissions_of_the_old_one)
{
    static const mode_t modes[] = {0600, 0640, 0644, 0666, 0755, 0444, 0000};
    th_atomic_file f;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        unlink(path);
        put(path, "old");
        ck_assert_int_eq(chmod(path, modes[i]), 0);
        begin(&f, path);
        ck_assert_int_eq(mode_of(temporary), 0600); /* while it is written */
        end(&f, "new");
        ck_assert_int_eq(mode_of(path), modes[i]);
    }
    unlink(path);
    umask(027);
    write_whole(path, "new");
    ck_assert_int_eq(mode_of(path), 0640);
    ck_assert_int_eq(chmod(path, 06755), 0); /* the new file does not get set-user-ID */
    write_whole(path, "new");
    ck_assert_int_eq(mode_of(path), 0755);
}
END_TEST

/* An administrator keeps the owner. The group is kept. If this user may not keep it, the new file's group gets only the
 * permissions of all users. */
START_TEST(the_group_is_kept_or_gets_only_the_permissions_of_others)
{
    if (geteuid() != 0)
        return;
    put(path, "old");
    ck_assert_int_eq(chown(path, 12345, 54321), 0);
    ck_assert_int_eq(chmod(path, 0664), 0);
    write_whole(path, "new");
    ck_assert_int_eq(status_of(path).st_uid, 12345); /* who could not read a private file otherwise */
    ck_assert_int_eq(status_of(path).st_gid, 54321);
    ck_assert_int_eq(mode_of(path), 0664);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    const pid_t child = fork();
    if (child == 0) { /* another user, outside that group */
        th_atomic_file f;
        _exit(setgid(2000) != 0 || setuid(2000) != 0 || !th_atomic_begin(&f, path) || !th_atomic_end(&f, true));
    }
    int status = 1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(status_of(path).st_gid, 2000);
    ck_assert_int_eq(mode_of(path), 0644);
}
END_TEST

/* -- links at the path -- */

/* A link to a name in its folder is followed, such as a link to the newest of several files. */
START_TEST(a_link_within_its_folder_is_followed)
{
    put(victim, "old");
    ck_assert_int_eq(chmod(victim, 0640), 0);
    ck_assert_int_eq(symlink("victim", in_folder("middle")), 0);
    ck_assert_int_eq(symlink("middle", path), 0);
    write_whole(path, "new");
    expect_text(victim, "new");
    ck_assert_int_eq(mode_of(victim), 0640);
    ck_assert(S_ISLNK(status_of(path).st_mode) && S_ISLNK(status_of(in_folder("middle")).st_mode));
    ck_assert_int_eq(unlink(victim), 0);
    write_whole(path, "again"); /* the file that the link names need not exist */
    expect_text(victim, "again");
    ck_assert_int_eq(count_files(), 3);
    ck_assert_int_eq(chdir(folder), 0); /* a path without a folder */
    write_whole("file", "here");
    expect_text(victim, "here");
}
END_TEST

/* Any other link is replaced, and the file that it leads to does not change. */
START_TEST(a_link_to_another_folder_is_replaced)
{
    char inner[96], file[120];
    strcpy(inner, in_folder("inner"));
    snprintf(file, sizeof file, "%s/file", inner);
    static const char *const leads_to[] = {"../victim", NULL, "../none", "/dev/null", "file", "../pipe", "a/../b"};
    ck_assert_int_eq(mkdir(inner, 0777), 0);
    ck_assert_int_eq(mkfifo(in_folder("pipe"), 0600), 0);
    put(victim, "precious");
    for (size_t i = 0; i < sizeof leads_to / sizeof *leads_to; i++) {
        ck_assert_int_eq(symlink(leads_to[i] ? leads_to[i] : victim, file), 0);
        write_whole(file, "new");
        ck_assert_uint_eq(status_of(file).st_mode, S_IFREG | 0644);
        expect_text(file, "new");
        expect_text(victim, "precious");
        ck_assert(!is_there(in_folder("none")));
        ck_assert_int_eq(unlink(file), 0);
        ck_assert_int_eq(rmdir(inner), 0); /* nothing was left in it */
        ck_assert_int_eq(mkdir(inner, 0777), 0);
    }
    if (geteuid() == 0) { /* another user's link, as in /tmp, is not followed */
        ck_assert_int_eq(symlink("victim", path), 0);
        ck_assert_int_eq(lchown(path, 12345, 12345), 0);
        write_whole(path, "new");
        expect_text(victim, "precious");
        expect_text(path, "new");
    }
}
END_TEST

/* All functions of the library that write a file do it this way. */
START_TEST(every_writer_stays_in_the_folder)
{
    char inner[96], file[120], tokenizer[150], config[150];
    strcpy(inner, in_folder("inner"));
    snprintf(file, sizeof file, "%s/file", inner);
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", inner);
    snprintf(config, sizeof config, "%s/config.json", inner);
    ck_assert_int_eq(mkdir(inner, 0777), 0);
    put(victim, "precious");
    const double y[] = {1, 2};
    const th_curve curve = {.count = 2, .y = y};
    th_tensor *t = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 2));
    th_module *m = th_dense_new(ctx, 2, 2, NULL);
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){
                 .vocabulary = 5, .width = 4, .heads = 1, .layers = 1, .length = 4, .positions = TH_POSITIONS_LEARNED});
    no_error();
    for (int i = 0; i < 10; i++) {
        char shown[150];
        snprintf(shown, sizeof shown, "%s", i == 8 ? tokenizer : i == 9 ? config : file);
        ck_assert_int_eq(symlink(victim, shown), 0);
        if (i == 0) {
            ck_assert_int_eq(th_npy_write(t, file), TH_OK);
        } else if (i == 1) {
            ck_assert_int_eq(th_picture_curves(ctx, file, &curve, 1, NULL), TH_OK);
        } else if (i == 2) {
            ck_assert_int_eq(th_picture_heatmaps(t, file, NULL), TH_OK);
        } else if (i == 3) {
            ck_assert_int_eq(th_picture_panels(ctx, file, &(th_panel){.curves = &curve, .count = 1}, 1, NULL), TH_OK);
        } else if (i == 4) {
            ck_assert_int_eq(th_weights_save(m, file), TH_OK);
        } else if (i == 5) {
            ck_assert_int_eq(th_checkpoint_save(file, &(th_checkpoint){.model = m}), TH_OK);
        } else if (i == 6) {
            th_token_writer *w = th_token_writer_open(ctx, file, 10);
            ck_assert_int_eq(th_token_writer_append(w, (int32_t[]){1, 2}, 2), TH_OK);
            ck_assert_int_eq(th_token_writer_close(w), TH_OK);
        } else if (i == 7) {
            ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
            ck_assert_int_eq(th_profile_end(ctx), TH_OK);
            ck_assert_int_eq(th_profile_write_trace(ctx, file), TH_OK);
        } else if (i == 8) {
            th_tokenizer *bytes = th_tokenizer_bytes_new(ctx);
            ck_assert_int_eq(th_tokenizer_save(bytes, inner), TH_OK);
            th_tokenizer_free(bytes);
        } else {
            ck_assert_int_eq(th_language_model_export(model, inner, NULL), TH_OK);
        }
        no_error();
        expect_text(victim, "precious");
        ck_assert_msg(S_ISREG(status_of(shown).st_mode), "writer %d", i);
        ck_assert_int_eq(unlink(shown), 0);
    }
    ck_assert_int_eq(count_files(), 2);
}
END_TEST

/* -- devices and pipes: written to, not replaced -- */

START_TEST(open_files_and_devices_are_written_to)
{
    char number[64];
    put(victim, "longer than what follows");
    const ino_t inode = status_of(victim).st_ino;
    static const char *const names[] = {"/proc/self/fd/%d", "/dev/fd/%d"};
    for (int i = 0; i < 2; i++) {
        const int descriptor = open(victim, O_WRONLY);
        snprintf(number, sizeof number, names[i], descriptor);
        write_whole(number, "short");
        close(descriptor);
        expect_text(victim, "short");
        ck_assert(status_of(victim).st_ino == inode);
    }
    write_whole("/dev/null", "x");
    ck_assert(S_ISCHR(status_of("/dev/null").st_mode));
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    write_whole(path, "through");
    char bytes[16] = "";
    ck_assert_int_eq(read(reader, bytes, sizeof bytes), 7);
    ck_assert_str_eq(bytes, "through");
    ck_assert(S_ISFIFO(status_of(path).st_mode));
    close(reader);
    th_atomic_file f;
    ck_assert(!th_atomic_begin(&f, path) && errno == ENXIO); /* without a reader it does not wait for one */
    ck_assert(!th_atomic_begin(&f, folder) && errno == EISDIR);
}
END_TEST

/* -- many writers at a time -- */

/* Writes whole files until it is killed. */
static pid_t start_writer(int letter)
{
    const pid_t child = fork();
    if (child != 0)
        return child;
    char text[20000];
    memset(text, letter, sizeof text);
    for (;;) {
        th_atomic_file f;
        if (!th_atomic_begin(&f, path))
            _exit(errno);
        f.unsynchronized = true;
        const bool written = fwrite(text, 1, sizeof text, f.file) == sizeof text;
        if (!th_atomic_end(&f, written))
            _exit(errno);
    }
}

/* A writer that is killed at any time leaves at most one file, and later writers remove it. */
START_TEST(concurrent_writers_do_not_conflict)
{
    enum { WRITERS = 3, ROUNDS = 6, LOOKS = 50 };
    static const struct timespec millisecond = {.tv_nsec = 1000000};
    write_whole(path, "");
    for (int round = 0; round < ROUNDS; round++) {
        pid_t writer[WRITERS];
        int status;
        for (int i = 0; i < WRITERS; i++)
            writer[i] = start_writer('a' + i);
        for (int look = 0; look < LOOKS; look++) {
            nanosleep(&millisecond, NULL);
            size_t bytes;
            char *text = read_bytes(path, &bytes);
            for (size_t i = 1; i < bytes; i++)
                ck_assert(text[i] == text[0]);
            ck_assert(bytes == 0 || bytes == 20000);
            free(text);
        }
        for (int i = 0; i < WRITERS; i++) {
            kill(writer[i], SIGKILL);
            ck_assert_int_eq(waitpid(writer[i], &status, 0), writer[i]);
            ck_assert_msg(WIFSIGNALED(status), "a writer failed: %s", strerror(WEXITSTATUS(status)));
        }
        ck_assert_int_le(count_files(), 1 + 4 * WRITERS);
    }
    write_whole(path, "last");
    ck_assert(!is_there(temporary));
    expect_text(path, "last");
}
END_TEST

/* Up to eight links in a row are followed to the file. Of a longer chain, the ninth link is replaced. */
START_TEST(chains_of_links_have_a_limit)
{
    char name[2][120];
    for (int links = 1; links <= 10; links++) {
        strcpy(name[0], path);
        for (int i = 0; i < links; i++) {
            snprintf(name[(i + 1) % 2], sizeof name[0], "%s%d", in_folder("link"), i);
            ck_assert_int_eq(symlink(strrchr(name[(i + 1) % 2], '/') + 1, name[i % 2]), 0);
        }
        put(path, "old"); /* through all links */
        write_whole(path, "new");
        for (int i = 0; i < links; i++) {
            snprintf(name[0], sizeof name[0], "%s%d", in_folder("link"), i - 1);
            ck_assert_int_eq(S_ISLNK(status_of(i == 0 ? path : name[0]).st_mode), i != 8);
        }
        snprintf(name[0], sizeof name[0], "%s%d", in_folder("link"), links - 1);
        expect_text(name[0], links <= 8 ? "new" : "old");
        expect_text(path, "new");
        for (int i = 0; i < links; i++) {
            snprintf(name[0], sizeof name[0], "%s%d", in_folder("link"), i);
            ck_assert_int_eq(unlink(name[0]), 0);
        }
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(count_files(), 0);
    }
}
END_TEST

/* If writing failed, the old file stays, and the temporary file is removed. */
START_TEST(a_failed_file_is_removed)
{
    for (int exists = 0; exists < 2; exists++)
        for (int error_number = 0; error_number < 2; error_number++) {
            th_atomic_file f;
            if (exists)
                put(path, "old");
            begin(&f, path);
            fputs("half", f.file);
            ck_assert(is_there(temporary));
            errno = error_number ? ENOSPC : 0;
            ck_assert(!th_atomic_end(&f, false));
            ck_assert_int_eq(errno, error_number ? ENOSPC : EIO);
            ck_assert_int_eq(count_files(), exists);
            if (exists)
                expect_text(path, "old");
        }
}
END_TEST

static void finish(th_atomic_file *f, const char *text)
{
    begin(f, path);
    ck_assert(fputs(text, f->file) >= 0);
    ck_assert_msg(th_atomic_finish(f, true), "%s", strerror(errno));
}

/* Until a complete file is published, the old one stays, and the temporary file is locked. */
START_TEST(a_complete_file_waits_for_its_name)
{
    th_atomic_file f;
    put(path, "old");
    finish(&f, "new");
    expect_text(path, "old");
    expect_text(temporary, "new");
    ck_assert(!th_remove_leftover(temporary));
    ck_assert_msg(th_atomic_publish(&f), "%s", strerror(errno));
    expect_text(path, "new");
    ck_assert_int_eq(count_files(), 1);
    finish(&f, "newer");
    th_atomic_discard(&f);
    expect_text(path, "new");
    ck_assert_int_eq(count_files(), 1);
    finish(&f, "newest");
    ck_assert(th_remove_file(path));
    ck_assert_int_eq(mkdir(path, 0777), 0); /* now no file can get this name */
    ck_assert(!th_atomic_publish(&f));
    ck_assert_int_eq(errno, EISDIR);
    ck_assert(!is_there(temporary));
}
END_TEST

START_TEST(files_are_removed)
{
    char long_path[TH_MAX_PATH + 1];
    put(path, "old");
    ck_assert(th_remove_file(path));
    ck_assert(!is_there(path));
    ck_assert(th_remove_file(path)); /* nothing is there */
    put(victim, "victim");
    ck_assert_int_eq(symlink(victim, path), 0);
    ck_assert(th_remove_file(path));
    ck_assert_int_eq(count_files(), 1);
    expect_text(victim, "victim");
    ck_assert_int_eq(mkdir(path, 0777), 0);
    ck_assert(!th_remove_file(path));
    memset(long_path, 'a', TH_MAX_PATH);
    long_path[TH_MAX_PATH] = 0;
    ck_assert(!th_remove_file(long_path));
    ck_assert_int_eq(errno, ENAMETOOLONG);
    put(temporary, "half");
    ck_assert(th_remove_leftover(temporary));
    ck_assert(!is_there(temporary));
    ck_assert(!th_remove_leftover(temporary));
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("atomic_file", setup, teardown);
    tcase_add_loop_test(tests, other_files_with_the_temporary_name_do_not_change, 0,
                        (int)(sizeof makers / sizeof *makers));
    tcase_add_test(tests, it_is_an_error_if_all_names_are_taken);
    tcase_add_test(tests, a_leftover_is_removed);
    tcase_add_test(tests, a_leftover_of_any_length_leaves_no_byte);
    tcase_add_test(tests, the_new_file_has_the_permissions_of_the_old_one);
    tcase_add_test(tests, the_group_is_kept_or_gets_only_the_permissions_of_others);
    tcase_add_test(tests, a_link_within_its_folder_is_followed);
    tcase_add_test(tests, a_link_to_another_folder_is_replaced);
    tcase_add_test(tests, every_writer_stays_in_the_folder);
    tcase_add_test(tests, open_files_and_devices_are_written_to);
    tcase_add_test(tests, concurrent_writers_do_not_conflict);
    tcase_add_test(tests, chains_of_links_have_a_limit);
    tcase_add_test(tests, a_failed_file_is_removed);
    tcase_add_test(tests, a_complete_file_waits_for_its_name);
    tcase_add_test(tests, files_are_removed);
    return run_suites();
}

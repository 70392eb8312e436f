/* The operating system as the core uses it (src/platform). No function here belongs to POSIX, so that the tests run on
 * Windows too. */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "platform/atomic_file.h"
#include "platform/locale.h"
#include "platform/memory_stream.h"
#include "platform/regular_file.h"
#include "platform/system.h"
#include "platform/threads.h"
#include "suite.h"

/* -- threads -- */

enum { TURNS = 2000, STACK = 1 << 18 };

/* Two threads take turns: the word is even for one and odd for the other. */
static _Atomic uint32_t turn;

static void take_turns(uint32_t mine)
{
    for (int i = 0; i < TURNS; i++) {
        for (uint32_t now; (now = atomic_load(&turn)) % 2 != mine;)
            th_wait_while(&turn, now, TH_NO_LIMIT);
        atomic_fetch_add(&turn, 1);
        th_wake_one(&turn);
    }
}

static void *take_odd_turns(void *argument)
{
    take_turns(1);
    *(bool *)argument = true;
    return NULL;
}

START_TEST(test_threads_take_turns)
{
    th_thread thread;
    bool ended = false;
    ck_assert(th_thread_create(&thread, STACK, take_odd_turns, &ended));
    take_turns(0);
    th_thread_join(thread);
    ck_assert(ended);
    ck_assert_uint_eq(atomic_load(&turn), 2 * TURNS);
}
END_TEST

START_TEST(test_a_wait_ends)
{
    static _Atomic uint32_t word = 5;
    th_wait_while(&word, 4, TH_NO_LIMIT); /* another value: returns at once */
    const int64_t begin = th_nanoseconds_now();
    for (int64_t waited = 0; waited < 20000000; waited = th_nanoseconds_now() - begin)
        th_wait_while(&word, 5, 5000000);
    ck_assert_int_lt(th_nanoseconds_now() - begin, (int64_t)60 * 1000000000);
}
END_TEST

static th_thread_key key;
static int ended_with; /* the value that the end of a thread got */

static void note_end(void *value)
{
    ended_with = *(int *)value;
}

static void *set_value(void *argument)
{
    return th_thread_key_set(key, argument) ? argument : NULL;
}

START_TEST(test_the_end_of_a_thread)
{
    th_thread thread;
    int value = 17;
    ck_assert(th_thread_key_create(&key, note_end));
    ck_assert(th_thread_create(&thread, STACK, set_value, &value));
    th_thread_join(thread);
    ck_assert_int_eq(ended_with, 17);
    th_thread_key_delete(key);
}
END_TEST

START_TEST(test_processors)
{
    ck_assert_int_ge(th_thread_processors(false), 1);
    ck_assert_int_ge(th_thread_processors(true), 1);
    ck_assert(th_thread_preemptions() >= 0);
}
END_TEST

/* -- files: the names are UTF-8 -- */

#define NAME "test_platform_\xc3\xa4\xe2\x82\xac.txt"
static const char name[] = NAME, leftover[] = NAME ".unfinished0";

static void write_text(const char *text)
{
    th_atomic_file f;
    ck_assert_msg(th_atomic_begin(&f, name), "%s", strerror(errno));
    const bool written = fputs(text, f.file) >= 0;
    ck_assert_msg(th_atomic_end(&f, written), "%s", strerror(errno));
}

/* Reads the file, and compares it with the text. */
static void read_text(FILE *file, const char *text)
{
    char read[64] = "";
    fread(read, 1, sizeof read - 1, file);
    ck_assert_str_eq(read, text);
}

/* A reader keeps the old file, and the next one gets the new file. Line ends stay as they are. */
START_TEST(test_a_file_is_replaced_while_it_is_read)
{
    const char *problem = "";
    int64_t bytes = 0;
    write_text("one\r\ntwo\n");
    FILE *old = th_regular_open(name, &bytes, &problem);
    ck_assert_msg(old != NULL, "%s", problem);
    ck_assert_int_eq(bytes, 9);
    write_text("new");
    read_text(old, "one\r\ntwo\n");
    FILE *replaced = th_regular_open(name, NULL, &problem);
    ck_assert_msg(replaced != NULL, "%s", problem);
    read_text(replaced, "new");
    fclose(replaced);
    fclose(old);
    ck_assert(th_remove_file(name));
    ck_assert(th_remove_file(name)); /* absent: as wanted */
    ck_assert(th_regular_open(name, NULL, &problem) == NULL);
    ck_assert_str_eq(problem, strerror(ENOENT));
}
END_TEST

/* Another writer takes another name, and a file that nobody writes is removed. */
START_TEST(test_leftovers)
{
    th_atomic_file f;
    ck_assert(th_atomic_begin(&f, name));
    ck_assert_str_eq(f.temporary, leftover);
    ck_assert(!th_remove_leftover(leftover));
    write_text("of another writer");
    ck_assert(th_atomic_end(&f, true));
    ck_assert(!th_remove_leftover(leftover)); /* it does not exist */
    ck_assert(th_remove_leftover(name));      /* any file that no process has open */
    ck_assert(th_atomic_begin(&f, name));
    errno = 0;
    ck_assert(!th_atomic_end(&f, false));
    ck_assert_int_eq(errno, EIO);
    ck_assert(!th_remove_leftover(leftover));
}
END_TEST

START_TEST(test_a_stream_in_memory)
{
    th_memory_stream s;
    ck_assert(th_memory_open(&s));
    for (int i = 0; i < 1000; i++)
        fprintf(s.file, "%03d\n", i);
    ck_assert(th_memory_close(&s));
    ck_assert_uint_eq(s.bytes, 4000);
    ck_assert_uint_eq(strlen(s.text), 4000);
    ck_assert_str_eq(s.text + 3996, "999\n");
    free(s.text);
}
END_TEST

/* -- the rest -- */

START_TEST(test_memory_is_aligned)
{
    void *memory = th_aligned_allocate(64, 128);
    ck_assert_ptr_nonnull(memory);
    ck_assert_uint_eq((uintptr_t)memory % 64, 0);
    memset(memory, 1, 128);
    th_aligned_free(memory);
}
END_TEST

START_TEST(test_libraries)
{
    ck_assert_ptr_null(th_library_open("no library has this name"));
}
END_TEST

START_TEST(test_a_file_is_no_terminal)
{
    th_atomic_file f;
    ck_assert(th_atomic_begin(&f, name));
    ck_assert(!th_is_terminal(f.file));
    ck_assert_int_eq(th_terminal_columns(f.file), 0);
    ck_assert(!th_atomic_end(&f, false));
}
END_TEST

START_TEST(test_numbers_have_a_point)
{
    static const char *const locales[] = {"de_DE.UTF-8", "de-DE", "de_DE"};
    for (size_t i = 0; i < sizeof locales / sizeof *locales; i++)
        setlocale(LC_ALL, locales[i]);
    char before[16], inside[16], after[16];
    snprintf(before, sizeof before, "%.1f", 0.5);
    const th_locale previous = th_locale_begin_c();
    snprintf(inside, sizeof inside, "%.1f", 0.5);
    th_locale_end_c(&previous);
    snprintf(after, sizeof after, "%.1f", 0.5);
    ck_assert_str_eq(inside, "0.5");
    ck_assert_str_eq(after, before);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("platform", NULL, NULL);
    tcase_add_test(tests, test_threads_take_turns);
    tcase_add_test(tests, test_a_wait_ends);
    tcase_add_test(tests, test_the_end_of_a_thread);
    tcase_add_test(tests, test_processors);
    tcase_add_test(tests, test_a_file_is_replaced_while_it_is_read);
    tcase_add_test(tests, test_leftovers);
    tcase_add_test(tests, test_a_stream_in_memory);
    tcase_add_test(tests, test_memory_is_aligned);
    tcase_add_test(tests, test_libraries);
    tcase_add_test(tests, test_a_file_is_no_terminal);
    tcase_add_test(tests, test_numbers_have_a_point);
    return run_suites();
}

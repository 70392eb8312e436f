/* Creates and runs suites of Check. main calls new_suite, adds tests with tcase_add_test, and returns run_suites(). */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

/* Check writes the line of each assertion to a file, for the message after a crash. A loop over thousands of elements would write
 * the same line thousands of times. */
static inline void mark_line(const char *file, int line)
{
    static _Thread_local const char *last_file;
    static _Thread_local int last_line;
    if (file == last_file && line == last_line)
        return;
    last_file = file;
    last_line = line;
    _mark_point(file, line);
}
#define _mark_point(file, line) mark_line(file, line)

static SRunner *runner;

/* Creates a suite. Each of its tests runs between setup and teardown (NULL: none), in a separate process. */
static inline TCase *new_suite(const char *name, SFun setup, SFun teardown)
{
    Suite *suite = suite_create(name);
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, setup, teardown);
    suite_add_tcase(suite, tests);
    if (runner == NULL)
        runner = srunner_create(suite);
    else
        srunner_add_suite(runner, suite);
    return tests;
}

/* Runs all suites, prints the results and returns the exit status for main. */
static inline int run_suites(void)
{
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif

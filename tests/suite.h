/* The frame of a suite: main opens it, adds its tests in Check's words, and runs it. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

static SRunner *runner;

/* A suite of this program, whose tests run between setup and teardown, each in a process of its own. Either may
 * be NULL. */
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

/* Runs the tests of all suites and says how they went: what main returns. */
static inline int run_suites(void)
{
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif

/* Chooses the test functions that a test program runs. The linker calls this instead of Check's function. MUTANTS_ONLY
 * is a list such as "first third[2] third[5]"; a number is an iteration of a loop test. MUTANTS_LIST prints all names
 * instead. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __real__tcase_add_test(TCase *tests, const TTest *test, int signal, int status, int start, int end);
void __wrap__tcase_add_test(TCase *tests, const TTest *test, int signal, int status, int start, int end);

void __wrap__tcase_add_test(TCase *tests, const TTest *test, int signal, int status, int start, int end)
{
    const char *only = getenv("MUTANTS_ONLY");
    if (getenv("MUTANTS_LIST")) {
        printf("function %s %d %d\n", test->name, start, end);
        return;
    }
    if (only == NULL) {
        __real__tcase_add_test(tests, test, signal, status, start, end);
        return;
    }
    const size_t length = strlen(test->name);
    for (const char *at = only; (at = strstr(at, test->name)); at += length) {
        if (at != only && at[-1] != ' ')
            continue;
        if (at[length] == '[') {
            const int i = atoi(at + length + 1);
            __real__tcase_add_test(tests, test, signal, status, i, i + 1);
        } else if (at[length] == ' ' || at[length] == 0) {
            __real__tcase_add_test(tests, test, signal, status, start, end);
        }
    }
}

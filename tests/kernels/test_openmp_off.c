/* The environment variables that a build without OpenMP reads. The test contains that file of the library, so that it
 * runs in builds with OpenMP too. */
#undef TAPEHEAD_OPENMP
#include "kernels/machine/openmp_off.c" /* replaces the library's */

#include "kernels/machine/processors.h"
#include "kernels/machine/team.h"
#include "suite.h"

static const struct {
    const char *text; /* NULL: the variable is not set */
    int threads, limit;
} settings[] = {
    {NULL, INT_MAX, INT_MAX},
    {"", INT_MAX, INT_MAX},
    {"1", 1, 1},
    {" 12\t", 12, 12},
    {"4,2", 4, INT_MAX}, /* only OMP_NUM_THREADS may be a list */
    {"4 , 2 ,1 ", 4, INT_MAX},
    {"4,", INT_MAX, INT_MAX},
    {"4,0", INT_MAX, INT_MAX},
    {",4", INT_MAX, INT_MAX},
    {"4 2", INT_MAX, INT_MAX},
    {"4x", INT_MAX, INT_MAX},
    {"x", INT_MAX, INT_MAX},
    {"0", INT_MAX, INT_MAX},
    {"-3", INT_MAX, INT_MAX},
    {"2147483646", 2147483646, 2147483646},
    {"3000000000", INT_MAX, INT_MAX},
    {"99999999999999999999", INT_MAX, INT_MAX},
};

static void set(const char *name, const char *text)
{
    ck_assert_int_eq(text ? setenv(name, text, 1) : unsetenv(name), 0);
}

START_TEST(test_variables)
{
    const char *text = settings[_i].text;
    set("OMP_NUM_THREADS", text);
    set("OMP_THREAD_LIMIT", text);
    errno = EDOM;
    read_environment();
    ck_assert_int_eq(errno, EDOM);
    ck_assert_msg(th_openmp_threads() == settings[_i].threads, "OMP_NUM_THREADS=\"%s\" is read as %d", text,
                  th_openmp_threads());
    ck_assert_msg(th_openmp_thread_limit() == settings[_i].limit, "OMP_THREAD_LIMIT=\"%s\" is read as %d", text,
                  th_openmp_thread_limit());
}
END_TEST

START_TEST(test_each_variable_limits_the_default_team)
{
    const int here = th_processors();
    set("OMP_NUM_THREADS", "1000");
    read_environment();
    ck_assert_int_eq(th_processors_default_team(), here);
    set("OMP_THREAD_LIMIT", "1");
    read_environment();
    ck_assert_int_eq(th_processors_default_team(), 1);
    set("OMP_THREAD_LIMIT", "1000");
    set("OMP_NUM_THREADS", "1");
    read_environment();
    ck_assert_int_eq(th_processors_default_team(), 1);
}
END_TEST

/* OMP_NUM_THREADS is only the default. */
START_TEST(test_the_limit_applies_to_requested_teams)
{
    set("OMP_NUM_THREADS", "1");
    set("OMP_THREAD_LIMIT", "3");
    read_environment();
    ck_assert_int_eq(th_team_threads(2), 2);
    ck_assert_int_eq(th_team_threads(5), 3);
}
END_TEST

int main(void)
{
    TCase *variables = new_suite("without OpenMP: variables", NULL, NULL);
    tcase_add_loop_test(variables, test_variables, 0, (int)(sizeof settings / sizeof *settings));
    tcase_add_test(variables, test_each_variable_limits_the_default_team);
    tcase_add_test(variables, test_the_limit_applies_to_requested_teams);
    return run_suites();
}

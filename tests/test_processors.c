/* The CPU quota of control groups, read from directory trees made here, and how the quota, the affinity mask and
 * OpenMP's limits combine. */
#include <limits.h>
#include <omp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/machine/processors.h"
#include "suite.h"

/* -- a tree of files in a temporary directory -- */

static char root[] = "/tmp/tapehead-groups-XXXXXX";

static void make_root(void)
{
    strcpy(root + sizeof root - 1 - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void remove_root(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    ck_assert_int_eq(system(command), 0);
}

/* Writes a file below the root with this text, and makes its directories. */
static void put(const char *path, const char *text)
{
    char whole[PATH_MAX];
    const int length = snprintf(whole, sizeof whole, "%s%s", root, path);
    ck_assert_int_lt(length, (int)sizeof whole);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        mkdir(whole, 0755);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

#define MOUNTS "/proc/self/mountinfo"
#define GROUPS "/proc/self/cgroup"
#define OTHER_MOUNTS                                                                                                   \
    "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"                                                                  \
    "31 22 0:28 / /sys/fs/cgroup rw,relatime shared:4 - tmpfs tmpfs rw,mode=755\n"
#define VERSION_2 "42 31 0:31 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define VERSION_1 "43 31 0:32 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"

START_TEST(test_nothing_to_read)
{
    ck_assert_int_eq(th_processors_quota(root), INT_MAX);
    put(MOUNTS, OTHER_MOUNTS VERSION_2 VERSION_1);
    ck_assert_int_eq(th_processors_quota(root), INT_MAX);
    put(GROUPS, "nonsense\n\n0::\n:::\n");
    ck_assert_int_eq(th_processors_quota(root), INT_MAX);
    put(MOUNTS, "nonsense - \n - cgroup2\n1 2 3 - cgroup2 x y\n");
    ck_assert_int_eq(th_processors_quota(root), INT_MAX);
}
END_TEST

START_TEST(test_version_2)
{
    put(MOUNTS, OTHER_MOUNTS VERSION_2);
    put(GROUPS, "0::/user.slice/job\n");
    ck_assert_int_eq(th_processors_quota(root), INT_MAX);
    put("/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
    ck_assert_int_eq(th_processors_quota(root), INT_MAX);
    put("/sys/fs/cgroup/user.slice/job/cpu.max", "300000 100000\n");
    ck_assert_int_eq(th_processors_quota(root), 3);
    put("/sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"); /* the level above; rounded up */
    ck_assert_int_eq(th_processors_quota(root), 2);
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n"); /* a container finds it at the top */
    ck_assert_int_eq(th_processors_quota(root), 1);
    put("/sys/fs/cgroup/cpu.max", "nonsense\n");
    ck_assert_int_eq(th_processors_quota(root), 2);
    put("/sys/fs/cgroup/cpu.max", "100000 0\n");
    ck_assert_int_eq(th_processors_quota(root), 2);
}
END_TEST

START_TEST(test_version_1)
{
    put(MOUNTS, OTHER_MOUNTS VERSION_1);
    put(GROUPS, "5:cpuset:/elsewhere\n4:cpu,cpuacct:/a/b\n0::/\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
    ck_assert_int_eq(th_processors_quota(root), INT_MAX);
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
    ck_assert_int_eq(th_processors_quota(root), INT_MAX); /* no period */
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    ck_assert_int_eq(th_processors_quota(root), 3);
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "100000\n");
    ck_assert_int_eq(th_processors_quota(root), 1);
}
END_TEST

/* The other order of controllers, and both versions at once. */
START_TEST(test_both_versions)
{
    put(MOUNTS, "43 31 0:32 / /groups/cpu rw - cgroup cgroup rw,cpuacct,cpu\n"
                "42 31 0:31 / /groups/unified rw - cgroup2 cgroup2 rw\n");
    put(GROUPS, "4:cpuacct,cpu:/one\n0::/two\n");
    put("/groups/unified/two/cpu.max", "400000 100000\n");
    ck_assert_int_eq(th_processors_quota(root), 4);
    put("/groups/cpu/one/cpu.cfs_quota_us", "200000\n");
    put("/groups/cpu/one/cpu.cfs_period_us", "100000\n");
    ck_assert_int_eq(th_processors_quota(root), 2);
}
END_TEST

/* A container finds its own group at the top, under the path that the group has outside. */
START_TEST(test_a_part_of_the_hierarchy)
{
    put(MOUNTS, "42 31 0:31 /docker/0123 /sys/fs/cgroup ro - cgroup2 cgroup ro\n");
    put(GROUPS, "0::/docker/0123/inner\n");
    put("/sys/fs/cgroup/inner/cpu.max", "200000 100000\n");
    ck_assert_int_eq(th_processors_quota(root), 2);
    put(GROUPS, "0::/docker/0123\n");
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    ck_assert_int_eq(th_processors_quota(root), 1);
    put(GROUPS, "0::/docker/01234\n"); /* another group's name may begin with this one */
    ck_assert_int_eq(th_processors_quota(root), 1);
    put(GROUPS, "0::/../outside\n");
    ck_assert_int_eq(th_processors_quota(root), 1);
}
END_TEST

START_TEST(test_large_numbers)
{
    put(MOUNTS, VERSION_2);
    put(GROUPS, "0::/\n");
    put("/sys/fs/cgroup/cpu.max", "9223372036854775807 1\n");
    ck_assert_int_eq(th_processors_quota(root), INT_MAX);
    put("/sys/fs/cgroup/cpu.max", "9223372036854775807 100000\n");
    ck_assert_int_eq(th_processors_quota(root), INT_MAX);
    char groups[PATH_MAX * 2] = "0::"; /* a path that is too long is ignored */
    memset(groups + 3, '/', sizeof groups - 4);
    put(GROUPS, groups);
    ck_assert_int_eq(th_processors_quota(root), INT_MAX);
}
END_TEST

START_TEST(test_the_smallest_limit_counts)
{
    const int here = th_processors();
    ck_assert_int_ge(here, 1);
    ck_assert_int_le(th_processors_default_team(), here);
    omp_set_num_threads(1);
    ck_assert_int_eq(th_processors_default_team(), 1);
    omp_set_num_threads(1000);
    ck_assert_int_eq(th_processors_default_team(), here);
    cpu_set_t one;
    ck_assert_int_eq(sched_getaffinity(0, sizeof one, &one), 0);
    for (size_t i = 0, kept = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &one) && kept++ > 0)
            CPU_CLR(i, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_int_eq(th_processors(), 1);
    ck_assert_int_eq(th_processors_default_team(), 1);
}
END_TEST

int main(void)
{
    TCase *quota = new_suite("processors: quota", make_root, remove_root);
    tcase_add_test(quota, test_nothing_to_read);
    tcase_add_test(quota, test_version_2);
    tcase_add_test(quota, test_version_1);
    tcase_add_test(quota, test_both_versions);
    tcase_add_test(quota, test_a_part_of_the_hierarchy);
    tcase_add_test(quota, test_large_numbers);
    TCase *team = new_suite("processors: default team", NULL, NULL);
    tcase_add_test(team, test_the_smallest_limit_counts);
    return run_suites();
}

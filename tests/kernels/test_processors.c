/* The CPU quota of control groups, read from directory trees made here, and how the quota, the affinity mask and
 * OpenMP's limits combine. Also masks and places that this machine does not have. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/machine/openmp.h"
#include "kernels/machine/processors.h"
#include "suite.h"

#ifdef TAPEHEAD_OPENMP
#include <omp.h>
#endif

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
    put(MOUNTS, "nonsense - \n - cgroup2\n1 2 3 - cgroup2 x y\n1 2 3 4 5 6 7 8 9\n");
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
#ifdef TAPEHEAD_OPENMP
    omp_set_num_threads(1);
    ck_assert_int_eq(th_processors_default_team(), 1);
    omp_set_num_threads(1000);
    ck_assert_int_eq(th_processors_default_team(), here);
#endif
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

/* -- another machine: while `simulated` is true, these functions replace functions of the system -- */

static bool simulated;
static size_t kernel_bytes; /* of the kernel's masks: smaller masks are an error */

/* Stores the address of the function that a function of this file replaces. */
static void find_replaced(const char *name, void *target)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(target, &symbol, sizeof symbol);
}

/* The calling thread has processor 1500, another one has processors 0, 5 and 900. */
int sched_getaffinity(pid_t thread, size_t size, cpu_set_t *set)
{
    int (*replaced)(pid_t, size_t, cpu_set_t *);
    find_replaced("sched_getaffinity", &replaced);
    if (!simulated)
        return replaced(thread, size, set);
    if (size < kernel_bytes) {
        errno = EINVAL;
        return -1;
    }
    CPU_ZERO_S(size, set);
    CPU_SET_S(thread ? 900u : 1500u, size, set);
    for (size_t i = 0; i < 6 && thread; i += 5)
        CPU_SET_S(i, size, set);
    return 0;
}

static bool memory_is_exhausted; /* glibc only: other C libraries allocate sets by other functions */
static int sets;                 /* that CPU_ALLOC allocated and CPU_FREE did not free */

cpu_set_t *__sched_cpualloc(size_t count);
void __sched_cpufree(cpu_set_t *set);

cpu_set_t *__sched_cpualloc(size_t count)
{
    cpu_set_t *set = memory_is_exhausted ? NULL : malloc(CPU_ALLOC_SIZE(count));
    sets += set != NULL;
    return set;
}

void __sched_cpufree(cpu_set_t *set)
{
    sets -= set != NULL;
    free(set);
}

START_TEST(test_masks_of_large_machines)
{
    const int quota = th_processors_quota("");
    simulated = true;
    static const size_t sizes[] = {256, 2048, (1 << 20) / 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        kernel_bytes = sizes[i];
        ck_assert_int_eq(th_processors(), 1);
        ck_assert_int_eq(th_processors_of_process(), quota < 3 ? quota : 3);
    }
    kernel_bytes = (1 << 20) / 8 + 1; /* larger than any mask that the library tries */
    ck_assert_int_eq(th_processors(), 1);
    ck_assert_int_eq(th_processors_of_process(), 1);
    kernel_bytes = 256;
#ifdef __GLIBC__
    memory_is_exhausted = true;
    ck_assert_int_eq(th_processors_of_process(), 1);
    ck_assert_int_eq(sets, 0);
#endif
}
END_TEST

/* -- OpenMP's places: while `simulated` is true, these functions replace functions of OpenMP too -- */

#ifdef TAPEHEAD_OPENMP
static cpu_set_t bound;              /* by the last pthread_setaffinity_np */
static int binds, places, place_ids; /* calls of it; the number of places; a place has this many processors */
static omp_proc_bind_t binding = omp_proc_bind_false;

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set)
{
    int (*replaced)(pthread_t, size_t, const cpu_set_t *);
    find_replaced("pthread_setaffinity_np", &replaced);
    if (!simulated)
        return replaced(thread, size, set);
    CPU_ZERO(&bound);
    for (size_t i = 0; i < 8 * size && i < CPU_SETSIZE; i++)
        if (CPU_ISSET_S(i, size, set))
            CPU_SET(i, &bound);
    binds++;
    return 0;
}

static int max_threads;

int omp_get_max_threads(void)
{
    int (*replaced)(void);
    find_replaced("omp_get_max_threads", &replaced);
    return simulated ? max_threads : replaced();
}

omp_proc_bind_t omp_get_proc_bind(void)
{
    omp_proc_bind_t (*replaced)(void);
    find_replaced("omp_get_proc_bind", &replaced);
    return simulated ? binding : replaced();
}

int omp_get_num_places(void)
{
    int (*replaced)(void);
    find_replaced("omp_get_num_places", &replaced);
    return simulated ? places : replaced();
}

int omp_get_place_num_procs(int place)
{
    int (*replaced)(int);
    find_replaced("omp_get_place_num_procs", &replaced);
    return simulated ? place_ids : replaced(place);
}

/* Place p has the processors 128 (p + 1), 128 (p + 1) - 1, ... */
void omp_get_place_proc_ids(int place, int *ids)
{
    void (*replaced)(int, int *);
    find_replaced("omp_get_place_proc_ids", &replaced);
    if (!simulated)
        replaced(place, ids);
    for (int i = 0; i < place_ids && simulated; i++)
        ids[i] = 128 * (place + 1) - i;
}

#define BIND_PRIMARY ((omp_proc_bind_t)2) /* omp_proc_bind_primary of OpenMP 5.1 */

static const struct {
    omp_proc_bind_t binding;
    int places, worker, threads, place; /* place: the expected one, or -1 */
} bindings[] = {
    {omp_proc_bind_false, 4, 1, 4, -1}, {omp_proc_bind_close, 0, 1, 4, -1}, {omp_proc_bind_close, 1, 3, 4, 0},
    {omp_proc_bind_close, 4, 3, 4, 3},  {omp_proc_bind_close, 4, 5, 8, 1},  {omp_proc_bind_true, 4, 2, 2, 2},
    {BIND_PRIMARY, 4, 3, 4, 0},         {BIND_PRIMARY, 0, 3, 4, -1},        {omp_proc_bind_spread, 4, 1, 2, 2},
    {omp_proc_bind_spread, 9, 2, 3, 6}, {omp_proc_bind_spread, 9, 2, 4, 4}, {omp_proc_bind_spread, 4, 3, 4, 3},
    {omp_proc_bind_spread, 4, 6, 8, 2},
};

/* gcc's library returns a number that is too large as 0 or less. */
START_TEST(test_a_number_of_threads_that_is_too_large)
{
    static const int returned[] = {0, -1294967296, INT_MIN};
    simulated = true;
    kernel_bytes = 256;
    for (int i = 0; i < 3; i++) {
        max_threads = returned[i];
        ck_assert_int_eq(th_processors_default_team(), 1);
    }
}
END_TEST

START_TEST(test_workers_get_openmps_places)
{
    simulated = true;
    place_ids = 3;
    binding = bindings[_i].binding;
    places = bindings[_i].places;
    th_openmp_bind(pthread_self(), bindings[_i].worker, bindings[_i].threads);
    ck_assert_int_eq(binds, bindings[_i].place >= 0);
    for (int i = 0; i < CPU_SETSIZE && binds; i++) {
        const int first = 128 * (bindings[_i].place + 1) - 2;
        ck_assert_int_eq(CPU_ISSET((size_t)i, &bound) != 0, i >= first && i < first + 3);
    }
    ck_assert_int_eq(sets, 0);
    memory_is_exhausted = true; /* then a worker stays where it is */
    binds = 0;
    th_openmp_bind(pthread_self(), bindings[_i].worker, bindings[_i].threads);
    ck_assert_int_eq(binds, 0);
    memory_is_exhausted = false;
    place_ids = 0; /* an empty place binds no thread */
    const int before = binds;
    th_openmp_bind(pthread_self(), bindings[_i].worker, bindings[_i].threads);
    ck_assert_int_eq(binds, before);
}
END_TEST
#endif

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
    TCase *other = new_suite("processors: other machines", NULL, NULL);
    tcase_add_test(other, test_masks_of_large_machines);
#ifdef TAPEHEAD_OPENMP
    tcase_add_test(other, test_a_number_of_threads_that_is_too_large);
    tcase_add_loop_test(other, test_workers_get_openmps_places, 0, (int)(sizeof bindings / sizeof *bindings));
#endif
    return run_suites();
}

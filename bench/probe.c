/* Measures what the machine can do now: peaks of multiply-adds, memory bandwidth, the round trip of a cache line
 * between two cores, the cost of a parallel region. Prints name=value lines. Reports show them beside the benchmark
 * results. */
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine_limits.h"
#include "measure.h"
#include "options.h"
#include "suggest.h"

static int64_t threads;
static bool region_only;
static const program_option options[] = {
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"region", "measure only the cost of a parallel region, with the environment's OMP_WAIT_POLICY",
     .flag = &region_only},
    {0},
};

/* -- the cost of a parallel region -- */

static void print_region(void)
{
    enum { REGIONS = 2000 };
    double seconds[REGIONS];
    for (int i = 0; i < REGIONS; i++) {
        const double start = now();
#pragma omp parallel num_threads((int)threads)
        __asm__ volatile("" ::: "memory");
        seconds[i] = now() - start;
    }
    const char *waiting = getenv("OMP_WAIT_POLICY");
    printf("region_%s_us=%.2f\n", waiting ? waiting : "default", median(seconds, REGIONS) * 1e6);
}

/* Runs this program again with another OMP_WAIT_POLICY: OpenMP reads it only when a process starts. */
static void print_region_with(const char *waiting)
{
    char count[32];
    snprintf(count, sizeof count, "%lld", (long long)threads);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        setenv("OMP_WAIT_POLICY", waiting, 1);
        execl("/proc/self/exe", "probe", "--region", "--threads", count, (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        give_up("probe", "cannot run itself again");
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, "probe", "probe: measures the limits of this machine", options);
    if (threads == 0)
        threads = omp_get_num_procs();
    if (region_only) {
        print_region();
        return EXIT_SUCCESS;
    }
    print_region_with("active");
    print_region_with("passive");
    for (int which = 0; which < LIMIT_COUNT; which++) {
        printf("fma_%s_1_gflops=%.1f\n", limit_names[which], fma_gflops(which, 1));
        printf("fma_%s_n_gflops=%.1f\n", limit_names[which], fma_gflops(which, (int)threads));
    }
    printf("triad_l2_1_gbs=%.1f\n", triad_gbs(L2_FLOATS, 1));
    printf("triad_l2_n_gbs=%.1f\n", triad_gbs(L2_FLOATS, (int)threads));
    printf("triad_dram_1_gbs=%.1f\n", triad_gbs(DRAM_FLOATS, 1));
    printf("triad_dram_n_gbs=%.1f\n", triad_gbs(DRAM_FLOATS, (int)threads));
    const double round_trip = round_trip_seconds();
    if (round_trip > 0)
        printf("round_trip_ns=%.0f\n", round_trip * 1e9);
    return end_with_suggestion("probe", argv[0], NULL, "train_step", (const char *const[]){"copyB", NULL});
}

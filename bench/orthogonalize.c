/* Times the orthogonalization of Muon's matrices (kernels/products/orthogonalize.h) by shape, number of steps and
 * threads, beside the same formula with whole products of the library (plain). Both run alternately, and the least
 * times count. Prints CSV:
 *
 *     us, plain_us       microseconds for one matrix, in a call with `count` matrices
 *     ratio              us / plain_us
 *     gflops             operations of the formula, without its symmetry, per nanosecond
 *     of_product         gflops / the GFLOP/s of a product (1024, 512) (512, 512) on as many threads */
#include <math.h>
#include <string.h>
#include <tapehead/tapehead.h>

#include "kernels/kernels.h"
#include "kernels/products/orthogonalize.h"
#include "kernels/products/product.h"
#include "measure.h"
#include "options.h"
#include "suggest.h"

static const char program[] = "orthogonalize";
static int64_t threads, count = 4;
static double seconds = 0.5;
static bool full, processor_time;
static const program_option options[] = {
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"count", "matrices in a call", .integer = &count, .low = 1, .high = 1000},
    {"seconds", "for each line", .real = &seconds, .low = 0, .high = 100},
    {"float64", "times float64 instead of float32", .flag = &full},
    {"processor-time", "counts the time of the processors, for a machine that is not quiet; with --threads 1",
     .flag = &processor_time},
    {0},
};

/* The matrices of a call, and what both versions need. */
typedef struct {
    th_machine machine;
    th_dtype dtype;
    th_newton_schulz schulz;
    int64_t rows, columns, n, size;
    int threads;
    void **matrix;              /* (count) of (rows, columns) */
    char *gram, *square, *next; /* of the plain version */
    void *scratch;
} measured;

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (memory == NULL)
        give_up(program, "out of memory");
    memset(memory, 0, bytes);
    return memory;
}

static void randomize(const measured *t, void *x, int64_t numel)
{
    static uint64_t state = 1;
    for (int64_t i = 0; i < numel; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const double number = (double)(int64_t)(state >> 11) * 0x1p-52 - 1;
        if (t->dtype == TH_FLOAT64)
            ((double *)x)[i] = number;
        else
            ((float *)x)[i] = (float)number;
    }
}

/* c (m, n) = a b */
static th_product product_of(int64_t m, int64_t n, int64_t k, const void *a, int64_t a_row, int64_t a_col,
                             const void *b, int64_t b_row, int64_t b_col, void *c)
{
    return (th_product){m, n, k, a, a_row, a_col, b, b_row, b_col, c, n, 1, .batch_dims = 0};
}

/* The products of a step: gram, square, next. */
static void set_products(const measured *t, void *x, th_product product[3])
{
    const int64_t r = t->rows, c = t->columns, n = t->n;
    const bool wide = r <= c;
    product[0] = wide ? product_of(n, n, c, x, c, 1, x, 1, c, t->gram) : product_of(n, n, r, x, 1, c, x, c, 1, t->gram);
    product[1] = product_of(n, n, n, t->gram, n, 1, t->gram, n, 1, t->square);
    product[2] = wide ? product_of(r, c, n, t->gram, n, 1, x, c, 1, t->next)
                      : product_of(r, c, n, x, n, 1, t->gram, n, 1, t->next);
}

static void run_ours(void *what)
{
    const measured *t = what;
    th_orthogonalize(&t->machine, t->dtype, &t->schulz, count, t->rows, t->columns, t->matrix, t->scratch, t->threads);
}

static void scale(const measured *t, int64_t numel, void *x, double factor)
{
    th_kernels_for(&t->machine, t->dtype)->scale(numel, (void *[]){x, x}, &factor);
}

static void run_plain(void *what)
{
    const measured *t = what;
    const th_kernels *kernels = th_kernels_for(&t->machine, t->dtype);
    const int64_t numel = t->rows * t->columns, n = t->n;
    for (int64_t i = 0; i < count; i++) {
        void *x = t->matrix[i];
        double squares;
        kernels->sum_squares(numel, x, &squares);
        scale(t, numel, x, 1 / fmax(sqrt(squares), t->schulz.eps));
        for (int step = 0; step < t->schulz.steps; step++) {
            const double *weight = t->schulz.coefficient[step];
            th_product product[3];
            set_products(t, x, product);
            th_product_run(&t->machine, t->dtype, &product[0], t->threads, t->scratch);
            th_product_run(&t->machine, t->dtype, &product[1], t->threads, t->scratch);
            scale(t, n * n, t->gram, weight[1]);
            scale(t, n * n, t->square, weight[2]);
            kernels->add(n * n, (void *[]){t->gram, t->gram, t->square}, NULL);
            th_product_run(&t->machine, t->dtype, &product[2], t->threads, t->scratch);
            scale(t, numel, x, weight[0]);
            kernels->add(numel, (void *[]){x, x, t->next}, NULL);
        }
    }
}

/* Returns the seconds of one run(what). */
static double seconds_of(void (*run)(void *), void *what)
{
    const clockid_t clock = processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    struct timespec begin, end;
    clock_gettime(clock, &begin);
    run(what);
    clock_gettime(clock, &end);
    return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}

static measured measured_new(const th_machine *machine, int64_t rows, int64_t columns, int steps, int team)
{
    measured t = {.machine = *machine,
                  .dtype = full ? TH_FLOAT64 : TH_FLOAT32,
                  .schulz = {.steps = steps, .eps = 1e-7},
                  .rows = rows,
                  .columns = columns,
                  .n = rows < columns ? rows : columns,
                  .size = full ? 8 : 4,
                  .threads = team};
    size_t bytes = th_orthogonalize_scratch(machine, t.dtype, count, rows, columns, team);
    th_product product[3];
    for (int i = 0; i < steps; i++)
        memcpy(t.schulz.coefficient[i], (const double[]){3.4445, -4.7750, 2.0315}, sizeof t.schulz.coefficient[i]);
    t.matrix = allocate((size_t)count * sizeof *t.matrix);
    for (int64_t i = 0; i < count; i++) {
        t.matrix[i] = allocate((size_t)(rows * columns * t.size));
        randomize(&t, t.matrix[i], rows * columns);
    }
    t.gram = allocate((size_t)(t.n * t.n * t.size));
    t.square = allocate((size_t)(t.n * t.n * t.size));
    t.next = allocate((size_t)(rows * columns * t.size));
    set_products(&t, t.matrix[0], product);
    for (int i = 0; i < 3; i++) {
        const size_t more = th_product_workspace(machine, t.dtype, &product[i], team);
        bytes = more > bytes ? more : bytes;
    }
    t.scratch = allocate(bytes);
    return t;
}

static void measured_free(measured *t)
{
    for (int64_t i = 0; i < count; i++)
        free(t->matrix[i]);
    free(t->matrix);
    free(t->gram);
    free(t->square);
    free(t->next);
    free(t->scratch);
}

typedef struct {
    const measured *measured;
    th_product product;
} product_run;

static void run_product(void *what)
{
    const product_run *p = what;
    th_product_run(&p->measured->machine, p->measured->dtype, &p->product, p->measured->threads, p->measured->scratch);
}

/* Returns the operations per nanosecond of a product (1024, 512) (512, 512). */
static double product_gflops(const th_machine *machine, int team)
{
    measured t = measured_new(machine, 1024, 512, 1, team);
    product_run p = {.measured = &t};
    th_product product[3];
    set_products(&t, t.matrix[0], product);
    p.product = product[2];
    double time = seconds_of(run_product, &p);
    for (const double start = now(); now() - start < seconds;)
        time = fmin(time, seconds_of(run_product, &p));
    measured_free(&t);
    return 2.0 * 1024 * 512 * 512 / time * 1e-9;
}

static void print_line(const th_machine *machine, const int64_t size[2], int steps, int team, double peak)
{
    measured t = measured_new(machine, size[0], size[1], steps, team);
    double ours = 1e300, plain = 1e300;
    run_ours(&t);
    run_plain(&t);
    for (const double start = now(); now() - start < seconds;) {
        ours = fmin(ours, seconds_of(run_ours, &t));
        plain = fmin(plain, seconds_of(run_plain, &t));
    }
    const double n = (double)t.n, m = (double)(size[0] + size[1]) - n;
    const double gflops = (double)count * steps * 2 * n * n * (2 * m + n) / ours * 1e-9;
    printf("%lld,%lld,%d,%d,%lld,%.1f,%.1f,%.3f,%.1f,%.3f\n", (long long)size[0], (long long)size[1], steps, team,
           (long long)count, ours / (double)count * 1e6, plain / (double)count * 1e6, ours / plain, gflops,
           gflops / peak);
    fflush(stdout);
    measured_free(&t);
}

int main(int argc, char **argv)
{
    static const int64_t sizes[][2] = {{256, 256}, {256, 768}, {768, 256}, {1024, 256}, {128, 512}, {384, 1536}};
    th_machine machine;
    parse_options(argc, argv, program, "orthogonalize: times Newton-Schulz iterations by shape, steps and threads",
                  options);
    const char *problem = th_machine_detect(&machine);
    if (problem)
        give_up(program, problem);
    threads = threads == 0 ? machine.threads : threads;
    printf("rows,columns,steps,threads,count,us,plain_us,ratio,gflops,of_product\n");
    for (int team = 1; team <= threads; team += (int)threads > 1 ? (int)threads - 1 : 1) {
        const double peak = product_gflops(&machine, team);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int steps = 3; steps <= 5; steps += 2)
                print_line(&machine, sizes[i], steps, team, peak);
    }
    return end_with_suggestion(program, argv[0], NULL, "products", (const char *const[]){NULL});
}

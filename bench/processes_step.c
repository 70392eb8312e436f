/* Times training steps of a GPT-2 in several processes over MPI. Start it with mpirun. Rank 0 prints one line of
 * name=value pairs. ddp_step.py measures PyTorch's DistributedDataParallel in the same way.
 *
 *     mpirun -n 2 processes_step char12 --threads 1
 *
 * Each process computes one shard. The batch of the configuration is divided among them; with --weak each process has
 * the whole batch. Blocks of these steps alternate with blocks of steps of the same shard that exchange nothing. A time
 * is the largest of all processes. transport_ms is the time in the transport, in the process that waits least.
 *
 * B batch of all processes, T length. */
#include <tapehead/mpi.h>
#include <tapehead/tapehead.h>

#include "measure.h"
#include "options.h"
#include "training.h"

static const char program[] = "processes_step";
enum { WARM = 2, BLOCKS = 3, MAX_STEPS = 1000 };

static int64_t threads = 1, steps;
static double seconds = 10;
static bool weak;

static const program_option options[] = {
    {"threads", "of each process; 0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"weak", "every process has the whole batch", .flag = &weak},
    {"steps", "to measure; 0: for --seconds", .integer = &steps, .low = 0, .high = MAX_STEPS},
    {"seconds", "to measure, but at least three steps", .real = &seconds, .low = 0, .high = 1e5},
    {0},
};

static int rank, processes;

/* -- a training run -- */

typedef struct {
    th_context *ctx;
    th_group *group; /* NULL: steps that exchange nothing */
    th_module *model;
    th_optimizer *adam;
    th_tensor *tokens[BATCHES], *targets[BATCHES]; /* (B / processes, T) */
} shared_training;

static void check(const shared_training *t)
{
    if (th_error_code(t->ctx) == TH_OK)
        return;
    fprintf(stderr, "%s: %s\n", program, th_error_message(t->ctx));
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

/* Returns this process's rows of B random sequences. */
static th_tensor *sequences(th_context *ctx, const training_sizes *c, int64_t batch)
{
    th_tensor *all = th_random_integers(ctx, TH_INT32, TH_SHAPE(batch, c->length), 0, c->vocabulary);
    const int64_t rows = batch / processes;
    return th_keep(th_slice(all, 0, rank * rows, (rank + 1) * rows, 1));
}

static shared_training shared_training_new(const training_sizes *c, bool together)
{
    shared_training t = {.ctx = th_context_new(&(th_context_options){.seed = 1, .threads = (int)threads})};
    if (t.ctx == NULL)
        give_up(program, "out of memory");
    if (together)
        t.group = th_mpi_group_new(t.ctx, MPI_COMM_WORLD);
    t.model = th_language_model_new(t.ctx, &(th_language_model_options){c->vocabulary, c->length, c->width, c->heads,
                                                                        c->layers, .block = {.no_mlp = !c->mlp}});
    t.adam = th_adam_w_new(
        t.model, &(th_adam_options){
                     .learning_rate = 3e-4, .weight_decay = 0.1, .shards = together ? processes : 1, .group = t.group});
    const int64_t batch = weak ? c->batch * processes : c->batch;
    for (int i = 0; i < BATCHES; i++) {
        t.tokens[i] = sequences(t.ctx, c, batch);
        t.targets[i] = sequences(t.ctx, c, batch);
    }
    check(&t);
    return t;
}

static void train(const shared_training *t, int64_t step)
{
    for (th_shard shard = th_optimizer_shards(t->adam); th_shard_next(&shard);) {
        th_tensor *loss = th_language_model_loss(t->model, t->tokens[step % BATCHES], t->targets[step % BATCHES], NULL);
        if (th_backward(loss, NULL))
            break;
        shard.loss = th_item(loss);
        th_tape_clear(t->ctx);
    }
    if (th_optimizer_step(t->adam))
        check(t);
}

/* -- measuring -- */

/* Seconds of steps. */
typedef struct {
    double step[MAX_STEPS + BLOCKS], transport[MAX_STEPS + BLOCKS];
    int count;
} times;

/* Times `count` more steps in a row. */
static void time_steps(const shared_training *t, int count, times *measured)
{
    double *step = measured->step + measured->count, *transport = measured->transport + measured->count;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) {
        const double begin = now(), before = th_group_traffic_so_far(t->group).seconds;
        train(t, i);
        step[i] = now() - begin;
        transport[i] = th_group_traffic_so_far(t->group).seconds - before;
    }
    MPI_Allreduce(MPI_IN_PLACE, step, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, transport, count, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    measured->count += count;
}

/* Warms up, and returns the seconds of a step. */
static double warm_up(const shared_training *t)
{
    static times unused;
    unused.count = 0;
    time_steps(t, WARM, &unused);
    return unused.step[WARM - 1];
}

static void print_results(const shared_training *t, times *together, times *alone, double rss, double first_loss)
{
    const double step = median(together->step, together->count), local = median(alone->step, alone->count);
    printf("min_ms=%.4f median_ms=%.4f local_min_ms=%.4f local_median_ms=%.4f exchange_ms=%.4f transport_ms=%.4f ",
           together->step[0] * 1e3, step * 1e3, alone->step[0] * 1e3, local * 1e3, (step - local) * 1e3,
           median(together->transport, together->count) * 1e3);
    printf("steps=%d bytes=%lld peak_rss_mib=%.1f first_loss=%.5f last_loss=%.5f build=%s\n", together->count,
           (long long)th_module_count(t->model) * 4, rss, first_loss, th_optimizer_loss(t->adam),
           th_build_info(t->ctx));
}

static void measure(const training_sizes *c)
{
    static times with_exchange, without;
    const shared_training together = shared_training_new(c, true);
    train(&together, 0);
    const double first_loss = th_optimizer_loss(together.adam), estimate = warm_up(&together);
    const double rss = peak_rss_mib(); /* without the other model */
    const shared_training alone = shared_training_new(c, false);
    warm_up(&alone);
    const double wanted = steps ? (double)steps : seconds / estimate;
    const int count = wanted < 3 ? 3 : wanted > MAX_STEPS ? MAX_STEPS : (int)wanted;
    for (int i = 0; i < BLOCKS; i++) {
        time_steps(&together, (count + BLOCKS - 1) / BLOCKS, &with_exchange);
        time_steps(&alone, (count + BLOCKS - 1) / BLOCKS, &without);
    }
    check(&together);
    check(&alone);
    if (rank == 0)
        print_results(&together, &with_exchange, &without, rss, first_loss);
    th_context_free(alone.ctx);
    th_context_free(together.ctx);
}

int main(int argc, char **argv)
{
    const char *name = "copyB";
    parse_options_and_words(argc, argv, program, "processes_step [CONFIGURATION]: times training steps over MPI",
                            options, &name, 1);
    training_sizes sizes;
    if (!training_find(name, &sizes))
        refuse(program, "unknown configuration ", name);
    int provided;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        give_up(program, "MPI_Init_thread failed");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    if (sizes.batch % processes && !weak)
        refuse(program, "the processes cannot share the batch of ", name);
    measure(&sizes);
    finish_output(program);
    MPI_Finalize();
    return EXIT_SUCCESS;
}

/* Muon computes the same bits with any number of threads and processes, and a checkpoint continues with the same bits. Each
 * matrix belongs to one process. */
#include <string.h>

#include "processes.h"
#include "tapehead/tapehead.h"
#include "training/moments.h"

#include "context.h"

enum { SHARDS = 8, STEPS = 3, WIDTH = 96 };

static th_module *model_new(th_context *c)
{
    return th_language_model_new(
        c, &(th_language_model_options){
               .vocabulary = 20, .length = 8, .width = WIDTH, .heads = 2, .layers = 2, .untied = true, .dropout = 0.1});
}

typedef struct run {
    int threads, local_steps;
    uint32_t *crc; /* shared; [MAX_PROCESSES] */
    int *matrices; /* shared; [MAX_PROCESSES]: how many each process has the moments of */
} run;

/* Checks that the process has all of a matrix's moment or nothing, and counts those that it has. */
static int count_matrices(const th_optimizer *o)
{
    int count = 0;
    for (int64_t i = 0; i < o->count; i++) {
        const th_optimizer_parameter *p = &o->parameters[i];
        const th_moment_part part = th_moment_part_of(p, 0);
        const size_t bytes = (size_t)th_numel(p->tensor->handle) * sizeof(float);
        if (p->parts == 0)
            continue;
        process_assert(part.begin == part.end || part.end - part.begin == bytes);
        count += part.begin < part.end;
    }
    return count;
}

static int train(const th_transport *transport, void *user)
{
    const run *r = user;
    th_context *c = th_context_new(&(th_context_options){.seed = 1, .threads = r->threads});
    th_module *m = model_new(c);
    const th_muon_options options = {.learning_rate = 0.02,
                                     .weight_decay = 0.1,
                                     .adam_learning_rate = 0.003,
                                     .max_norm = 0.5,
                                     .shards = SHARDS,
                                     .group = transport->size > 1 ? th_group_new(c, transport) : NULL,
                                     .diloco = {.local_steps = r->local_steps}};
    th_optimizer *o = th_muon_new(m, &options);
    for (int step = 0; step < STEPS; step++) {
        for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard); th_tape_clear(c)) {
            th_tensor *text = th_random_integers(c, TH_INT32, TH_SHAPE(2, 9), 0, 20);
            th_tensor *loss = th_language_model_loss(m, th_slice(text, 1, 0, 8, 1), th_slice(text, 1, 1, 9, 1), NULL);
            process_assert(th_backward(loss, NULL) == TH_OK);
        }
        if (th_optimizer_step(o))
            fail_process("%s", th_error_message(c));
    }
    r->matrices[transport->rank] = count_matrices(o);
    r->crc[transport->rank] = th_module_crc32c(m);
    th_context_free(c);
    return 0;
}

static run run_of(int threads)
{
    return (run){.threads = threads,
                 .crc = shared_memory(MAX_PROCESSES * sizeof(uint32_t)),
                 .matrices = shared_memory(MAX_PROCESSES * sizeof(int))};
}

/* Rank 1 chooses other matrices, with the same rates. */
static int disagree(const th_transport *transport, void *user)
{
    (void)user;
    const th_parameter_group group = {.pattern = "weight",
                                      .muon = transport->rank == 1 ? TH_MUON_NEVER : TH_MUON_BY_KIND};
    th_context *c = th_context_new(&(th_context_options){.seed = 1, .threads = 1});
    th_module *m = th_dense_new(c, 3, 4, NULL);
    th_optimizer *o = th_muon_new(m, &(th_muon_options){.learning_rate = 0.01,
                                                        .adjustment = TH_MUON_MATCH_RMS_ADAMW,
                                                        .groups = &group,
                                                        .n_groups = 1,
                                                        .shards = 2,
                                                        .group = th_group_new(c, transport)});
    for (th_shard shard = th_optimizer_shards(o); th_shard_next(&shard);) {
        th_tensor *y = th_module_forward(m, th_ones(c, TH_FLOAT32, TH_SHAPE(2, 3)));
        process_assert(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL) == TH_OK);
    }
    process_assert(th_optimizer_step(o) == TH_ERROR_STATE);
    process_assert(strstr(th_error_message(c), "checksum of the optimizer's options"));
    th_error_clear(c);
    th_context_free(c);
    return 0;
}

START_TEST(another_choice_of_matrices_is_an_error)
{
    run_processes(2, disagree, NULL);
}
END_TEST

static const int process_counts[] = {1, 2, 3, 5, 8};
enum { COUNTS = sizeof process_counts / sizeof *process_counts, MATRICES = 2 * 4 };

START_TEST(processes_give_the_same_bits_and_share_the_matrices)
{
    run r = run_of(1);
    run_processes(1, train, &r);
    const uint32_t alone = r.crc[0];
    const int processes = process_counts[_i];
    r.threads = 2;
    run_processes(processes, train, &r);
    int matrices = 0;
    for (int rank = 0; rank < processes; rank++) {
        ck_assert_uint_eq(r.crc[rank], alone);
        ck_assert_int_lt(r.matrices[rank], processes == 1 ? MATRICES + 1 : MATRICES);
        matrices += r.matrices[rank];
    }
    ck_assert_int_eq(matrices, MATRICES);
}
END_TEST

START_TEST(threads_give_the_same_bits)
{
    run r = run_of(1);
    run_processes(1, train, &r);
    const uint32_t one = r.crc[0];
    for (r.threads = 2; r.threads <= 4; r.threads++) {
        run_processes(1, train, &r);
        ck_assert_uint_eq(r.crc[0], one);
    }
}
END_TEST

START_TEST(workers_agree_after_local_steps)
{
    run r = run_of(1);
    r.local_steps = STEPS;
    run_processes(2, train, &r);
    const uint32_t one_thread = r.crc[0];
    ck_assert_uint_eq(r.crc[1], one_thread);
    ck_assert_int_eq(r.matrices[1], MATRICES);
    r.threads = 3;
    run_processes(2, train, &r);
    ck_assert_uint_eq(r.crc[0], one_thread);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("Muon's bits", NULL, NULL);
    tcase_add_loop_test(tests, processes_give_the_same_bits_and_share_the_matrices, 0, COUNTS);
    tcase_add_test(tests, threads_give_the_same_bits);
    tcase_add_test(tests, another_choice_of_matrices_is_an_error);
    tcase_add_test(tests, workers_agree_after_local_steps);
    return run_suites();
}

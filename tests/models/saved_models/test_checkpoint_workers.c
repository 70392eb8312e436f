/* Checkpoints of runs with local steps: every worker continues with its own moments, and only the right time and the same
 * workers are accepted. */
#include <math.h>

#include "folder.h"
#include "processes.h"
#include "tapehead/models.h"

#include "context.h"

enum { WIDE = 50000, LOCAL_STEPS = 2, SAVED_STEPS = 4, MORE_STEPS = 3 };

typedef struct {
    bool sgd, muon, amsgrad, no_momentum;
} training;

static const training trainings[] = {
    {.sgd = false}, {.amsgrad = true, .no_momentum = true}, {.sgd = true}, {.muon = true}};

typedef struct {
    const training *training;
    const char *path;
    int local_steps;
    bool save, load, load_late, other_options;
    uint32_t *crc; /* shared; [MAX_PROCESSES] */
    th_status expected;
    const char *words; /* of the expected error of the load */
} run;

/* One of the workers. */
typedef struct {
    th_context *ctx;
    th_module *m;
    th_tensor *wide, *rare;
    th_optimizer *o;
    th_checkpoint checkpoint;
    int rank;
} worker;

static worker worker_new(const th_transport *transport, const run *r)
{
    th_context *c = th_context_new(&(th_context_options){.seed = 7, .threads = 1});
    th_group *group = th_group_new(c, transport);
    th_module *m = th_module_new(c, sizeof *m, "model", NULL);
    worker w = {.ctx = c, .m = m, .rank = transport->rank};
    w.wide = th_module_add_parameter(m, "wide", TH_SHAPE(WIDE / 50, 50));
    w.rare = th_module_add_parameter(m, "rare", TH_SHAPE(3));
    th_module_add_parameter(m, "never", TH_SHAPE(2));
    process_assert(th_fill_normal(w.wide, 0, 1) == TH_OK && th_group_set_timeout(group, 20) == TH_OK);
    const th_diloco_options diloco = {.local_steps = r->local_steps, .no_momentum = r->training->no_momentum};
    const th_parameter_group matrix = {.pattern = "wide", .muon = TH_MUON_ALWAYS};
    w.o = r->training->sgd    ? th_sgd_new(m, &(th_sgd_options){.learning_rate = 0.1,
                                                                .momentum = 0.9,
                                                                .shards = transport->size,
                                                                .group = group,
                                                                .diloco = diloco})
          : r->training->muon ? th_muon_new(m, &(th_muon_options){.learning_rate = 0.1,
                                                                  .adam_learning_rate = 0.01,
                                                                  .groups = &matrix,
                                                                  .n_groups = 1,
                                                                  .shards = transport->size,
                                                                  .group = group,
                                                                  .diloco = diloco})
                              : th_adam_w_new(m, &(th_adam_options){.learning_rate = 0.01,
                                                                    .amsgrad = r->training->amsgrad,
                                                                    .shards = transport->size,
                                                                    .group = group,
                                                                    .diloco = diloco});
    w.checkpoint = (th_checkpoint){.model = m, .optimizer = w.o, .other_options = r->other_options};
    return w;
}

/* The worker with the highest rank uses `rare`, in step 2 and from step 4 on. */
static void take_steps(const worker *w, int n)
{
    while (n-- > 0) {
        for (th_shard shard = th_optimizer_shards(w->o); th_shard_next(&shard); th_tape_clear(w->ctx)) {
            const int64_t step = th_step(w->ctx);
            th_tensor *loss = th_mean(th_mul(th_dropout(w->wide, 0.5), w->wide), TH_ALL_AXES, NULL);
            if (shard.index == shard.count - 1 && step > 1 && step != 3)
                loss = th_add(loss, th_sum(th_exp(w->rare), TH_ALL_AXES, NULL));
            if (th_backward(loss, NULL))
                break;
        }
        if (th_optimizer_step(w->o))
            fail_process("%s", th_error_message(w->ctx));
    }
}

static void check_status(const worker *w, th_status status, const run *r)
{
    if (status != r->expected || (r->words && strstr(th_error_message(w->ctx), r->words) == NULL))
        fail_process("rank %d: code %d, %s", w->rank, (int)status, th_error_message(w->ctx));
    th_error_clear(w->ctx);
}

static int train(const th_transport *transport, void *user)
{
    const run *r = user;
    const worker w = worker_new(transport, r);
    if (r->load_late)
        take_steps(&w, 1);
    if (r->load)
        check_status(&w, th_checkpoint_load(r->path, &w.checkpoint), r);
    else
        take_steps(&w, SAVED_STEPS);
    if (r->save && th_checkpoint_save(r->path, &w.checkpoint))
        fail_process("%s", th_error_message(w.ctx));
    if (r->expected == TH_OK)
        take_steps(&w, MORE_STEPS);
    r->crc[w.rank] = th_module_crc32c(w.m);
    th_context_free(w.ctx);
    return 0;
}

static uint32_t *crcs(void)
{
    return shared_memory(MAX_PROCESSES * sizeof(uint32_t));
}

START_TEST(every_worker_continues_with_the_same_bits)
{
    const training *t = &trainings[_i];
    for (int workers = 1; workers <= 3; workers++) {
        const char *path = in_folder("workers.safetensors");
        run whole = {.training = t, .path = path, .local_steps = LOCAL_STEPS, .save = true, .crc = crcs()};
        run resumed = {.training = t, .path = path, .local_steps = LOCAL_STEPS, .load = true, .crc = crcs()};
        run late = resumed;
        late.load_late = true;
        late.crc = crcs();
        run_processes(workers, train, &whole);
        run_processes(workers, train, &resumed);
        run_processes(workers, train, &late);
        for (int r = 0; r < workers; r++) {
            ck_assert_uint_eq(resumed.crc[r], whole.crc[r]);
            ck_assert_uint_eq(late.crc[r], whole.crc[r]);
        }
        if (workers > 1) /* between outer steps they differ */
            ck_assert_uint_ne(whole.crc[0], whole.crc[workers - 1]);
    }
}
END_TEST

static void save_with_workers(int workers, const char *path)
{
    run saved = {.training = trainings, .path = path, .local_steps = LOCAL_STEPS, .save = true, .crc = crcs()};
    run_processes(workers, train, &saved);
}

START_TEST(other_workers_cannot_continue)
{
    const char *path = in_folder("workers.safetensors");
    run other = {.training = trainings, .path = path, .local_steps = LOCAL_STEPS, .load = true, .crc = crcs()};
    other.expected = TH_ERROR_FILE;
    other.other_options = true;
    save_with_workers(3, path);
    other.words = "different optimizer: adam_w of 3 workers in the file, adam_w of 2 workers here";
    run_processes(2, train, &other);
    other.local_steps = 0;
    other.words = "different optimizer: adam_w of 3 workers in the file, adam_w here";
    run_processes(3, train, &other);
}
END_TEST

START_TEST(options_of_local_steps_are_compared)
{
    const char *path = in_folder("workers.safetensors");
    run other = {.training = trainings, .path = path, .local_steps = 3, .load = true, .crc = crcs()};
    save_with_workers(2, path);
    other.expected = TH_ERROR_FILE;
    other.words = "different option: local_steps of the optimizer is 2 in the file and 3 here";
    run_processes(2, train, &other);
    other.expected = TH_OK;
    other.words = NULL;
    other.other_options = true;
    run_processes(2, train, &other);
}
END_TEST

/* Saves between outer steps. */
static int save_early(const th_transport *transport, void *user)
{
    const run *r = user;
    const worker w = worker_new(transport, r);
    process_assert(th_checkpoint_save(r->path, &w.checkpoint) == TH_OK);
    take_steps(&w, 1);
    check_status(&w, th_checkpoint_save(r->path, &w.checkpoint), r);
    take_steps(&w, 1);
    process_assert(th_checkpoint_save(r->path, &w.checkpoint) == TH_OK);
    th_context_free(w.ctx);
    return 0;
}

START_TEST(only_an_outer_step_can_be_saved)
{
    run r = {.training = trainings,
             .path = in_folder("early.safetensors"),
             .local_steps = LOCAL_STEPS,
             .expected = TH_ERROR_STATE,
             .words = "1 of 2 local steps have been taken: save a checkpoint right after an outer step"};
    run_processes(1, save_early, &r);
    run_processes(2, save_early, &r);
}
END_TEST

int main(void)
{
    TCase *saved = new_suite("checkpoints of workers", make_folder, remove_folder);
    tcase_add_loop_test(saved, every_worker_continues_with_the_same_bits, 0, 4);
    tcase_add_test(saved, other_workers_cannot_continue);
    tcase_add_test(saved, options_of_local_steps_are_compared);
    tcase_add_test(saved, only_an_outer_step_can_be_saved);
    return run_suites();
}

/* The subcommand resume: continues a run from its newest intact checkpoint. */
#include <string.h>

#include "checkpoints.h"
#include "processes.h"
#include "trainer.h"

/* Prints a message if no steps remain. Ends the program if --steps is less than the number of finished steps. */
static void check_remaining_steps(const trainer *t, int64_t steps_option)
{
    char problem[400];
    const long long finished_steps = th_step(t->ctx);
    if (steps_option > 0 && steps_option < finished_steps) {
        snprintf(problem, sizeof problem,
                 "%.200s has done %lld steps already; --steps counts them too and must be more, not %lld", t->run,
                 finished_steps, (long long)steps_option);
        refuse(PROGRAM, problem, "");
    }
    if (finished_steps >= chosen.steps && is_first_process(t))
        fprintf(stderr, PROGRAM ": nothing is left to train: %lld of %lld steps are done; a larger --steps continues\n",
                finished_steps, (long long)chosen.steps);
}

/* Opens the run's newest intact checkpoint. Returns its name. steps, threads: the options, which may be 0. */
static const char *open_run_to_resume(trainer *t, int64_t steps, int64_t threads)
{
    const char *checkpoint = find_intact_checkpoint(t->run);
    open_run(t, t->run, checkpoint, false);
    check_processes(PROGRAM, t->group, chosen.shards);
    make_batch(t);
    make_optimizer(t);
    open_windows(t, "text.tokens");
    if (threads > 0)
        require_ok(t, th_set_threads(t->ctx, (int)threads));
    if (steps > 0)
        chosen.steps = steps;
    check_local_steps();
    require_adapters(t, load_checkpoint(t, checkpoint));
    check_remaining_steps(t, steps);
    return checkpoint;
}

/* Makes the checkpoint the newest one of the run. */
static void make_checkpoint_newest(const trainer *t, const char *checkpoint)
{
    if (strcmp(checkpoint, NEWEST_CHECKPOINT) != 0)
        fprintf(stderr, PROGRAM ": continues from the older checkpoint %s, at step %lld\n", path_in(t->run, checkpoint),
                (long long)th_step(t->ctx));
    return_to_checkpoint(t->run, checkpoint);
}

int resume(int argc, char **argv)
{
    int64_t steps = 0, threads = 0;
    bool quiet = false;
    const program_option options[] = {
        {"steps", "in all; learning rates and batches change to those of this total; 0: as the run began",
         .integer = &steps, .low = 0, .high = 1e9},
        {"threads", "0: as the run began", .integer = &threads, .low = 0, .high = 1024},
        {"quiet", "no progress line", .flag = &quiet},
        NO_MAPPING_OPTION,
        {0}};
    const char *run = NULL;
    if (parse_options_and_words(
            argc, argv, PROGRAM,
            "language_model resume RUN [OPTION...]\nContinues a stopped run, with the same result as without the stop.",
            options, &run, 1) < 1)
        refuse(PROGRAM, "resume needs the folder of a run", "");
    if (is_model_folder(run))
        refuse(PROGRAM, "this is a model, not a run; tune, or train TEXT --from FOLDER, trains it further: ", run);
    trainer t = {.run = run, .quiet = quiet};
    start_processes(&argc, &argv);
    join_group(&t, NULL);
    if (is_first_process(&t))
        lock_run(run);
    else
        wait_for_first(&t);
    const char *checkpoint = open_run_to_resume(&t, steps, threads);
    if (is_first_process(&t))
        wait_for_first(&t);
    agree_on_errors(&t); /* all processes have loaded the checkpoint */
    if (is_first_process(&t))
        make_checkpoint_newest(&t, checkpoint);
    const int status = run_training(&t, true);
    th_context_free(t.ctx);
    end_processes();
    return status;
}

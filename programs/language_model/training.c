/* The training loop: steps, evaluations, samples and checkpoints. */
#include <math.h>

#include "checkpoints.h"
#include "cleanup.h"
#include "processes.h"
#include "schedules.h"
#include "shared/system.h"
#include "trainer.h"
#include "tuning.h"

static volatile sig_atomic_t interrupted;

th_tensor *compute_batch_loss(const trainer *t, const th_cross_entropy_options *options)
{
    return t->starts ? th_language_model_packed_loss(t->model, t->tokens, t->targets, t->starts, options)
                     : th_language_model_loss(t->model, t->tokens, t->targets, options);
}

th_status next_batch(const trainer *t, th_windows *windows)
{
    return t->starts ? th_windows_next_packed(windows, t->tokens, t->targets, t->starts)
                     : th_windows_next(windows, t->tokens, t->targets);
}

/* Returns the number of targets of the batch that count. */
static int64_t count_targets(const trainer *t)
{
    const int32_t *target = th_data(t->targets);
    int64_t count = 0;
    for (int64_t i = 0, n = th_numel(t->targets); i < n; i++)
        count += target[i] != TH_NO_TARGET;
    return count;
}

/* Runs forward and backward on the current batch, or shard of it. Adds its share of the step's loss to *loss. */
static th_status add_batch(trainer *t, double *loss)
{
    const th_cross_entropy_options answers = {TH_IGNORE(TH_NO_TARGET)};
    th_tensor *batch_loss = compute_batch_loss(t, t->starts ? &answers : NULL);
    if (chosen.accumulate > 1)
        batch_loss = th_scale(batch_loss, 1.0 / (double)chosen.accumulate);
    *loss += th_item(batch_loss);
    if (th_backward(batch_loss, NULL))
        return th_error_code(t->ctx);
    th_tape_clear(t->ctx);
    return TH_OK;
}

/* Returns the first rows of a batch's tensor, or of a shard of it, as a view that the tape releases. */
static th_tensor *first_rows(th_tensor *batch, int64_t rows)
{
    return batch && rows < th_size(batch, 0) ? th_slice(batch, 0, 0, rows, 1) : batch;
}

/* Reads a batch of this number of windows, and runs forward and backward on it. */
static th_status add_windows(const trainer *t, int64_t windows, double *loss)
{
    trainer part = *t;
    part.tokens = first_rows(t->tokens, windows);
    part.targets = first_rows(t->targets, windows);
    part.starts = first_rows(t->starts, windows);
    return next_batch(&part, t->training) ? th_error_code(t->ctx) : add_batch(&part, loss);
}

/* Runs forward and backward on a shard of each of the step's batches, whose windows begin at start. batch: the windows
 * in each of them. */
static th_status add_shard(trainer *t, th_windows_position start, int64_t batch, th_shard *shard)
{
    const int64_t windows = batch / chosen.shards, windows_before = shard->index * windows;
    for (int64_t i = 0; i < chosen.accumulate; i++)
        if (th_windows_go_to(t->training, start) || th_windows_skip(t->training, i * batch + windows_before) ||
            add_windows(t, windows, &shard->loss))
            return th_error_code(t->ctx);
    return TH_OK;
}

/* Updates the averages of the weights. With local steps, the processes have the same weights only after outer steps. */
static th_status update_average(const trainer *t)
{
    return t->average && local_steps_divide(th_step(t->ctx)) ? th_weight_average_update(t->average) : TH_OK;
}

/* Exchanges the model's weights with their averages, if there are averages. */
static th_status swap_average(const trainer *t)
{
    return t->average ? th_weight_average_swap(t->average) : TH_OK;
}

/* Runs one optimizer step over `accumulate` batches. All processes call this, also after an error: then the step is an
 * error in all of them. */
static th_status train_step(trainer *t)
{
    const th_windows_position first_window = th_windows_where(t->training);
    const int64_t batch = batch_at(th_step(t->ctx));
    th_optimizer_set_learning_rate(t->optimizer, learning_rate_at(th_step(t->ctx), &t->plateau));
    for (th_shard shard = th_optimizer_shards(t->optimizer); th_shard_next(&shard);)
        if (add_shard(t, first_window, batch, &shard))
            break;
    (void)should_stop_training(t->group, interrupted); /* the others learn of a signal with the step */
    if (th_optimizer_step(t->optimizer) || update_average(t) || th_windows_go_to(t->training, first_window))
        return th_error_code(t->ctx);
    return th_windows_skip(t->training, chosen.accumulate * batch);
}

/* Adds the losses of the batch's tokens to *loss, in evaluation mode and without recording. */
static th_status evaluate_batch(trainer *t, double *loss)
{
    const th_cross_entropy_options sum = {TH_IGNORE(TH_NO_TARGET), .normalizer = 1};
    th_no_grad_begin(t->ctx);
    th_set_training(t->ctx, false);
    *loss += th_item(compute_batch_loss(t, &sum));
    th_tape_clear(t->ctx);
    th_set_training(t->ctx, true);
    th_no_grad_end(t->ctx);
    return th_error_code(t->ctx);
}

th_status evaluate(trainer *t, th_windows *windows, int64_t batches, double *loss)
{
    const int64_t rows = th_size(t->tokens, 0), max_batches = batches * (chosen.batch / rows);
    int64_t batches_done = 0, targets = 0;
    bool is_last_batch = false;
    *loss = 0;
    if (th_windows_go_to(windows, (th_windows_position){0}))
        return th_error_code(t->ctx);
    while (!is_last_batch && (batches_done < max_batches || batches == 0)) {
        if (next_batch(t, windows) || evaluate_batch(t, loss))
            return th_error_code(t->ctx);
        targets += count_targets(t);
        batches_done++;
        is_last_batch = th_windows_where(windows).index == th_windows_count(windows);
    }
    *loss /= (double)(targets > 0 ? targets : 1);
    return TH_OK;
}

/* Lists the named numbers that a checkpoint contains besides model and optimizer. Returns how many. */
enum { NUMBERS = 4, PLATEAU_NUMBERS = 5 };
static int list_numbers(trainer *t, th_checkpoint_number *list)
{
    list[0] = (th_checkpoint_number){.name = "epoch", .integer = &t->next.epoch};
    list[1] = (th_checkpoint_number){.name = "window", .integer = &t->next.index};
    list[2] = (th_checkpoint_number){.name = "best", .real = &t->best};
    list[3] = (th_checkpoint_number){.name = "worse", .integer = &t->evaluations_since_best};
    if (!has_plateau_schedule())
        return NUMBERS;
    list[4] = (th_checkpoint_number){.name = "plateau measurements", .integer = &t->plateau.measurements};
    list[5] = (th_checkpoint_number){.name = "plateau bad", .integer = &t->plateau.bad};
    list[6] = (th_checkpoint_number){.name = "plateau cooldown", .integer = &t->plateau.cooldown};
    list[7] = (th_checkpoint_number){.name = "plateau best", .real = &t->plateau.best};
    list[8] = (th_checkpoint_number){.name = "plateau rate", .real = &t->plateau.rate};
    return NUMBERS + PLATEAU_NUMBERS;
}

/* Saves a checkpoint with the complete state of training, which all processes do together, or with the weights only. */
static th_status save_checkpoint(trainer *t, const char *name, bool everything)
{
    th_checkpoint_number numbers[NUMBERS + PLATEAU_NUMBERS];
    char *text = settings_to_json();
    const th_checkpoint checkpoint = {.model = t->model,
                                      .optimizer = everything ? t->optimizer : NULL,
                                      .average = everything ? t->average : NULL,
                                      .configuration = text,
                                      .numbers = numbers,
                                      .n_numbers = list_numbers(t, numbers),
                                      .without_frozen = chosen.lora > 0};
    t->next = th_windows_where(t->training);
    const th_status status = th_checkpoint_save(path_in(t->run, name), &checkpoint);
    free(text);
    return status;
}

/* Saves the complete state as the newest checkpoint. */
static th_status save_newest_checkpoint(trainer *t)
{
    if (save_checkpoint(t, NEXT_CHECKPOINT, true))
        return th_error_code(t->ctx);
    if (is_first_process(t))
        rotate_checkpoints(t->run, chosen.keep);
    return TH_OK;
}

/* Ends the program if a number of a checkpoint is out of range. (th_windows_go_to checks the position of the
 * windows.) */
static void check_numbers(const trainer *t, const char *name)
{
    const struct {
        const char *name;
        int64_t value, max;
    } counts[] = {{"step", th_step(t->ctx), 1000000000},
                  {"worse", t->evaluations_since_best, 1000000000},
                  {"plateau measurements", t->plateau.measurements, 1000000000},
                  {"plateau bad", t->plateau.bad, 1000000000},
                  {"plateau cooldown", t->plateau.cooldown, 1000000000}};
    char problem[400];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value < 0 || counts[i].value > counts[i].max) {
            snprintf(problem, sizeof problem, "%.200s: \"%s\" is %lld; it must be 0 to %lld", path_in(t->run, name),
                     counts[i].name, (long long)counts[i].value, (long long)counts[i].max);
            give_up(PROGRAM, problem);
        }
    if (!(t->plateau.rate >= 0 && t->plateau.rate <= chosen.lr) || isnan(t->plateau.best)) {
        snprintf(problem, sizeof problem,
                 "%.200s: \"plateau rate\" is %g and \"plateau best\" is %g; the rate must be 0 to %g, and the other a "
                 "number",
                 path_in(t->run, name), t->plateau.rate, t->plateau.best, chosen.lr);
        give_up(PROGRAM, problem);
    }
    if (isnan(t->best) || t->best < 0) {
        snprintf(problem, sizeof problem, "%.200s: \"best\" is %g; it must be 0 or more", path_in(t->run, name),
                 t->best);
        give_up(PROGRAM, problem);
    }
}

th_status load_checkpoint(trainer *t, const char *name)
{
    th_checkpoint_number numbers[NUMBERS + PLATEAU_NUMBERS];
    const th_checkpoint checkpoint = {.model = t->model,
                                      .optimizer = t->optimizer,
                                      .average = t->average,
                                      .numbers = numbers,
                                      .n_numbers = list_numbers(t, numbers)};
    if (th_checkpoint_load(path_in(t->run, name), &checkpoint))
        return th_error_code(t->ctx);
    check_numbers(t, name);
    return th_windows_go_to(t->training, t->next);
}

/* Reports an evaluation, saves the model if it is the best so far, and generates a sample. */
static th_status report_model(trainer *t, double loss, bool best)
{
    if (report_evaluation(&t->report, t->run, th_step(t->ctx), loss) ||
        (best && save_checkpoint(t, "best.safetensors", false)))
        return th_error_code(t->ctx);
    return report_sample(&t->report, t->run, th_step(t->ctx), t->model, t->tokenizer);
}

/* Reduces the learning rate if the schedule asks for it. */
static void note_measurement(trainer *t, double loss)
{
    const th_plateau_schedule schedule = plateau_schedule();
    const double before = t->plateau.rate;
    if (!has_plateau_schedule())
        return;
    const double rate = th_schedule_plateau(loss, &schedule, &t->plateau);
    if (before > 0 && rate < before)
        th_progress_note(t->report.bar, "step %lld  learning rate %g", (long long)th_step(t->ctx), rate);
}

/* Evaluates the model, with the averages of its weights if there are any, and saves a checkpoint. Every process computes
 * the same loss, so that all take the same decisions. The first one reports it. */
static th_status evaluate_and_save(trainer *t)
{
    double loss;
    report_pause(&t->report);
    const bool evaluated = swap_average(t) == TH_OK && evaluate(t, t->validation, chosen.eval_batches, &loss) == TH_OK;
    const bool best = evaluated && loss < t->best;
    if (evaluated && chosen.marked && th_step(t->ctx) == 0 && is_first_process(t))
        print_initial_loss(t, loss);
    if (evaluated)
        t->evaluations_since_best = best ? 0 : t->evaluations_since_best + 1;
    if (evaluated)
        note_measurement(t, loss);
    if (best)
        t->best = loss;
    if (evaluated && is_first_process(t))
        (void)report_model(t, loss, best);
    (void)swap_average(t); /* after an error it does nothing, and the save reports the error */
    if (save_newest_checkpoint(t))
        return th_error_code(t->ctx);
    report_resume(&t->report);
    return TH_OK;
}

static bool is_out_of_patience(const trainer *t)
{
    return chosen.patience > 0 && t->evaluations_since_best >= chosen.patience;
}

static bool is_finished(const trainer *t)
{
    return th_step(t->ctx) >= chosen.steps || is_out_of_patience(t);
}

static bool is_time_to_evaluate(const trainer *t)
{
    return th_step(t->ctx) % chosen.eval_every == 0 || th_step(t->ctx) == chosen.steps;
}

/* Returns whether training ends now because a signal arrived. With local steps, training ends only after an outer step,
 * because a checkpoint cannot be saved between outer steps. */
static bool must_stop(const trainer *t)
{
    const bool signal_arrived = should_stop_training(t->group, interrupted);
    return signal_arrived && (chosen.local_steps == 0 || th_step(t->ctx) % chosen.local_steps == 0);
}

/* Runs steps and evaluations to the end of training, or until the end of the step in which a signal arrives. An error
 * that only the first process has, such as a full disk, becomes an error of all with the next step or checkpoint. */
static th_status train_until_finished(trainer *t)
{
    while (!must_stop(t) && !is_finished(t)) {
        if (train_step(t))
            return th_error_code(t->ctx);
        if (is_first_process(t))
            (void)report_step(&t->report, t->optimizer);
        if (is_time_to_evaluate(t) && evaluate_and_save(t))
            return th_error_code(t->ctx);
    }
    t->stopped = th_group_stop_requested(t->group);
    return t->stopped ? save_newest_checkpoint(t) : TH_OK;
}

/* -- a training run -- */

void open_windows(trainer *t, const char *name)
{
    th_token_file *file = th_token_file_open(t->ctx, path_in(t->run, name), NULL);
    if (file && th_token_file_vocabulary(file) != th_tokenizer_size(t->tokenizer))
        give_up(PROGRAM, "text.tokens was not made with the run's tokenizer");
    th_windows_options options = {.end = chosen.training_tokens,
                                  .length = chosen.length,
                                  .shuffle = true,
                                  .seed = (uint64_t)chosen.seed,
                                  .pack = chosen.marked};
    t->training = th_windows_new(file, &options);
    options.begin = chosen.training_tokens;
    options.end = 0;
    const int64_t held_out = th_token_file_count(file) - options.begin;
    options.shuffle = chosen.eval_batches > 0 && held_out / chosen.length > chosen.eval_batches * chosen.batch;
    t->validation = th_windows_new(file, &options);
    th_token_file_close(file); /* the windows keep it open */
    require_no_error(t);
}

static void on_interrupt(int signal_number)
{
    interrupted = signal_number;
    signal(signal_number, end_at_signal); /* a second signal ends the program at once */
}

/* A terminal that is closed may send this signal twice. */
static void on_hang_up(int signal_number)
{
    interrupted = signal_number;
}

/* Prints the result of training, and the loss on the whole validation text. The model then has its averages. */
static void print_training_result(trainer *t, double seconds)
{
    require_ok(t, swap_average(t));
    if (t->average)
        fprintf(stderr, PROGRAM ": evaluations, samples and best.safetensors use averaged weights (--average %g)\n",
                chosen.average);
    if (is_out_of_patience(t) && th_step(t->ctx) < chosen.steps)
        fprintf(stderr, PROGRAM ": stopped early: the last %lld evaluations did not improve on an earlier one\n",
                (long long)t->evaluations_since_best);
    printf(PROGRAM ": %ssteps=%lld seconds=%.2f best=%.4f memory=%zu parameters=%lld parameters_crc32c=%08x\n",
           spell_precision(th_precision_of(t->ctx)), (long long)th_step(t->ctx), seconds, t->best,
           th_memory(t->ctx).peak, (long long)th_module_count(t->model), (unsigned)th_module_crc32c(t->model));
    require_ok(t, print_loss(t, path_in(t->run, "text.tokens"), chosen.training_tokens));
    require_ok(t, report_progress(t->ctx, t->run));
}

/* Prints the files that the run wrote, and the next command. */
static void print_files(const trainer *t)
{
    const char *const resume_words[] = {"resume", as_word(t->run), NULL};
    const char *const sample_words[] = {chosen.marked ? "chat" : "sample", as_word(t->run), NULL};
    print_written(path_in(t->run, "curves.svg"));
    print_written(path_in(t->run, "best.safetensors"));
    print_written(path_in(t->run, NEWEST_CHECKPOINT));
    print_next(program_path, PROGRAM, t->stopped ? resume_words : sample_words);
}

/* Closes the logs and prints the result of training, or where it stopped. */
static void print_result(trainer *t)
{
    double seconds;
    require_ok(t, report_close(&t->report, &seconds));
    if (t->stopped)
        fprintf(stderr, PROGRAM ": stopped and saved at step %lld\n", (long long)th_step(t->ctx));
    else if (chosen.marked) { /* the last line tells what was gained */
        print_files(t);
        print_training_result(t, seconds);
        return;
    } else
        print_training_result(t, seconds);
    print_files(t);
}

/* (After a signal to another process, this process ends with success. mpirun then returns the status of the other
 * process.) */
int run_training(trainer *t, bool resume)
{
    catch_signals(on_interrupt);
    signal(SIGTERM, on_interrupt);
    if (signal(SIGHUP, on_hang_up) == SIG_IGN) /* of nohup, for example */
        signal(SIGHUP, SIG_IGN);
    if (is_first_process(t)) {
        sigset_t old_signals;
        block_signals(&old_signals);
        (void)report_open(&t->report, t->ctx, t->run, resume, th_step(t->ctx), t->quiet);
        note_event_log(t->run);
        restore_signals(&old_signals);
        read_question(t, &t->report.question, &t->report.answer_end);
    }
    if (resume || evaluate_and_save(t) == TH_OK) {
        keep_run_files();
        (void)train_until_finished(t);
    }
    agree_on_errors(t);
    if (is_first_process(t))
        print_result(t);
    return t->stopped && interrupted ? 128 + interrupted : EXIT_SUCCESS;
}

/* -- measuring memory and time -- */

th_status run_trial_evaluation(trainer *t)
{
    double loss = 0;
    return evaluate_batch(t, &loss);
}

th_status run_trial_step(trainer *t)
{
    for (th_shard shard = th_optimizer_shards(t->optimizer); th_shard_next(&shard);)
        for (int64_t i = 0; i < chosen.accumulate; i++)
            if (add_batch(t, &shard.loss))
                return th_error_code(t->ctx);
    return th_optimizer_step(t->optimizer) ? th_error_code(t->ctx) : update_average(t);
}

th_status run_trial_sample(trainer *t)
{
    const th_generate_options options = {.prompts = th_zeros(t->ctx, TH_INT32, TH_SHAPE(1, 1)),
                                         .max_new_tokens = chosen.sample_tokens,
                                         .temperature = chosen.temperature,
                                         .slide = true};
    return chosen.sample_tokens > 0 ? th_generate(t->model, &options, NULL) : TH_OK;
}

th_status run_memory_trial(trainer *t, bool evaluate_only)
{
    if (run_trial_evaluation(t) || evaluate_only || run_trial_step(t))
        return th_error_code(t->ctx);
    return run_trial_sample(t);
}

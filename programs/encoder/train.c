/* The subcommands train and resume. */
#include <errno.h>
#include <string.h>

#include "encoder/encoder.h"
#include "shared/system.h"

typedef struct trainer {
    encoder e;
    th_text_examples data, validation_data; /* validation_data is empty if a share of data is for validation */
    int64_t *order, *validation_order;      /* of data and validation_data; NULL: none */
    selection training, validation;
    th_batches batches; /* of the examples for training */
    int64_t *rows;      /* [batch] of the present batch */
    int64_t steps;      /* of the whole run */
    int64_t examples;   /* for training; a checkpoint has their number */
    double best;
    double step_seconds; /* of this process's steps, without evaluations and checkpoints */
    th_optimizer *optimizer;
    th_json_log *log;
    th_event_log *events;
    th_progress *bar;
    const char *words; /* of the command line */
} trainer;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    interrupted = signal_number;
    signal(signal_number, SIG_DFL); /* a second signal ends the program at once */
}

/* -- the run -- */

static void create_run(const char *run)
{
    const bool exists = access(path_in(run, NEWEST_CHECKPOINT), F_OK) == 0;
    if (exists && !chosen.force)
        refuse(PROGRAM, "there is a run already (resume it, or --force replaces it): ", run);
    create_folder(run);
    lock_run(run);
    create_folder(path_in(run, "model"));
}

static void open_logs(trainer *t, bool resuming)
{
    const th_log_options options = {.resume = resuming, .step = th_step(t->e.ctx)};
    const th_progress_options line = {stderr, .steps = t->steps, .begin = th_step(t->e.ctx), .unit = "examples",
                                      .units_per_step = chosen.batch};
    t->log = th_json_log_open(t->e.ctx, path_in(chosen.run, "log.jsonl"), &options);
    t->events = th_event_log_open(t->e.ctx, chosen.run, &options);
    t->bar = chosen.quiet ? NULL : th_progress_new(t->e.ctx, &line);
    require_no_error(t->e.ctx);
    note_precision_time(t->e.ctx, t->bar);
}

static void write_log(trainer *t, const th_log_field *fields, int count)
{
    require_ok(t->e.ctx, th_json_log_write(t->log, th_step(t->e.ctx), fields, count));
    require_ok(t->e.ctx, th_event_log_write(t->events, th_step(t->e.ctx), fields, count));
}

enum { NUMBERS = 4 };
static void list_numbers(trainer *t, th_checkpoint_number list[NUMBERS])
{
    list[0] = (th_checkpoint_number){.name = "epoch", .integer = &t->batches.epoch};
    list[1] = (th_checkpoint_number){.name = "index", .integer = &t->batches.index};
    list[2] = (th_checkpoint_number){.name = "best", .real = &t->best};
    list[3] = (th_checkpoint_number){.name = "examples", .integer = &t->examples};
}

static void save_checkpoint(trainer *t)
{
    th_checkpoint_number numbers[NUMBERS];
    const th_checkpoint checkpoint = {.model = t->e.trained,
                                      .optimizer = t->optimizer,
                                      .configuration = t->words,
                                      .numbers = numbers,
                                      .n_numbers = NUMBERS};
    list_numbers(t, numbers);
    require_ok(t->e.ctx, th_checkpoint_save(path_in(chosen.run, NEWEST_CHECKPOINT), &checkpoint));
}

static void load_checkpoint(trainer *t)
{
    th_checkpoint_number numbers[NUMBERS];
    const th_checkpoint checkpoint = {
        .model = t->e.trained, .optimizer = t->optimizer, .numbers = numbers, .n_numbers = NUMBERS};
    list_numbers(t, numbers);
    require_ok(t->e.ctx, th_checkpoint_load(path_in(chosen.run, NEWEST_CHECKPOINT), &checkpoint));
    if (t->examples == t->training.count)
        return;
    fprintf(stderr, PROGRAM ": the run was started with %lld examples for training, and %s has %lld now\n",
            (long long)t->examples, chosen.data, (long long)t->training.count);
    exit(EXIT_FAILURE);
}

/* -- examples, model and optimizer -- */

/* Divides the examples into those for training and those for validation. Files are often sorted by their labels, so the seed
 * chooses the share for validation; with --in-order the last examples are for validation. */
static void divide_data(trainer *t)
{
    const int64_t n = t->data.count, n_file = t->validation_data.count;
    const int64_t share = n_file > 0 ? 0 : (int64_t)(chosen.validation * (double)n);
    t->order = order_rows(n, !chosen.in_order, (uint64_t)chosen.seed);
    t->training = (selection){&t->data, t->order, n - share};
    t->validation = (selection){&t->data, t->order + n - share, share};
    if (n_file > 0) {
        t->validation_order = order_rows(n_file, false, 0);
        t->validation = (selection){&t->validation_data, t->validation_order, n_file};
    }
}

static void open_data(trainer *t)
{
    th_text_example_options options = example_options(t->e.task, NULL);
    read_examples(t->e.ctx, chosen.data, &options, &t->data);
    if (chosen.validation_file) {
        options.label_names = t->data.label_names;
        options.n_labels = t->data.n_labels;
        read_examples(t->e.ctx, chosen.validation_file, &options, &t->validation_data);
    }
    divide_data(t);
}

static bool is_vector(const char *name, th_tensor *parameter, void *user)
{
    (void)name;
    (void)user;
    return th_ndim(parameter) < 2;
}

static void make_optimizer(trainer *t)
{
    static const th_parameter_group vectors = {.takes = is_vector, .no_weight_decay = true};
    t->optimizer = th_adam_w_new(t->e.trained, &(th_adam_options){.learning_rate = chosen.lr,
                                                                  .weight_decay = chosen.weight_decay,
                                                                  .max_norm = chosen.clip,
                                                                  .groups = &vectors,
                                                                  .n_groups = 1});
    require_no_error(t->e.ctx);
    const int64_t steps_in_epoch = (t->training.count + chosen.batch - 1) / chosen.batch;
    t->steps = chosen.epochs * steps_in_epoch;
    t->batches = (th_batches){
        .count = t->training.count, .batch = chosen.batch, .shuffle = !chosen.in_order, .seed = (uint64_t)chosen.seed};
    t->examples = t->training.count;
    t->rows = malloc((size_t)chosen.batch * sizeof *t->rows);
    if (t->rows == NULL)
        give_up(PROGRAM, "out of memory");
}

/* -- steps -- */

static selection next_examples(trainer *t)
{
    const int64_t count = th_batches_next(&t->batches, t->rows);
    if (count == 0)
        give_up(PROGRAM, "the checkpoint belongs to other examples");
    for (int64_t i = 0; i < count; i++)
        t->rows[i] = t->training.rows[t->rows[i]];
    return (selection){&t->data, t->rows, count};
}

static double train_step(trainer *t)
{
    const th_linear_schedule schedule = {
        .peak = chosen.lr, .warmup_steps = (int64_t)(chosen.warmup * (double)t->steps), .total_steps = t->steps};
    const selection examples = next_examples(t);
    require_ok(t->e.ctx,
               th_optimizer_set_learning_rate(t->optimizer, th_schedule_linear(th_step(t->e.ctx), &schedule)));
    th_tensor *loss = compute_loss(&t->e, &examples);
    const double value = th_item(loss);
    require_ok(t->e.ctx, th_backward(loss, NULL));
    require_ok(t->e.ctx, th_optimizer_step(t->optimizer));
    th_tape_clear(t->e.ctx);
    return value;
}

static void report_step(trainer *t, double loss)
{
    const int64_t step = th_step(t->e.ctx);
    th_progress_update(t->bar, step - 1, loss);
    const th_log_field fields[] = {{"loss/train", loss, NULL},
                                   {"learning_rate", th_optimizer_learning_rate(t->optimizer), NULL},
                                   {"gradient_norm", th_optimizer_gradient_norm(t->optimizer), NULL}};
    if (step % chosen.log_every == 0 || step == 1)
        write_log(t, fields, 3);
}

/* -- evaluations -- */

static void draw_curves(const trainer *t, const evaluation *last)
{
    char name[64];
    const char *log = path_in(chosen.run, "log.jsonl");
    const char *names[3] = {"loss/train", "learning_rate", name};
    const char *const titles[] = {"Training loss", "Learning rate", last->measure[0].name};
    const int wanted = last->measures > 0 ? 3 : 2;
    th_tensor *series[3] = {NULL};
    th_curve curves[3];
    th_panel panels[3];
    int count = 0;
    if (last->measures > 0)
        snprintf(name, sizeof name, "validation/%s", last->measure[0].name);
    for (int i = 0; i < wanted; i++) {
        series[i] = th_json_log_series(t->e.ctx, log, names[i]);
        const int64_t points = series[i] ? th_size(series[i], 1) : 0;
        const double *number = points > 0 ? th_data_const(series[i]) : NULL;
        curves[i] = (th_curve){.count = points, .x = number, .y = number ? number + points : NULL};
        if (points > 0)
            panels[count++] = (th_panel){&curves[i], 1, {.title = titles[i], .x_label = "step"}};
    }
    if (count > 0)
        require_ok(t->e.ctx, th_picture_panels(t->e.ctx, path_in(chosen.run, "curves.svg"), panels, count, chosen.run));
    for (int i = 0; i < 3; i++)
        th_tensor_free(series[i]);
}

/* Measures the model, and saves it if it is the best so far. Without examples for validation the newest is the best. */
static void evaluate_and_save(trainer *t)
{
    evaluation result = {.loss = NAN};
    bool best = true;
    if (t->validation.count > 0) {
        th_log_field fields[MAX_MEASURES + 1];
        char names[MAX_MEASURES][64];
        require_ok(t->e.ctx,
                   evaluate(&t->e, &t->validation, chosen.batch, path_in(chosen.run, "confusion.svg"), &result));
        int count = 0;
        if (!isnan(result.loss))
            fields[count++] = (th_log_field){"loss/validation", result.loss, NULL};
        for (int i = 0; i < result.measures; i++) {
            snprintf(names[i], sizeof names[i], "validation/%s", result.measure[i].name);
            fields[count++] = (th_log_field){names[i], result.measure[i].value, NULL};
        }
        write_log(t, fields, count);
        th_progress_note(t->bar, "step %lld  %s %.4f", (long long)th_step(t->e.ctx), result.measure[0].name,
                         result.measure[0].value);
        const double value =
            result.measure[0].value; /* NaN: the correlation of a constant, or a model without numbers */
        best = isnan(value) ? !isfinite(t->best) : !(value <= t->best);
    }
    draw_curves(t, &result);
    if (best) {
        t->best = t->validation.count > 0 ? result.measure[0].value : t->best;
        save_encoder(&t->e, path_in(chosen.run, "model"), TH_FLOAT32);
        require_ok(t->e.ctx, draw_attention(&t->e, t->validation.count > 0 ? &t->validation : &t->training,
                                            path_in(chosen.run, "attention.svg")));
    }
    save_checkpoint(t);
}

/* -- the subcommands -- */

static void train_until_finished(trainer *t)
{
    while (!interrupted && th_step(t->e.ctx) < t->steps) {
        const double begin = monotonic_seconds(), loss = train_step(t);
        t->step_seconds += monotonic_seconds() - begin;
        report_step(t, loss);
        if (t->batches.index == 0)
            evaluate_and_save(t);
    }
    if (interrupted)
        save_checkpoint(t);
}

static void print_result(trainer *t, double seconds)
{
    const char *name = model_folder(chosen.run);
    require_ok(t->e.ctx, th_progress_end(t->bar));
    th_event_log_close(t->events);
    th_json_log_close(t->log);
    if (interrupted) {
        fprintf(stderr, PROGRAM ": stopped and saved at step %lld\n", (long long)th_step(t->e.ctx));
        print_next(program_path, PROGRAM, (const char *const[]){"resume", as_word(chosen.run), NULL});
        return;
    }
    printf(PROGRAM ": steps=%lld seconds=%.2f step_seconds=%.2f", (long long)th_step(t->e.ctx), seconds,
           t->step_seconds);
    if (isfinite(t->best))
        printf(" best=%.4f", t->best);
    printf(" parameters=%lld\n", (long long)th_module_count(t->e.trained));
    print_written(path_in(name, "model.safetensors"));
    print_written(path_in(chosen.run, "curves.svg"));
    print_next(program_path, PROGRAM,
               t->e.task == TASK_SPANS
                   ? (const char *const[]){"predict", as_word(chosen.run), "LINES_OF_QUESTION_TAB_TEXT", NULL}
               : t->e.task == TASK_EMBED ? (const char *const[]){"search", as_word(chosen.run), "FILE", "a query", NULL}
                                         : (const char *const[]){"predict", as_word(chosen.run), "a new text", NULL});
}

static int run_training(trainer *t, bool resuming)
{
    const double begin = monotonic_seconds();
    t->e.task = parse_task(chosen.task);
    t->best = -INFINITY;
    t->e.ctx = th_context_new(&(th_context_options){.seed = (uint64_t)chosen.seed,
                                                    .threads = (int)chosen.threads,
                                                    .precision = parse_precision(PROGRAM, chosen.precision)});
    require_no_error(t->e.ctx);
    open_data(t);
    open_pretrained(&t->e, &t->data);
    check_training_examples(&t->e, &t->data, &t->validation_data);
    if (resuming)
        lock_run(chosen.run);
    else
        create_run(chosen.run);
    make_optimizer(t);
    if (resuming)
        load_checkpoint(t);
    open_logs(t, resuming);
    th_set_training(t->e.ctx, true);
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    train_until_finished(t);
    print_result(t, monotonic_seconds() - begin);
    th_text_examples_free(&t->data);
    th_text_examples_free(&t->validation_data);
    free(t->order);
    free(t->validation_order);
    free(t->rows);
    th_context_free(t->e.ctx);
    return interrupted ? 128 + interrupted : EXIT_SUCCESS;
}

int train(int argc, char **argv)
{
    static trainer t;
    t.words = settings_to_text(argc, argv);
    read_settings(argc, argv);
    return run_training(&t, false);
}

int resume(int argc, char **argv)
{
    static trainer t;
    const char *run = NULL;
    bool quiet = false;
    const program_option options[] = {{"quiet", "no progress line", .flag = &quiet}, {0}};
    if (parse_options_and_words(argc, argv, PROGRAM,
                                "encoder resume RUN\nContinues a stopped run, with the same result.", options, &run,
                                1) < 1)
        refuse(PROGRAM, "resume needs the folder of a run", "");
    if (access(path_in(run, NEWEST_CHECKPOINT), F_OK) != 0)
        give_up_file(path_in(run, NEWEST_CHECKPOINT), "read, so there is nothing to continue");
    th_context *ctx = th_context_new(NULL);
    char *text = th_checkpoint_configuration(ctx, path_in(run, NEWEST_CHECKPOINT));
    require_no_error(ctx);
    t.words = strdup(text);
    settings_from_text(strdup(text));
    th_context_free(ctx);
    chosen.run = run;
    chosen.quiet = chosen.quiet || quiet;
    return run_training(&t, true);
}

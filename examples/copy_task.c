/* The copy task: a model reads a random sequence and a separator, and must write the sequence again, one symbol at a
 * time under a causal mask. Only one multi-head attention layer mixes positions.
 *
 *     reads    C O P Y | C O P
 *     writes           C O P Y        (its output before the separator does not count)
 *
 * The model is in copy_task/model.h. B batch, n length of a sequence, T = 2n tokens, V vocabulary with the separator,
 * E width, H heads. */
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tapehead/tapehead.h>

#include "copy_task/model.h"
#include "options.h"
#include "precision.h"
#include "processes.h"

static int64_t seed = 1, steps = 400, batch = 32, shards = 1, threads = 0;
static int64_t length = 16, vocab = 26, width = 64, heads = 4;
static double lr = 5e-3, dropout = 0.1;
static const char *out = ".", *precision = "float32", *page;
static bool no_attention, quiet;
static char loss_picture[4096], attention_picture[4096];
static volatile sig_atomic_t interrupted;

/* What each process has besides the model. */
typedef struct {
    th_tensor *separator; /* (1, 1) */
    th_tensor *sample;    /* (1, n): the sequence that the program prints */
} task;

/* -- the program -- */

static const program_option options[] = {
    {"seed", "of all random numbers", .integer = &seed, .low = 0, .high = 1e15},
    {"steps", "of training", .integer = &steps, .low = 1, .high = 1e7},
    {"batch", "sequences in a step", .integer = &batch, .low = 1, .high = 4096},
    {"shards", SHARDS_HELP, .integer = &shards, .low = 1, .high = 4096},
    {"length", "symbols in a sequence", .integer = &length, .low = 1, .high = COPY_MAX_LENGTH},
    {"vocab", "different symbols", .integer = &vocab, .low = 2, .high = 62},
    {"width", "of the model", .integer = &width, .low = 1, .high = 4096},
    {"heads", "of attention; they divide the width", .integer = &heads, .low = 1, .high = 32},
    {"lr", "the highest learning rate", .real = &lr, .low = 1e-12, .high = 1e30},
    {"dropout", "on the attention weights", .real = &dropout, .low = 0, .high = 0.99},
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"precision", PRECISION_HELP, .text = &precision},
    {"out", "directory for the pictures", .text = &out},
    {"page", "file for a page (HTML) that shows a training step of one sequence, node by node", .text = &page},
    {"no-attention", "without the attention layer, to see that it is needed", .flag = &no_attention},
    {"quiet", "one line of output only", .flag = &quiet},
    {0},
};

static void on_interrupt(int signal_number)
{
    interrupted = signal_number;
}

/* Draws the loss, and the attention weights of every head. */
static th_status draw_pictures(th_context *ctx, copy_model *m, const th_curve *loss, th_tensor *tokens, th_tensor *y)
{
    char reads[2 * COPY_MAX_LENGTH + 1], writes[2 * COPY_MAX_LENGTH + 1];
    const th_chart_options chart = {"Copy task: loss", .x_label = "step", .y_label = "cross entropy"};
    if (th_picture_curves(ctx, loss_picture, loss, 1, &chart) || no_attention)
        return th_error_code(ctx);
    th_tensor *h = embed(m, tokens), *weights = NULL; /* (1, H, T, T) */
    th_attend(m->attention, h, h, h, &(th_attend_options){.mask = &copy_causal, .weights = &weights});
    th_heatmap_options map = {"Where each symbol was looked up", "writes", "reads",
                              .row_letters = spell(y, vocab, writes)};
    map.column_letters = spell(tokens, vocab, reads);
    weights = th_slice(th_select(weights, 0, 0), 1, length, 2 * length, 1); /* (H, n, T): from the separator on */
    return th_picture_heatmaps(weights, attention_picture, &map);
}

/* Creates the directory and the paths of the pictures. Ends the program if it cannot write to the directory. */
static void name_pictures(void)
{
    mkdir(out, 0777);
    const int length_of_loss = snprintf(loss_picture, sizeof loss_picture, "%s/copy_loss.svg", out);
    const int length_of_map = snprintf(attention_picture, sizeof attention_picture, "%s/copy_attention.svg", out);
    if (access(out, W_OK | X_OK) != 0 || length_of_loss >= (int)sizeof loss_picture ||
        length_of_map >= (int)sizeof attention_picture)
        refuse("copy_task", "--out takes a directory that can be written, not ", out);
}

/* Runs forward and backward on a shard's sequences, which are random numbers of the shard. */
static th_status run_shard(th_module *model, th_tensor *separator, th_shard *shard, th_progress *bar)
{
    th_context *ctx = model->ctx;
    th_tensor *x = th_random_integers(ctx, TH_INT32, TH_SHAPE(batch / shards, length), 0, vocab);
    th_tensor *logits, *loss = copy_loss(model, x, separator, &logits);
    if (th_backward(loss, NULL))
        return th_error_code(ctx);
    shard->loss = th_item(loss);
    if (th_step(ctx) % 10 == 0 && shard->index == 0)
        th_progress_show(bar, "accuracy", accuracy(x, th_argmax(logits, -1), false));
    th_tensor_free(x);
    th_tape_clear(ctx);
    return TH_OK;
}

/* Trains until the last step or a signal. Returns the number of steps, whose losses it writes to `losses`. Errors stay
 * in the context. The first of several processes prints the progress. */
static int64_t train(th_module *model, th_optimizer *adam, th_group *group, const task *t, double *losses)
{
    th_context *ctx = model->ctx;
    const bool prints = !quiet && th_group_rank(group) == 0;
    const th_progress_options line = {stderr, .steps = steps, .units_per_step = batch * 2 * length, .unit = "tokens"};
    th_progress *bar = prints ? th_progress_new(ctx, &line) : NULL;
    note_precision_time(ctx, bar);
    char source_text[2 * COPY_MAX_LENGTH + 1], written[2 * COPY_MAX_LENGTH + 1];
    int64_t step = 0;
    for (int64_t next = 0; step < steps && !should_stop_training(group, interrupted); step++) {
        if (step == next && prints) { /* 0, 10, 30, 100, 300, ... */
            spell(decode(model, t->sample, t->separator), vocab, written);
            th_progress_note(bar, "step %4d   reads %s   writes %s", (int)step, spell(t->sample, vocab, source_text),
                             written);
            next = step == 0 ? 10 : step % 3 ? 3 * step : step / 3 * 10;
        }
        th_optimizer_set_learning_rate(adam, th_schedule_cosine(step, &(th_cosine_schedule){lr, 20, steps, 0}));
        for (th_shard shard = th_optimizer_shards(adam); th_shard_next(&shard);)
            if (run_shard(model, t->separator, &shard, bar))
                break;
        if (th_optimizer_step(adam))
            break;
        losses[step] = th_optimizer_loss(adam);
        th_progress_update(bar, step, losses[step]);
    }
    th_progress_end(bar);
    return step;
}

/* Measures the model on fresh sequences, draws the pictures and prints the result. */
static th_status report(th_module *model, const task *t, const th_curve *loss)
{
    th_context *ctx = model->ctx;
    char source_text[2 * COPY_MAX_LENGTH + 1], written[2 * COPY_MAX_LENGTH + 1];
    double symbols = 0, sequences = 0;
    for (int round = 0; round < 10; round++) {
        th_tensor *fresh = th_random_integers(ctx, TH_INT32, TH_SHAPE(100, length), 0, vocab);
        th_tensor *copies = decode(model, fresh, t->separator);
        symbols += accuracy(fresh, copies, false) / 10;
        sequences += accuracy(fresh, copies, true) / 10;
        th_tape_clear(ctx);
    }
    th_tensor *y = decode(model, t->sample, t->separator),
              *tokens = join_tokens(t->sample, t->separator, y, length - 1);
    if (draw_pictures(ctx, (copy_model *)model, loss, tokens, y))
        return th_error_code(ctx);
    if (!quiet)
        printf("1000 fresh sequences: %.2f %% of symbols and %.2f %% of whole sequences are right\nin   %s\nout  %s\n",
               100 * symbols, 100 * sequences, spell(t->sample, vocab, source_text), spell(y, vocab, written));
    printf("copy_task: %sseed=%lld steps=%lld symbol_accuracy=%.4f sequence_accuracy=%.4f ",
           spell_precision(th_precision_of(ctx)), (long long)seed, (long long)loss->count, symbols, sequences);
    printf("loss=%.6f parameters_crc32c=%08x\n", loss->count ? loss->y[loss->count - 1] : NAN,
           (unsigned)th_module_crc32c(model));
    return th_error_code(ctx);
}

/* Runs forward and backward on one sequence, and writes the tape as a page. */
static th_status write_page(th_module *model, const task *t)
{
    th_context *ctx = model->ctx;
    char reads[2 * COPY_MAX_LENGTH + 1], letter[2 * COPY_MAX_LENGTH][2];
    const char *tokens[2 * COPY_MAX_LENGTH];
    th_tape_clear(ctx);
    th_keep_values(ctx, true);
    th_tensor *source_text = th_set_name(join_tokens(t->sample, t->separator, t->sample, length - 1), "tokens");
    th_tensor *logits = th_slice(th_module_forward(model, source_text), 1, length, 2 * length, 1);
    th_set_name(t->sample, "targets");
    spell(source_text, vocab, reads);
    for (int64_t i = 0; i < 2 * length; i++) {
        snprintf(letter[i], sizeof letter[i], "%c", reads[i]);
        tokens[i] = letter[i];
    }
    const th_html_options shown = {
        .title = "A training step of the copy task", .tokens = tokens, .n_tokens = (int)(2 * length)};
    th_tensor *loss = th_set_name(th_cross_entropy(logits, t->sample, NULL), "loss");
    if (th_backward(loss, NULL))
        return th_error_code(ctx);
    return th_tape_write_html(ctx, page, &shown);
}

static void print_files(const char *argv0)
{
    print_written(loss_picture);
    if (page)
        print_written(page);
    if (!no_attention)
        print_written(attention_picture);
    print_next(argv0, "copy_task",
               no_attention ? (const char *const[]){"--length", "24", "--out", "copy_24", NULL}
                            : (const char *const[]){"--no-attention", "--out", "copy_without_attention", NULL});
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, "copy_task", "copy_task: one attention layer learns to copy", options);
    if (width % heads)
        refuse("copy_task", "--heads must divide --width", "");
    check_shards("copy_task", shards, batch);
    const th_context_options settings = {
        .seed = (uint64_t)seed, .threads = (int)threads, .precision = parse_precision("copy_task", precision)};
    if (started_rank() < 1)
        name_pictures();
    catch_signals(on_interrupt);
    start_processes(&argc, &argv);
    th_context *ctx = th_context_new(&settings);
    th_group *group = join_processes("copy_task", ctx);
    check_processes("copy_task", group, shards);
    (void)share_processors(ctx, threads);
    const copy_settings sizes = {length, vocab, width, heads, dropout, no_attention};
    th_module *model = copy_model_new(ctx, &sizes);
    note_int8("copy_task", model, "");
    const th_adam_options rates = {.learning_rate = lr, .shards = (int)shards, .group = group};
    th_optimizer *adam = th_adam_new(model, &rates);
    const task t = {.separator = th_full(ctx, TH_INT32, TH_SHAPE(1, 1), (double)vocab),
                    .sample = th_random_integers(ctx, TH_INT32, TH_SHAPE(1, length), 0, vocab)};
    double *losses = th_data(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(steps)));
    const bool first = th_group_rank(group) == 0;

    const th_curve loss = {.count = train(model, adam, group, &t, losses), .y = losses};
    if (first && report(model, &t, &loss) == TH_OK && page)
        (void)write_page(model, &t);
    if (th_group_agree(group))
        give_up_together("copy_task", ctx, th_error_message(ctx));
    th_context_free(ctx);
    finish_output("copy_task");
    if (first && !quiet)
        print_files(argv[0]);
    end_processes();
    return interrupted ? 130 : EXIT_SUCCESS;
}

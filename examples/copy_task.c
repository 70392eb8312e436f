/* The copy task: a model whose only mixing between positions is one multi-head attention layer reads a random sequence and a separator, and must write
 * the sequence again, one symbol at a time under a causal mask:
 *
 *     reads    C O P Y | C O P
 *     writes           C O P Y        (what it says before the separator does not count)
 *
 * It learns in about a second; --help says what can be changed.
 * B batch, n length of a sequence, T = 2n tokens read, V symbols and the separator, E width, H heads. */
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tapehead/tapehead.h>

enum { SEED, STEPS, BATCH, LENGTH, VOCAB, WIDTH, HEADS, THREADS, LR, DROPOUT, NUMBERS, OUT = NUMBERS, NO_ATTENTION, QUIET, HELP };
enum { MAX_LENGTH = 120, FRESH = 1000 };

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

static struct {
    const char *name, *meaning;
    double value, low, high;
} option[NUMBERS] = {
    [SEED] = {"seed", "of every random number", 1, 0, 1e15},
    [STEPS] = {"steps", "training steps", 400, 1, 1e7},
    [BATCH] = {"batch", "sequences in a step", 32, 1, 4096},
    [LENGTH] = {"length", "symbols in a sequence", 16, 1, MAX_LENGTH},
    [VOCAB] = {"vocab", "different symbols", 26, 2, 62},
    [WIDTH] = {"width", "of the model", 64, 1, 4096},
    [HEADS] = {"heads", "of attention, a divisor of the width", 4, 1, 32},
    [THREADS] = {"threads", "0: one for each processor", 0, 0, 1024},
    [LR] = {"lr", "highest learning rate", 5e-3, 1e-12, 1e3},
    [DROPOUT] = {"dropout", "on the attention weights", 0.1, 0, 0.99},
};
static const char *out = ".";
static bool no_attention, quiet;
static volatile sig_atomic_t interrupted;

static int64_t whole(int which)
{
    return (int64_t)option[which].value;
}

/* -- the model: embedding + learned positions, attention with a residual, dense to the vocabulary -- */

typedef struct {
    th_module base;
    th_module *embedding, *attention, *output;
    th_tensor *positions; /* (T, E) */
    th_tensor *weights;   /* (B, H, T, T), a copy of the last forward's while `watched` */
    bool watched;
} copy_model;

static th_tensor *copy_model_forward(th_module *base, th_tensor *tokens) /* (B, t) -> (B, t, V), t <= T */
{
    copy_model *m = (copy_model *)base;
    th_tensor *h = th_add(th_module_forward(m->embedding, tokens), th_slice(m->positions, 0, 0, th_size(tokens, 1), 1));
    if (m->attention) {
        th_tensor *weights = NULL;
        const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT};
        h = th_add(h, th_attend_with(m->attention, h, h, h, &(th_attend_options){.mask = &mask, .weights = m->watched ? &weights : NULL}));
        if (m->watched)
            m->weights = th_keep(weights);
    }
    return th_module_forward(m->output, h);
}

static th_module *copy_model_new(th_context *ctx)
{
    copy_model *m = th_module_new(ctx, sizeof *m, "copy_model", copy_model_forward);
    if (m == NULL)
        return NULL;
    const int64_t width = whole(WIDTH), tokens = whole(VOCAB) + 1;
    const th_multi_head_attention_options attention = {.dropout = option[DROPOUT].value};
    m->embedding = th_module_add(&m->base, "embedding", th_embedding_new(ctx, tokens, width));
    m->positions = th_module_add_parameter(&m->base, "positions", TH_SHAPE(2 * whole(LENGTH), width));
    if (!no_attention)
        m->attention = th_module_add(&m->base, "attention", th_multi_head_attention_new(ctx, width, whole(HEADS), &attention));
    m->output = th_module_add(&m->base, "output", th_dense_new(ctx, width, tokens, NULL));
    return th_fill_normal(m->positions, 0, 1) == TH_OK ? &m->base : NULL;
}

/* -- the data -- */

static th_tensor *random_sequences(th_context *ctx, int64_t count) /* (count, n) */
{
    return th_random_integers(ctx, TH_INT32, TH_SHAPE(count, whole(LENGTH)), 0, whole(VOCAB));
}

/* What the model reads when the first `written` symbols of y are there: x, separator, y. (B, n), (1, 1), (B, n) -> (B, n + 1 + written) */
static th_tensor *tokens_of(th_tensor *x, th_tensor *separator, th_tensor *y, int64_t written)
{
    return th_concat((th_tensor *const[]){x, th_expand(separator, TH_SHAPE(th_size(x, 0), 1)), th_slice(y, 1, 0, written, 1)}, 3, 1);
}

/* What the model writes after x when it reads its own output: (B, n) -> (B, n). */
static th_tensor *decode(th_module *model, th_tensor *x, th_tensor *separator)
{
    th_context *ctx = model->ctx;
    th_set_training(ctx, false);
    th_no_grad_begin(ctx);
    th_tensor *tokens = tokens_of(x, separator, x, 0);
    for (int64_t i = 0; i < whole(LENGTH); i++) {
        th_tensor *last = th_slice(th_module_forward(model, tokens), 1, -1, whole(LENGTH) + 1 + i, 1); /* (B, 1, V) */
        tokens = th_concat((th_tensor *const[]){tokens, th_cast(th_argmax(last, -1), TH_INT32)}, 2, 1);
    }
    th_no_grad_end(ctx);
    th_set_training(ctx, true);
    return th_slice(tokens, 1, whole(LENGTH) + 1, 2 * whole(LENGTH) + 1, 1);
}

/* The share of symbols, or of whole sequences, in which y is x. */
static double accuracy(th_tensor *x, th_tensor *y, bool sequences)
{
    th_tensor *wrong = th_cast(th_not_equal(x, y), TH_FLOAT64); /* (B, n) */
    return 1 - th_item(th_mean(sequences ? th_max(wrong, TH_AXES(1), NULL) : wrong, TH_ALL_AXES, NULL));
}

/* Symbols as letters. */
static const char *spell(th_tensor *x, char *text)
{
    int32_t symbol[MAX_LENGTH] = {0};
    const int64_t n = th_numel(x);
    if (th_copy_out(x, symbol, (size_t)n * sizeof *symbol) == TH_OK)
        for (int64_t i = 0; i < n; i++)
            text[i] = symbol[i] == whole(VOCAB) ? '|' : letters[symbol[i]];
    text[n] = 0;
    return text;
}

/* -- the program -- */

static void refuse(const char *problem, const char *what)
{
    fprintf(stderr, "copy_task: %s%s (--help lists the options)\n", problem, what);
    exit(2);
}

static void help(void)
{
    for (int i = 0; i < NUMBERS; i++)
        printf("  --%-8s N    %s (%g to %g, default %g)\n", option[i].name, option[i].meaning, option[i].low, option[i].high, option[i].value);
    printf("  --out DIR         where copy_loss.svg and copy_attention.svg go (default: here)\n"
           "  --no-attention    see what is left without it\n  --quiet           print the last line only\n");
    exit(EXIT_SUCCESS);
}

static void parse(int argc, char **argv)
{
    struct option list[HELP + 2] = {[OUT] = {"out", required_argument, NULL, OUT}, [NO_ATTENTION] = {"no-attention", no_argument, NULL, NO_ATTENTION},
                                    [QUIET] = {"quiet", no_argument, NULL, QUIET}, [HELP] = {"help", no_argument, NULL, HELP}};
    for (int i = 0; i < NUMBERS; i++)
        list[i] = (struct option){option[i].name, required_argument, NULL, i};
    for (int i; (i = getopt_long(argc, argv, "", list, NULL)) != -1;) {
        if (i == '?')
            exit(2); /* getopt_long has said why */
        no_attention |= i == NO_ATTENTION;
        quiet |= i == QUIET;
        out = i == OUT ? optarg : out;
        if (i == HELP)
            help();
        if (i >= NUMBERS)
            continue;
        char *end;
        option[i].value = strtod(optarg, &end);
        const bool legal = end != optarg && *end == 0 && option[i].value >= option[i].low && option[i].value <= option[i].high;
        if (!legal || (i < LR && option[i].value != floor(option[i].value)))
            refuse("this is no number in its range: ", argv[optind - 1]);
    }
    if (optind < argc)
        refuse("there are no arguments besides options: ", argv[optind]);
    if (whole(WIDTH) % whole(HEADS))
        refuse("the heads must divide the width", "");
}

static th_status draw_pictures(th_context *ctx, const th_curve *loss, th_tensor *weights, const char *read, const char *written)
{
    char path[4096];
    mkdir(out, 0777); /* if it was there already, well; if it cannot be made, writing into it says so */
    snprintf(path, sizeof path, "%s/copy_loss.svg", out);
    if (th_picture_curves(ctx, path, loss, 1, &(th_chart_options){.title = "Copy task: loss", .x_label = "step", .y_label = "cross entropy"}) || no_attention)
        return th_error_code(ctx);
    snprintf(path, sizeof path, "%s/copy_attention.svg", out);
    th_tensor *writing = th_slice(th_select(weights, 0, 0), 1, whole(LENGTH), 2 * whole(LENGTH), 1); /* (H, n, T) */
    return th_picture_heatmaps(writing, path, &(th_heatmap_options){.title = "Copy task: where each symbol written was looked up", .row_label = "writes",
                                                                     .column_label = "reads", .row_letters = written, .column_letters = read});
}

static void interrupt(int signal_number)
{
    interrupted = signal_number;
}

static int fail(th_context *ctx, th_progress *bar, const char *problem)
{
    th_progress_end(bar);
    fprintf(stderr, "copy_task: %s\n", problem);
    th_context_free(ctx);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    signal(SIGINT, interrupt);
    const int64_t n = whole(LENGTH), steps = whole(STEPS);
    th_context *ctx = th_context_new(&(th_context_options){.seed = (uint64_t)whole(SEED), .threads = (int)whole(THREADS)});
    th_module *model = copy_model_new(ctx);
    th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = option[LR].value});
    th_tensor *separator = th_full(ctx, TH_INT32, TH_SHAPE(1, 1), option[VOCAB].value), *sample = random_sequences(ctx, 1);
    th_progress *bar = quiet ? NULL : th_progress_new(ctx, &(th_progress_options){.file = stderr, .steps = steps, .unit = "tokens",
                                                                                .units_per_step = whole(BATCH) * 2 * n});
    double *losses = calloc((size_t)steps, sizeof *losses), loss = NAN;
    char read[2 * MAX_LENGTH + 2], written[MAX_LENGTH + 1];
    int64_t step = 0;

    for (int64_t shown = 0; losses && step < steps && !interrupted; step++) {
        if (step == shown && !quiet) {
            spell(decode(model, sample, separator), written);
            th_progress_note(bar, "step %4lld  reads %s  writes %s", (long long)step, spell(sample, read), written);
            shown = step == 0 ? 10 : step % 3 ? 3 * step : step / 3 * 10; /* 0, 10, 30, 100, 300, 1000 ... */
        }
        th_optimizer_set_learning_rate(adam, th_schedule_cosine(step, &(th_cosine_schedule){option[LR].value, 20, steps, 0}));
        th_tensor *x = random_sequences(ctx, whole(BATCH));
        th_tensor *logits = th_slice(th_module_forward(model, tokens_of(x, separator, x, n - 1)), 1, n, 2 * n, 1); /* (B, n, V): what counts */
        th_tensor *mean = th_cross_entropy(logits, x, NULL);
        if (th_backward(mean) || th_optimizer_step(adam))
            return fail(ctx, bar, th_error_message(ctx));
        losses[step] = loss = th_item(mean);
        if (step % 10 == 0)
            th_progress_show(bar, "accuracy", accuracy(x, th_cast(th_argmax(logits, -1), TH_INT32), false));
        th_progress_update(bar, step, loss);
        th_tensor_free(x);
        th_tape_clear(ctx);
    }

    th_tensor *x = random_sequences(ctx, FRESH), *y = decode(model, x, separator);
    const double symbols = accuracy(x, y, false), sequences = accuracy(x, y, true);
    ((copy_model *)model)->watched = true;
    spell(decode(model, sample, separator), written);
    if (th_error_code(ctx) || (th_progress_end(bar)))
        return fail(ctx, NULL, th_error_message(ctx));
    snprintf(read + strlen(spell(sample, read)), sizeof read - (size_t)n, "|%.*s", (int)n - 1, written);
    if (draw_pictures(ctx, &(th_curve){.count = step, .y = losses}, ((copy_model *)model)->weights, read, written))
        return fail(ctx, NULL, th_error_message(ctx));
    if (!quiet)
        printf("%s%d fresh sequences: %.2f %% of symbols, %.2f %% of whole sequences\nin   %.*s\nout  %s\n", interrupted ? "interrupted\n" : "", FRESH, 100 * symbols,
               100 * sequences, (int)n, read, written);
    printf("copy_task: seed=%lld steps=%lld symbol_accuracy=%.4f sequence_accuracy=%.4f loss=%.6f parameters_crc32c=%08x\n", (long long)whole(SEED),
           (long long)step, symbols, sequences, loss, (unsigned)th_module_crc32c(model));
    free(losses);
    if (fflush(stdout) || ferror(stdout))
        return fail(ctx, NULL, "standard output could not be written");
    th_context_free(ctx);
    return interrupted ? 130 : EXIT_SUCCESS;
}

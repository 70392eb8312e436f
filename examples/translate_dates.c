/* Translates dates in many formats to ISO 8601, character by character, with an encoder-decoder Transformer (Vaswani et
 * al. 2017):
 *
 *     reads   Thursday, May 3rd 2001
 *     writes  2001-05-03
 *
 * The encoder reads the whole source at once. The decoder writes one character after another. For each character it
 * attends to its earlier output (causal self-attention) and to the output of the encoder (cross attention, which the
 * picture shows). translate_dates/dates.c makes the dates. Every tenth day is held out: training never uses it, and
 * only such days are measured.
 *
 * B pairs in a batch, S characters of a source, T of a target, H heads. A token is one of 128 ASCII codes. ASCII has
 * codes for the start and the end of a text; 0 is padding. */
#include <signal.h>
#include <string.h>
#include <tapehead/models.h>
#include <time.h>

#include "options.h"
#include "precision.h"
#include "processes.h"
#include "translate_dates/dates.h"

enum {
    START_OF_TEXT = 2,
    END_OF_TEXT = 3,
    VOCABULARY = 128,
    S = DATE_SIZE - 1,
    T = ISO_SIZE /* ten characters and the end */
};
enum { TESTS = 10, TEST_BATCH = 200 };
static int64_t seed = 1, steps = 2000, batch = 64, shards = 1, width = 64, heads = 2, threads = 0;
static int64_t encoder_layers = 2, decoder_layers = 1;
static double lr = 3e-3;
static const char *sample = "Thursday, May 3rd 2001", *picture = "translate_dates.svg";
static const char *precision = "float32";
static bool quiet;
static volatile sig_atomic_t interrupted;

/* -- the data -- */

typedef struct {
    th_tensor *source;  /* (B, S) */
    th_tensor *lengths; /* (B): the number of characters in each source */
    th_tensor *target;  /* (B, 1 + T): start, ten characters, end */
    th_tensor *written; /* (B, T): the translations by the model; NULL before */
} pairs;

static pairs pairs_new(th_context *ctx, int64_t count)
{
    return (pairs){.source = th_zeros(ctx, TH_INT32, TH_SHAPE(count, S)),
                   .lengths = th_zeros(ctx, TH_INT32, TH_SHAPE(count)),
                   .target = th_zeros(ctx, TH_INT32, TH_SHAPE(count, 1 + T))};
}

static void set_pair(pairs *p, int64_t b, const char *text, const char *iso)
{
    int32_t *source = th_data(p->source), *lengths = th_data(p->lengths), *target = th_data(p->target);
    if (!source || !lengths || !target)
        return; /* the context keeps the error */
    char row[1 + T + 1] = {0};
    snprintf(row, sizeof row, "%c%s%c", START_OF_TEXT, iso, END_OF_TEXT);
    lengths[b] = (int32_t)strlen(text);
    for (int64_t s = 0; s < S; s++)
        source[b * S + s] = s < lengths[b] ? text[s] : 0;
    for (int64_t t = 0; t < 1 + T; t++)
        target[b * (1 + T) + t] = row[t];
}

/* Draws other dates for all rows. */
static void draw_pairs(pairs *p, rng *r, bool held_out)
{
    char text[DATE_SIZE], iso[ISO_SIZE];
    for (int64_t b = 0; b < th_size(p->lengths, 0); b++) {
        draw_date(r, held_out, text, iso);
        set_pair(p, b, text, iso);
    }
}

/* Returns the pairs of a shard of the batch. */
static pairs shard_of(const pairs *batch_pairs, const th_shard *shard)
{
    const int64_t count = batch / shards, first = shard->index * count, end = first + count;
    return (pairs){.source = th_slice(batch_pairs->source, 0, first, end, 1),
                   .lengths = th_slice(batch_pairs->lengths, 0, first, end, 1),
                   .target = th_slice(batch_pairs->target, 0, first, end, 1)};
}

/* Converts the tokens of row b, up to the end, to text. */
static const char *spell(th_tensor *tokens, int64_t b, char text[DATE_SIZE])
{
    const int32_t *token = th_data_const(tokens);
    const int64_t columns = th_size(tokens, 1);
    int64_t i = 0;
    for (; token && i < columns && i < DATE_SIZE - 1 && token[b * columns + i] > END_OF_TEXT; i++)
        text[i] = (char)token[b * columns + i];
    text[i] = 0;
    return text;
}

/* -- translating -- */

/* Translates by greedy decoding: the most probable character each time, until it is the end. */
static void translate(th_module *model, pairs *p)
{
    th_generated result = {0};
    const th_generate_options options = {.source = p->source,
                                         .source_lengths = p->lengths,
                                         .start = START_OF_TEXT,
                                         .end_tokens = (const int64_t[]){END_OF_TEXT},
                                         .n_end_tokens = 1,
                                         .max_new_tokens = T};
    th_tensor_free(p->written);
    p->written = th_generate(model, &options, &result) == TH_OK ? result.tokens : NULL;
    th_tensor_free(result.lengths);
}

/* Returns the share of targets that the model writes exactly, including the end. */
static double exact_fraction(const pairs *p)
{
    th_tensor *wanted = th_slice(p->target, 1, 1, 1 + T, 1);                  /* (B, T), without the start */
    th_tensor *wrong = th_cast(th_not_equal(p->written, wanted), TH_FLOAT32); /* 1 for a wrong character */
    return 1 - th_item(th_mean(th_max(wrong, TH_AXES(1), NULL), TH_ALL_AXES,
                               NULL)); /* a row with one wrong character is wrong */
}

/* Draws the cross attention of the last decoder block: the weights of the source for each written character, by
 * head. */
static th_status draw_picture(th_module *model, const pairs *p)
{
    char reads[DATE_SIZE], writes[DATE_SIZE];
    th_tensor **weights = calloc((size_t)decoder_layers, sizeof *weights); /* of every block, (1, H, T, S) */
    if (weights == NULL)
        give_up("translate_dates", "out of memory");
    /* The input of the decoder: the start, then all characters except the last. */
    th_tensor *start = th_slice(p->target, 1, 0, 1, 1), *rest = th_slice(p->written, 1, 0, T - 1, 1);
    th_tensor *decoder_input = th_concat((th_tensor *const[]){start, rest}, 2, 1); /* (1, T) */
    th_no_grad_begin(model->ctx);
    th_transformer_decode(model, decoder_input, th_transformer_encode(model, p->source, p->lengths),
                          &(th_transformer_decode_options){.memory_lengths = p->lengths, .memory_weights = weights});
    th_no_grad_end(model->ctx);
    spell(p->source, 0, reads), spell(p->written, 0, writes);
    th_tensor *map = th_select(weights[decoder_layers - 1], 0, 0); /* (H, T, S) */
    map = th_slice(map, 1, 0, (int64_t)strlen(writes), 1);         /* without the padding of the target, */
    map = th_slice(map, 2, 0, (int64_t)strlen(reads), 1);          /* and of the source */
    free(weights);
    return th_picture_heatmaps(map, picture,
                               &(th_heatmap_options){.title = "Where each character was looked up",
                                                     .row_label = "writes",
                                                     .column_label = "reads",
                                                     .row_letters = writes,
                                                     .column_letters = reads,
                                                     .high = 1});
}

/* -- training and measuring -- */

/* Runs forward and backward on a shard's pairs. Teacher forcing: the decoder gets the correct characters and predicts
 * the next one after each of them. All predictions run at once, because causal attention hides later characters. */
static th_status run_shard(th_module *model, const pairs *batch_pairs, th_shard *shard)
{
    const pairs p = shard_of(batch_pairs, shard);
    th_tensor *previous = th_slice(p.target, 1, 0, T, 1), *next = th_slice(p.target, 1, 1, 1 + T, 1);
    th_tensor *cross_entropy = th_transformer_loss(model, p.source, p.lengths, previous, next, NULL);
    if (th_backward(cross_entropy, NULL))
        return th_error_code(model->ctx);
    shard->loss = th_item(cross_entropy);
    th_tape_clear(model->ctx);
    return TH_OK;
}

/* Trains until the last step or a signal. Returns the number of steps and sets *loss to the last loss. The
 * context keeps errors. The first of several processes prints the translation of `one` at some steps. */
static int64_t train(th_module *model, th_optimizer *adam, th_group *group, pairs *one, double *loss)
{
    th_context *ctx = model->ctx;
    const bool prints = !quiet && th_group_rank(group) == 0;
    const th_progress_options line = {stderr, .steps = steps, .units_per_step = batch, .unit = "dates"};
    const th_cosine_schedule schedule = {.peak = lr, .warmup_steps = 100, .total_steps = steps};
    th_progress *bar = prints ? th_progress_new(ctx, &line) : NULL;
    note_precision_time(ctx, bar);
    pairs batch_pairs = pairs_new(ctx, batch);
    rng r = {(uint64_t)seed};
    char text[DATE_SIZE];
    int64_t step = 0;
    for (int64_t next = 0; step < steps && !should_stop_training(group, interrupted); step++) {
        if (step == next && prints) { /* 0, 100, 200, 400, 800, ... */
            translate(model, one);
            th_progress_note(bar, "step %5d   %s   ->   %s", (int)step, sample, spell(one->written, 0, text));
            next = step == 0 ? 100 : 2 * step;
        }
        draw_pairs(&batch_pairs, &r, false); /* the same in every process */
        th_optimizer_set_learning_rate(adam, th_schedule_cosine(step, &schedule));
        for (th_shard shard = th_optimizer_shards(adam); th_shard_next(&shard);)
            if (run_shard(model, &batch_pairs, &shard))
                break;
        if (th_optimizer_step(adam))
            break;
        *loss = th_optimizer_loss(adam);
        th_progress_update(bar, step, *loss);
    }
    th_progress_end(bar);
    return step;
}

/* Returns the share of held-out dates that are translated exactly. Prints the first few. */
static double measure(th_context *ctx, th_module *model)
{
    char source_text[DATE_SIZE], translation[DATE_SIZE];
    double right = 0;
    pairs p = pairs_new(ctx, TEST_BATCH);
    rng r = {~(uint64_t)seed};
    for (int round = 0; round < TESTS; round++) {
        draw_pairs(&p, &r, true);
        translate(model, &p);
        right += exact_fraction(&p) / (double)TESTS;
        for (int64_t b = 0; round == 0 && b < 8 && !quiet; b++)
            printf("%-40s %s\n", spell(p.source, b, source_text), spell(p.written, b, translation));
        th_tape_clear(ctx);
    }
    return right;
}

/* -- the program -- */

static const program_option options[] = {
    {"seed", "of all random numbers", .integer = &seed, .low = 0, .high = 1e15},
    {"steps", "of training", .integer = &steps, .low = 1, .high = 1e7},
    {"batch", "dates in a step", .integer = &batch, .low = 1, .high = 4096},
    {"shards", SHARDS_HELP, .integer = &shards, .low = 1, .high = 4096},
    {"width", "of the model", .integer = &width, .low = 1, .high = 4096},
    {"heads", "of attention; they divide the width", .integer = &heads, .low = 1, .high = 32},
    {"encoder-layers", "blocks that read", .integer = &encoder_layers, .low = 1, .high = 32},
    {"decoder-layers", "blocks that write", .integer = &decoder_layers, .low = 1, .high = 32},
    {"lr", "the highest learning rate", .real = &lr, .low = 1e-12, .high = 1e3},
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"precision", PRECISION_HELP, .text = &precision},
    {"date", "to translate and to draw", .text = &sample},
    {"picture", "SVG file for the cross attention", .text = &picture},
    {"quiet", "one line of output only", .flag = &quiet},
    {0},
};

static void on_interrupt(int signal_number)
{
    interrupted = signal_number;
    signal(signal_number, SIG_DFL); /* a second signal ends the program without measuring */
}

static bool is_ascii(const char *text)
{
    while (*text > 0)
        text++;
    return *text == 0;
}

static double time_in_seconds(void)
{
    struct timespec now;
    return timespec_get(&now, TIME_UTC) ? (double)now.tv_sec + 1e-9 * (double)now.tv_nsec : 0;
}

/* Measures the model, prints the result and draws the picture. Sets *has_picture to whether there is a picture: an
 * untrained model may write an empty text. */
static th_status report(th_module *model, pairs *one, int64_t step, double loss, double start_time, bool *has_picture)
{
    th_context *ctx = model->ctx;
    char text[DATE_SIZE];
    const double right = measure(ctx, model);
    translate(model, one);
    *has_picture = spell(one->written, 0, text)[0] != 0;
    if (th_error_code(ctx))
        return th_error_code(ctx);
    if (!quiet)
        printf("%d held-out dates: %.2f %% are exact, after %.0f seconds\n", TESTS * TEST_BATCH, 100 * right,
               time_in_seconds() - start_time);
    printf("translate_dates: %sseed=%lld steps=%lld exact=%.4f loss=%.6f parameters_crc32c=%08x\n",
           spell_precision(th_precision_of(ctx)), (long long)seed, (long long)step, right, loss,
           (unsigned)th_module_crc32c(model));
    return *has_picture ? draw_picture(model, one) : TH_OK; /* last, so that an error here does not lose the results */
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, "translate_dates", "translate_dates: an encoder-decoder learns to read dates", options);
    if (width % heads)
        refuse("translate_dates", "--heads must divide --width", "");
    if (sample[0] == 0 || strlen(sample) > S || !is_ascii(sample))
        refuse("translate_dates", "this is not a date of 1 to 39 ASCII characters: ", sample);
    check_shards("translate_dates", shards, batch);
    const double start_time = time_in_seconds();
    const th_context_options settings = {
        .seed = (uint64_t)seed, .threads = (int)threads, .precision = parse_precision("translate_dates", precision)};
    catch_signals(on_interrupt);
    start_processes(&argc, &argv);
    th_context *ctx = th_context_new(&settings);
    th_group *group = join_processes("translate_dates", ctx);
    check_processes("translate_dates", group, shards);
    (void)share_processors(ctx, threads);
    const th_transformer_options size = {.source_vocabulary = VOCABULARY,
                                         .target_vocabulary = VOCABULARY,
                                         .length = S,
                                         .width = width,
                                         .heads = heads,
                                         .encoder_layers = encoder_layers,
                                         .decoder_layers = decoder_layers,
                                         .positions = TH_POSITIONS_SINUSOIDAL,
                                         .shared_embeddings = true, /* a 3 means the same in source and target */
                                         .block = {.post_norm = true, .activation = TH_RELU}};
    th_module *model = th_transformer_new(ctx, &size);
    note_int8("translate_dates", model, "");
    const th_adam_options rates = {.learning_rate = lr, .max_norm = 1, .shards = (int)shards, .group = group};
    th_optimizer *adam = th_adam_new(model, &rates);
    pairs one = pairs_new(ctx, 1);
    set_pair(&one, 0, sample, "");
    const bool first = th_group_rank(group) == 0;

    double loss = NAN;
    bool has_picture = false;
    const int64_t step = train(model, adam, group, &one, &loss);
    if (first)
        (void)report(model, &one, step, loss, start_time, &has_picture);
    if (th_group_agree(group))
        give_up_together("translate_dates", ctx, th_error_message(ctx));
    th_context_free(ctx);
    finish_output("translate_dates");
    if (has_picture && !quiet)
        print_written(picture);
    if (first && !quiet)
        print_next(argv[0], "translate_dates",
                   (const char *const[]){"--date", "12 March 2031", "--picture", "march.svg", NULL});
    end_processes();
    return interrupted ? 130 : EXIT_SUCCESS;
}

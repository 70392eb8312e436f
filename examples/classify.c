/* Classifies sentences: is the missing word "is" or "are"?
 *
 *     behind the old trees , the dog that loved the girls ___ here .          is
 *     ___ the keys behind the house lost ?                                    are
 *
 * The noun next to the gap misleads: only the subject decides, and it may be far away on either side. An encoder of two
 * blocks reads the sentence. In the first block, every word attends to a few words before it; in the second, to all
 * words. An extra token in front gives the class, as in BERT (Devlin et al. 2019). The picture shows that this token
 * attends to the subject. The program also measures sentences of twice the training length.
 *
 * Sentences of a batch differ in length. They are padded with PAD, and a mask of lengths hides the padding.
 *
 * B sentences, T the largest number of tokens, E width, H heads. */
#include <signal.h>
#include <stdlib.h>
#include <tapehead/tapehead.h>

#include "classify/sentences.h"
#include "options.h"
#include "precision.h"
#include "processes.h"

enum { TRAINED = 16 };  /* the largest number of tokens in a training sentence */
enum { NEIGHBORS = 4 }; /* words before each that the first block attends to */
enum { TESTS = 8, TEST_BATCH = 250, PICTURED = 33 };
static int64_t seed = 1, steps = 800, batch = 64, shards = 1, width = 64, heads = 2, threads = 0;
static double lr = 2e-3;
static const char *const verbs[] = {"is", "are"};
static const char *picture = "classify.svg", *precision = "float32";
static bool quiet;
static volatile sig_atomic_t interrupted;

/* -- the data -- */

/* A batch, filled again for every step. */
typedef struct {
    th_tensor *tokens;  /* (B, T) */
    th_tensor *lengths; /* (B): the number of tokens in each row */
    th_tensor *labels;  /* (B): 0 is, 1 are */
    th_tensor *subject; /* (B): the position of the subject. For measuring only: the model does not get it */
    th_tensor *nearest; /* (B): the label by the noun nearest to the gap, also for measuring */
} sentences;

static sentences sentences_new(th_context *ctx, int64_t count, int64_t longest)
{
    const th_shape per_sentence = TH_SHAPE(count);
    return (sentences){th_zeros(ctx, TH_INT32, TH_SHAPE(count, longest)), th_zeros(ctx, TH_INT32, per_sentence),
                       th_zeros(ctx, TH_INT32, per_sentence), th_zeros(ctx, TH_INT32, per_sentence),
                       th_zeros(ctx, TH_INT32, per_sentence)};
}

static void draw_sentences(sentences *batch_sentences, rng *r, int low, bool held_out)
{
    int32_t *tokens = th_data(batch_sentences->tokens), *lengths = th_data(batch_sentences->lengths),
            *labels = th_data(batch_sentences->labels);
    int32_t *subject = th_data(batch_sentences->subject), *nearest = th_data(batch_sentences->nearest);
    const int64_t count = th_size(batch_sentences->tokens, 0), longest = th_size(batch_sentences->tokens, 1);
    for (int64_t b = 0; nearest && b < count; b++) { /* if out of memory, the context keeps the error */
        const sentence s = draw_sentence(r, low, (int)longest, held_out);
        for (int64_t t = 0; t < longest; t++)
            tokens[b * longest + t] = t < s.length ? s.word[t] : PAD;
        lengths[b] = s.length;
        labels[b] = s.plural;
        subject[b] = s.subject;
        nearest[b] = s.nearest_plural;
    }
}

/* Returns the sentences of a shard of the batch. */
static sentences shard_of(const sentences *batch_sentences, const th_shard *shard)
{
    const int64_t count = batch / shards, first = shard->index * count, end = first + count;
    return (sentences){.tokens = th_slice(batch_sentences->tokens, 0, first, end, 1),
                       .lengths = th_slice(batch_sentences->lengths, 0, first, end, 1),
                       .labels = th_slice(batch_sentences->labels, 0, first, end, 1)};
}

/* -- the model -- */

typedef struct {
    th_module base;
    th_module *embedding, *local, *global, *norm, *output;
} classifier;

static th_module *classifier_new(th_context *ctx)
{
    classifier *m = th_module_new(ctx, sizeof *m, "classifier", NULL);
    if (m == NULL)
        return NULL;
    /* Only the first block gets positions, by rotated queries and keys (Su et al. 2021). It learns about small
     * distances, the second about meanings: neither changes when a sentence is longer. */
    const th_transformer_block_options local = {.scores = {.rotary = true}};
    m->embedding = th_module_add(&m->base, "embedding", th_embedding_new(ctx, WORDS, width));
    m->local = th_module_add(&m->base, "local", th_transformer_block_new(ctx, width, heads, &local));
    m->global = th_module_add(&m->base, "global", th_transformer_block_new(ctx, width, heads, NULL));
    m->norm = th_module_add(&m->base, "norm", th_layer_norm_new(ctx, width, NULL));
    m->output = th_module_add(&m->base, "output", th_dense_new(ctx, width, 2, NULL));
    return &m->base;
}

/* Returns the logits (B, 2). Sets weights, unless NULL, to the attention weights (B, H, T, T) of each block. */
static th_tensor *classify(th_module *model, const sentences *s, th_tensor *weights[2])
{
    const classifier *m = (const classifier *)model;
    if (!th_module_begin(model)) /* th_module_end_all releases all values except the results */
        return NULL;
    const th_mask near_words = {.valid_lengths = s->lengths, .window = TH_WINDOW(NEIGHBORS, 0)},
                  all_words = {.valid_lengths = s->lengths};
    th_transform_options options = {.mask = &near_words, .weights = weights};
    th_tensor *x = th_transform(m->local, th_module_forward(m->embedding, s->tokens), &options); /* (B, T, E) */
    options = (th_transform_options){.mask = &all_words, .weights = weights ? &weights[1] : NULL};
    x = th_transform(m->global, x, &options);
    x = th_select(x, 1, 0); /* (B, E): the row of [class] */
    th_tensor *logits = th_module_forward(m->output, th_module_forward(m->norm, x));
    th_module_end_all(model, (th_tensor *const[]){logits, weights ? weights[0] : NULL, weights ? weights[1] : NULL}, 3);
    return logits;
}

/* -- measuring -- */

typedef struct {
    double right, nearest, subject; /* fractions of the sentences: see measure */
} score;

static double equal_fraction(th_tensor *a, th_tensor *b) /* the share of equal entries of a and b, (B) int32 each */
{
    return th_item(th_mean(th_cast(th_equal(a, b), TH_FLOAT32), TH_ALL_AXES, NULL));
}

/* Measures held-out sentences of low to high tokens. right: the share that the model classifies right. nearest: the
 * share that the nearest noun classifies right. subject: the share in which the largest attention weight of [class],
 * over all heads, is at the subject. */
static score measure(th_module *model, rng *r, int low, int high)
{
    score s = {0};
    sentences fresh = sentences_new(model->ctx, TEST_BATCH, high);
    th_no_grad_begin(model->ctx);
    for (int round = 0; round < TESTS; round++) {
        th_tensor *weights[2] = {NULL};
        draw_sentences(&fresh, r, low, true);
        th_tensor *answer = th_argmax(classify(model, &fresh, weights), -1);              /* (B) */
        th_tensor *class_weights = th_max(th_select(weights[1], 2, 0), TH_AXES(1), NULL); /* of [class], (B, T) */
        s.right += equal_fraction(th_cast(answer, TH_INT32), fresh.labels) / (double)TESTS;
        s.nearest += equal_fraction(fresh.nearest, fresh.labels) / (double)TESTS;
        s.subject += equal_fraction(th_cast(th_argmax(class_weights, -1), TH_INT32), fresh.subject) / (double)TESTS;
        th_tape_clear(model->ctx);
    }
    th_no_grad_end(model->ctx);
    return s;
}

/* Draws the attention weights of a held-out sentence in each block, as the mean over heads. */
static th_status draw_picture(th_module *model)
{
    static const char *const blocks[] = {"first block: a few words before", "second block: all words"};
    const char *row[TRAINED];
    char title[80];
    th_tensor *weights[2] = {NULL};
    sentences pictured = sentences_new(model->ctx, 1, TRAINED);
    draw_sentences(&pictured, &(rng){PICTURED}, TRAINED - 3, true);
    th_no_grad_begin(model->ctx);
    th_tensor *answer = th_argmax(classify(model, &pictured, weights), -1);
    th_no_grad_end(model->ctx);
    if (th_error_code(model->ctx))
        return th_error_code(model->ctx);
    const int64_t length = (int64_t)th_item(pictured.lengths);
    for (int64_t t = 0; t < length; t++)
        row[t] = spelling[(int)th_get(pictured.tokens, TH_INDEX(0, t))];
    th_tensor *map = th_mean(th_concat(weights, 2, 0), TH_AXES(1), NULL); /* (2, T, T) */
    map = th_slice(th_slice(map, 1, 0, length, 1), 2, 0, length, 1);      /* without PAD */
    snprintf(title, sizeof title, "What each word looks at. [class] says: \"%s\"", verbs[(int)th_item(answer)]);
    return th_picture_heatmaps(map, picture,
                               &(th_heatmap_options){.title = title,
                                                     .row_label = "looks",
                                                     .column_label = "is looked at",
                                                     .panel_names = blocks,
                                                     .row_names = row,
                                                     .column_names = row,
                                                     .high = 1});
}

/* -- the program -- */

static const program_option options[] = {
    {"seed", "of all random numbers", .integer = &seed, .low = 0, .high = 1e15},
    {"steps", "of training", .integer = &steps, .low = 1, .high = 1e7},
    {"batch", "sentences in a step", .integer = &batch, .low = 1, .high = 4096},
    {"shards", SHARDS_HELP, .integer = &shards, .low = 1, .high = 4096},
    {"width", "of the model", .integer = &width, .low = 1, .high = 4096},
    {"heads", "of attention; they divide the width", .integer = &heads, .low = 1, .high = 32},
    {"lr", "the highest learning rate", .real = &lr, .low = 1e-12, .high = 1e3},
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"precision", PRECISION_HELP, .text = &precision},
    {"picture", "SVG file for the attention weights", .text = &picture},
    {"quiet", "one line of output only", .flag = &quiet},
    {0},
};

static void on_interrupt(int signal_number)
{
    interrupted = signal_number;
    signal(signal_number, SIG_DFL); /* a second signal ends the program without measuring */
}

static void print_score(const char *label, int low, int high, score s)
{
    printf("%s, %d to %d tokens: %.2f %% are right (%.0f %% by the nearest noun); [class] looks at the subject in %.2f "
           "%%\n",
           label, low, high, 100 * s.right, 100 * s.nearest, 100 * s.subject);
}

/* Trains until the last step or a signal. Returns the number of steps and sets *loss to the last loss. The
 * context keeps errors. The first of several processes prints the progress. */
static int64_t train(th_module *model, th_optimizer *adam, th_group *group, double *loss)
{
    th_context *ctx = model->ctx;
    const th_cosine_schedule schedule = {.peak = lr, .warmup_steps = 50, .total_steps = steps};
    const th_progress_options line = {stderr, .steps = steps, .units_per_step = batch, .unit = "sentences"};
    th_progress *bar = quiet || th_group_rank(group) > 0 ? NULL : th_progress_new(ctx, &line);
    note_precision_time(ctx, bar);
    rng r = {(uint64_t)seed};
    sentences batch_sentences = sentences_new(ctx, batch, TRAINED);
    int64_t step = 0;
    for (; step < steps && !should_stop_training(group, interrupted); step++) {
        draw_sentences(&batch_sentences, &r, SHORTEST, false); /* the same in every process */
        th_optimizer_set_learning_rate(adam, th_schedule_cosine(step, &schedule));
        for (th_shard shard = th_optimizer_shards(adam); th_shard_next(&shard);) {
            const sentences shard_sentences = shard_of(&batch_sentences, &shard);
            th_tensor *cross_entropy =
                th_cross_entropy(classify(model, &shard_sentences, NULL), shard_sentences.labels, NULL);
            if (th_backward(cross_entropy, NULL))
                break;
            shard.loss = th_item(cross_entropy);
            th_tape_clear(ctx);
        }
        if (th_optimizer_step(adam))
            break;
        *loss = th_optimizer_loss(adam);
        th_progress_update(bar, step, *loss);
    }
    th_progress_end(bar);
    return step;
}

/* Measures the model on new sentences, prints the result and draws the picture. */
static th_status report(th_module *model, int64_t step, double loss)
{
    th_context *ctx = model->ctx;
    rng r = {~(uint64_t)seed};
    const score short_ones = measure(model, &r, SHORTEST, TRAINED);
    const score longer = measure(model, &r, TRAINED + 1, LONGEST);
    if (th_error_code(ctx))
        return th_error_code(ctx);
    if (!quiet) {
        print_score("new sentences", SHORTEST, TRAINED, short_ones);
        print_score("longer ones", TRAINED + 1, LONGEST, longer);
    }
    printf("classify: %sseed=%lld steps=%lld right=%.4f longer=%.4f subject=%.4f loss=%.6f parameters_crc32c=%08x\n",
           spell_precision(th_precision_of(ctx)), (long long)seed, (long long)step, short_ones.right, longer.right,
           short_ones.subject, loss, (unsigned)th_module_crc32c(model));
    return draw_picture(model); /* last, so that an error here does not lose the results */
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, "classify", "classify: an encoder learns which verb a sentence needs", options);
    if (width % heads || width / heads % 2)
        refuse("classify", "--width divided by --heads must be an even number", "");
    check_shards("classify", shards, batch);
    const th_context_options settings = {
        .seed = (uint64_t)seed, .threads = (int)threads, .precision = parse_precision("classify", precision)};
    catch_signals(on_interrupt);
    start_processes(&argc, &argv);
    th_context *ctx = th_context_new(&settings);
    th_group *group = join_processes("classify", ctx);
    check_processes("classify", group, shards);
    (void)share_processors(ctx, threads);
    th_module *model = classifier_new(ctx);
    note_int8("classify", model, "");
    const th_adam_options rates = {.learning_rate = lr, .max_norm = 1, .shards = (int)shards, .group = group};
    th_optimizer *adam = th_adam_new(model, &rates);
    const bool first = th_group_rank(group) == 0;

    double loss = NAN;
    const int64_t step = train(model, adam, group, &loss);
    if (first)
        (void)report(model, step, loss);
    if (th_group_agree(group))
        give_up_together("classify", ctx, th_error_message(ctx));
    th_context_free(ctx);
    finish_output("classify");
    if (first && !quiet) {
        print_written(picture);
        print_next(argv[0], "classify", (const char *const[]){"--seed", "2", "--picture", "classify_seed_2.svg", NULL});
    }
    end_processes();
    return interrupted ? 130 : EXIT_SUCCESS;
}

/* A language model: any text in, a model out, GPT-2 or Llama in small.
 *
 *     language_model train shakespeare.txt run        less than a minute on two cores
 *     language_model sample run --prompt "ROMEO:"
 *
 * This file holds the model, the training loop and the subcommands. The folder language_model/ holds the settings, the
 * conversion of texts to tokens, the checkpoints of a run, and the reports. `chosen` holds the settings, from the
 * command line or from a checkpoint. Where to make a change:
 *
 *     a new option                        a member in settings.h, and a line of the table in settings.c
 *     another model                       the options that settle() sets in settings.c
 *     other defaults for --from           length.c
 *     another tokenizer                   make_tokenizer() in corpus.c
 *     another optimizer or schedule       make_optimizer() or train_step() in this file
 *
 * A run is a folder:
 *
 *     config.json             the settings, for people to read; every checkpoint has them too
 *     tokenizer.json          and vocab.json and merges.txt for bpe
 *     text.tokens             the text as tokens: first those for training, then those held out
 *     last.safetensors        the newest checkpoint: everything needed to continue with the same bits
 *     last.1.safetensors ...  the checkpoints before it, if --keep is more than 1
 *     best.safetensors        weights of the lowest validation loss so far
 *     log.jsonl, events.*     for programs and for TensorBoard
 *     curves.svg, samples/    to look at
 *
 * B batch, T length, V vocabulary. */
#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "language_model/checkpoints.h"
#include "language_model/corpus.h"
#include "language_model/trainer.h"

enum { MAX_TOKENS = 1 << 26 }; /* of a batch */

const char *program_path;
static bool force, only_memory, quiet, other_tokenizer;
static volatile sig_atomic_t interrupted;

/* -- the model and its optimizer -- */

/* Parameters that --freeze names get no gradient, so that no step changes them. */
static void freeze(th_module *model)
{
    char *patterns = strdup(chosen.freeze), *rest = patterns;
    for (const char *pattern; (pattern = strsep(&rest, ",")) != NULL;) {
        bool found = false;
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
            if (fnmatch(pattern, p.name, 0) == 0)
                found = th_set_requires_gradient(p.tensor, false) != NULL;
        if (!found)
            refuse(PROGRAM, "--freeze: no parameter has a name like ", pattern);
    }
    free(patterns);
    if (th_module_count_trainable(model) == 0)
        refuse(PROGRAM, "--freeze leaves nothing to train: all parameters have names like ", chosen.freeze);
}

static bool is_vector(const char *name, th_tensor *parameter, void *user)
{
    (void)name;
    (void)user;
    return th_ndim(parameter) < 2;
}

void make_model(trainer *t)
{
    t->model = th_language_model_new(t->ctx, &chosen.model);
    expect_no_error(t);
}

void make_batch(trainer *t)
{
    if (chosen.batch > MAX_TOKENS / chosen.length)
        refuse(PROGRAM, "--batch times --length must be at most 67108864 tokens", "");
    t->tokens = th_zeros(t->ctx, TH_INT32, TH_SHAPE(chosen.batch, chosen.length));
    t->targets = th_zeros(t->ctx, TH_INT32, TH_SHAPE(chosen.batch, chosen.length));
    expect_no_error(t);
}

/* Makes the optimizer: AdamW, for all parameters that are not frozen. It decays matrices only. */
void make_optimizer(trainer *t)
{
    const th_parameter_group vectors = {.takes = is_vector, .weight_decay = TH_ZERO};
    if (chosen.freeze)
        freeze(t->model);
    t->optimizer = th_adam_w_new(t->model, &(th_adam_options){.learning_rate = chosen.lr,
                                                              .beta1 = chosen.beta1 > 0 ? chosen.beta1 : TH_ZERO,
                                                              .beta2 = chosen.beta2 > 0 ? chosen.beta2 : TH_ZERO,
                                                              .weight_decay = chosen.weight_decay,
                                                              .max_norm = chosen.clip,
                                                              .groups = &vectors,
                                                              .n_groups = 1});
    expect_no_error(t);
}

/* -- training -- */

/* Adds the batch's share of a step: of the loss to *loss, of the gradient to those of the parameters. */
static th_status add_batch(trainer *t, double *loss)
{
    th_tensor *part = th_language_model_loss(t->model, t->tokens, t->targets, NULL);
    if (chosen.accumulate > 1)
        part = th_scale(part, 1.0 / (double)chosen.accumulate);
    *loss += th_item(part);
    if (th_backward(part, NULL))
        return th_error_code(t->ctx);
    th_tape_clear(t->ctx);
    return TH_OK;
}

/* One step of the optimizer over `accumulate` batches; *loss is the mean of theirs. */
static th_status train_step(trainer *t, double *loss)
{
    const th_cosine_schedule schedule = {chosen.lr, chosen.warmup, chosen.steps, chosen.min_lr};
    th_optimizer_set_learning_rate(t->optimizer, th_schedule_cosine(th_step(t->ctx), &schedule));
    *loss = 0;
    for (int64_t i = 0; i < chosen.accumulate; i++)
        if (th_windows_next(t->training, t->tokens, t->targets) || add_batch(t, loss))
            return th_error_code(t->ctx);
    return th_optimizer_step(t->optimizer);
}

/* Adds the losses of the batch's tokens, with the model as it is used: no dropout, nothing kept for a gradient. */
static th_status evaluate_batch(trainer *t, double *loss)
{
    const th_cross_entropy_options sum = {TH_IGNORE(TH_NO_TARGET), .normalizer = 1};
    th_no_grad_begin(t->ctx);
    th_set_training(t->ctx, false);
    *loss += th_item(th_language_model_loss(t->model, t->tokens, t->targets, &sum));
    th_tape_clear(t->ctx);
    th_set_training(t->ctx, true);
    th_no_grad_end(t->ctx);
    return th_error_code(t->ctx);
}

/* The mean loss over a pass of windows, or over the first `batches` of it. */
th_status evaluate(trainer *t, th_windows *windows, int64_t batches, double *loss)
{
    int64_t done = 0;
    bool all = false;
    *loss = 0;
    if (th_windows_go_to(windows, (th_windows_position){0}))
        return th_error_code(t->ctx);
    while (!all && (done < batches || batches == 0)) {
        if (th_windows_next(windows, t->tokens, t->targets) || evaluate_batch(t, loss))
            return th_error_code(t->ctx);
        done++;
        all = th_windows_where(windows).index == th_windows_count(windows);
    }
    *loss /= (double)(all ? th_windows_targets(windows) : done * chosen.batch * chosen.length);
    return TH_OK;
}

/* What a checkpoint holds besides model and optimizer: numbers under names, read from where they are to be put back. */
enum { NUMBERS = 4 };
static void list_numbers(trainer *t, th_checkpoint_number *list)
{
    list[0] = (th_checkpoint_number){.name = "epoch", .integer = &t->next.epoch};
    list[1] = (th_checkpoint_number){.name = "window", .integer = &t->next.index};
    list[2] = (th_checkpoint_number){.name = "best", .real = &t->best};
    list[3] = (th_checkpoint_number){.name = "worse", .integer = &t->worse};
}

/* A checkpoint with everything, or with the weights alone. */
static th_status save(trainer *t, const char *name, bool everything)
{
    th_checkpoint_number numbers[NUMBERS];
    char *text = settings_to_json();
    const th_checkpoint checkpoint = {.model = t->model,
                                      .optimizer = everything ? t->optimizer : NULL,
                                      .configuration = text,
                                      .numbers = numbers,
                                      .n_numbers = NUMBERS};
    list_numbers(t, numbers);
    t->next = th_windows_where(t->training);
    const th_status status = th_checkpoint_save(in_run(t->run, name), &checkpoint);
    free(text);
    return status;
}

/* Saves everything as the newest checkpoint. */
static th_status save_newest(trainer *t)
{
    if (save(t, NEXT_CHECKPOINT, true))
        return th_error_code(t->ctx);
    keep_checkpoint(t->run, chosen.keep);
    return TH_OK;
}

/* Ends the program if a number of a checkpoint is out of range. (th_windows_go_to checks the position of the
 * windows.) */
static void check_numbers(const trainer *t, const char *name)
{
    const struct {
        const char *name;
        int64_t value, max;
    } counts[] = {{"step", th_step(t->ctx), 1000000000}, {"worse", t->worse, 1000000000}};
    char problem[400];
    for (int i = 0; i < 2; i++)
        if (counts[i].value < 0 || counts[i].value > counts[i].max) {
            snprintf(problem, sizeof problem, "%.200s: \"%s\" is %lld, it must be 0 to %lld", in_run(t->run, name),
                     counts[i].name, (long long)counts[i].value, (long long)counts[i].max);
            give_up(PROGRAM, problem);
        }
    if (isnan(t->best) || t->best < 0) {
        snprintf(problem, sizeof problem, "%.200s: \"best\" is %g, it must be 0 or more", in_run(t->run, name),
                 t->best);
        give_up(PROGRAM, problem);
    }
}

/* Loads everything that save() has saved. */
static th_status load(trainer *t, const char *name)
{
    th_checkpoint_number numbers[NUMBERS];
    const th_checkpoint checkpoint = {
        .model = t->model, .optimizer = t->optimizer, .numbers = numbers, .n_numbers = NUMBERS};
    list_numbers(t, numbers);
    if (th_checkpoint_load(in_run(t->run, name), &checkpoint))
        return th_error_code(t->ctx);
    check_numbers(t, name);
    return th_windows_go_to(t->training, t->next);
}

/* What happens now and then: the validation loss, the best model so far, a sample, a checkpoint. */
static th_status take_stock(trainer *t)
{
    double loss;
    report_pause(&t->report);
    if (evaluate(t, t->validation, chosen.eval_batches, &loss) ||
        report_evaluation(&t->report, t->run, th_step(t->ctx), loss))
        return th_error_code(t->ctx);
    t->worse = loss < t->best ? 0 : t->worse + 1;
    if (loss < t->best) {
        t->best = loss;
        if (save(t, "best.safetensors", false))
            return th_error_code(t->ctx);
    }
    if (report_sample(&t->report, t->run, th_step(t->ctx), t->model, t->tokenizer) || save_newest(t))
        return th_error_code(t->ctx);
    report_go_on(&t->report);
    return TH_OK;
}

static bool is_out_of_patience(const trainer *t)
{
    return chosen.patience > 0 && t->worse >= chosen.patience;
}

static bool is_finished(const trainer *t)
{
    return th_step(t->ctx) >= chosen.steps || is_out_of_patience(t);
}

static bool is_time_to_take_stock(const trainer *t)
{
    return th_step(t->ctx) % chosen.eval_every == 0 || th_step(t->ctx) == chosen.steps;
}

/* Steps, each reported, with an evaluation now and then; an interruption waits for the end of its step. */
static th_status train_to_the_end(trainer *t)
{
    double loss;
    while (!is_finished(t) && !interrupted) {
        if (train_step(t, &loss) || report_step(&t->report, t->optimizer, loss))
            return th_error_code(t->ctx);
        if (is_time_to_take_stock(t) && take_stock(t))
            return th_error_code(t->ctx);
    }
    return interrupted ? save_newest(t) : TH_OK;
}

/* -- train and resume -- */

/* Opens the windows of the tokens in that file, some for training and the rest for validation. */
static void open_tokens(trainer *t, const char *name)
{
    th_token_file *file = th_token_file_open(t->ctx, in_run(t->run, name), NULL);
    if (file && th_token_file_vocabulary(file) != th_tokenizer_size(t->tokenizer))
        give_up(PROGRAM, "text.tokens was made by another tokenizer than the run's");
    th_windows_options options = {
        .end = chosen.training_tokens, .length = chosen.length, .shuffle = true, .seed = (uint64_t)chosen.seed};
    t->training = th_windows_new(file, &options);
    options.begin = chosen.training_tokens;
    options.end = 0;
    const int64_t held_out = th_token_file_count(file) - options.begin;
    options.shuffle = chosen.eval_batches > 0 && held_out / chosen.length > chosen.eval_batches * chosen.batch;
    t->validation = th_windows_new(file, &options);
    th_token_file_close(file); /* (the windows keep it open) */
    expect_no_error(t);
}

static void interrupt(int signal_number)
{
    interrupted = signal_number;
    signal(signal_number, SIG_DFL); /* the second time it ends the program at once */
}

/* How training ended, and the loss on all that was held out. */
static void print_end(trainer *t, double seconds)
{
    if (is_out_of_patience(t) && th_step(t->ctx) < chosen.steps)
        fprintf(stderr, PROGRAM ": stopped early: the last %lld evaluations were no better than one before\n",
                (long long)t->worse);
    printf(PROGRAM ": %ssteps=%lld seconds=%.2f best=%.4f memory=%zu parameters=%lld parameters_crc32c=%08x\n",
           spell_precision(th_precision_of(t->ctx)), (long long)th_step(t->ctx), seconds, t->best,
           th_memory(t->ctx).peak, (long long)th_module_count(t->model), (unsigned)th_module_crc32c(t->model));
    expect(t, print_loss(t, in_run(t->run, "text.tokens"), chosen.training_tokens));
    expect(t, report_progress(t->ctx, t->run));
}

/* Prints the files that the run wrote, and the next command. */
static void print_files(const trainer *t)
{
    const char *const go_on[] = {"resume", as_word(t->run), NULL}, *const use[] = {"sample", as_word(t->run), NULL};
    print_written(in_run(t->run, "curves.svg"));
    print_written(in_run(t->run, "best.safetensors"));
    print_written(in_run(t->run, NEWEST_CHECKPOINT));
    print_next(program_path, PROGRAM, interrupted ? go_on : use);
}

/* Trains, from step 0 or from where the checkpoint was, and says how it ended; returns what main does. */
static int run_training(trainer *t, bool resume)
{
    double seconds;
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    expect(t, report_open(&t->report, t->ctx, t->run, resume, th_step(t->ctx), quiet));
    if (!resume)
        expect(t, take_stock(t));
    expect(t, train_to_the_end(t));
    expect(t, report_close(&t->report, &seconds));
    if (interrupted) {
        fprintf(stderr, PROGRAM ": stopped and saved at step %lld\n", (long long)th_step(t->ctx));
        print_files(t);
        return 128 + interrupted;
    }
    print_end(t, seconds);
    print_files(t);
    return EXIT_SUCCESS;
}

th_status rehearse(trainer *t, bool evaluate_only)
{
    const th_generate_options sample_options = {.prompts = th_zeros(t->ctx, TH_INT32, TH_SHAPE(1, 1)),
                                                .max_new_tokens = chosen.sample_tokens,
                                                .temperature = chosen.temperature,
                                                .slide = true};
    double loss = 0;
    if (evaluate_batch(t, &loss) || evaluate_only)
        return th_error_code(t->ctx);
    for (int64_t i = 0; i < chosen.accumulate; i++)
        if (add_batch(t, &loss))
            return th_error_code(t->ctx);
    if (th_optimizer_step(t->optimizer))
        return th_error_code(t->ctx);
    return chosen.sample_tokens > 0 ? th_generate(t->model, &sample_options, NULL) : TH_OK;
}

/* Returns how many of a text's tokens are for training; the rest is for validation. */
static int64_t training_share(int64_t tokens)
{
    return tokens - (int64_t)ceil((double)tokens * chosen.validation);
}

/* Prints the memory that training takes, found by a run of shapes without data. Closes the text. */
static int forecast(texts *text)
{
    const th_context_options shapes = {
        .threads = (int)chosen.threads, .shapes_only = true, .precision = precision_called(PROGRAM, chosen.precision)};
    trainer t = {.ctx = th_context_new(&shapes)};
    choose_model(&t, text, other_tokenizer);
    if (chosen.from)
        choose_windows(chosen.length > 0 ? 0 : training_share(count_tokens(&t, text)), false);
    close_texts(text);
    make_model(&t);
    make_batch(&t);
    make_optimizer(&t);
    for (int step = 0; step < 2; step++) /* after the second nothing is new */
        expect(&t, rehearse(&t, false));
    const th_memory_usage memory = th_memory(t.ctx);
    printf(PROGRAM ": parameters=%lld memory=%zu reserved=%zu (bytes at most in use, and taken from the "
                   "system; the log adds up to 0.1 kB for each of its lines)\n",
           (long long)th_module_count(t.model), memory.peak, memory.reserved_peak);
    th_context_free(t.ctx);
    return EXIT_SUCCESS;
}

/* Ends the program unless the tokens are enough: for a window and its last target in training, and for one target in
 * validation. */
static void check_length(const texts *text, int64_t tokens)
{
    char problem[600], advice[80] = "";
    const long long training = chosen.training_tokens, held_out = tokens - training;
    if (training > chosen.length && held_out > 1)
        return;
    if (held_out <= 1)
        snprintf(advice, sizeof advice, ", or a larger --validation");
    else if (training > 1)
        snprintf(advice, sizeof advice, ", or --length %lld", training - 1);
    snprintf(
        problem, sizeof problem,
        "%.200s is too short: of its %lld tokens, %lld are for training, which needs %lld (--length and 1 more), and "
        "%lld for validation, which needs 2. Give more text%s",
        text->name, (long long)tokens, training, (long long)chosen.length + 1, held_out, advice);
    give_up(PROGRAM, problem);
}

/* Writes the text as tokens. The last of them are for validation. */
static void write_tokens(trainer *t, const texts *text)
{
    const char *path = in_run(t->run, NEXT_TOKENS);
    expect(t, encode_text(t->ctx, t->tokenizer, text, path));
    th_token_file *file = th_token_file_open(t->ctx, path, NULL);
    expect_no_error(t);
    const int64_t tokens = th_token_file_count(file);
    th_token_file_close(file);
    expect_no_error(t);
    chosen.training_tokens = training_share(tokens);
    check_length(text, tokens);
}

static void print_documents(const trainer *t, const texts *text)
{
    if (text->documents > 1 && !quiet)
        fprintf(stderr, PROGRAM ": %zu documents, %zu bytes; %s\n", text->documents, text->count,
                ends_documents(t->tokenizer, text) ? "each ends with an end-of-text token"
                                                   : "the model has no end-of-text token to put between them");
}

/* Does everything that can fail before it removes the old run from the folder. */
static void begin_run(trainer *t, const texts *text)
{
    choose_model(t, text, other_tokenizer);
    print_documents(t, text);
    write_tokens(t, text);
    if (chosen.from)
        choose_windows(chosen.training_tokens, false);
    open_tokens(t, NEXT_TOKENS);
    make_model(t);
    make_batch(t);
    make_optimizer(t);
    if (chosen.from)
        expect(t, th_pretrained_load(t->model, chosen.from, NULL));
    replace_run(t->run);
    expect(t, th_tokenizer_save(t->tokenizer, t->run));
    chosen.tokenizer_hash = hash_of_tokenizer(t->run);
    write_settings(t->run);
}

/* Trains a new run in the folder. Closes the text. */
static int train_on(texts *text, const char *run)
{
    const th_context_options options = {.seed = (uint64_t)chosen.seed,
                                        .threads = (int)chosen.threads,
                                        .precision = precision_called(PROGRAM, chosen.precision)};
    make_folder(run, force);
    trainer t = {.run = run, .best = INFINITY, .ctx = th_context_new(&options)};
    begin_run(&t, text);
    close_texts(text);
    const int status = run_training(&t, false);
    th_context_free(t.ctx);
    return status;
}

static int train(int argc, char **argv)
{
    static const program_option more[] = {
        {"force", "replace a run that is there", .flag = &force, .group = "This time only"},
        {"other-tokenizer", "with --from: accept a --tokenizer that is not the model's", .flag = &other_tokenizer},
        {"memory", "print the memory that training would take, and exit", .flag = &only_memory},
        {"quiet", "no progress", .flag = &quiet},
        {0}};
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    if (words == NULL)
        give_up(PROGRAM, "out of memory");
    const int count = parse_options_and_words(
        argc, argv, PROGRAM,
        "language_model train TEXT... [RUN] [OPTION...]\n"
        "Trains a model on texts and writes it to the folder RUN, the last word (default, after one text: run).\n"
        "A TEXT is a file, a pipe, - (standard input), or a folder. Each file in a folder is a document. If there are\n"
        "several documents, each ends with an end-of-text token, and samples end at this token too.",
        options_with(more), words, argc);
    if (count < 1)
        refuse(PROGRAM, "train needs a text: a file, a folder, or - for standard input", "");
    settle();
    texts text = open_texts(words, count > 1 ? count - 1 : 1);
    const char *run = count > 1 ? words[count - 1] : "run";
    free(words);
    return only_memory ? forecast(&text) : train_on(&text, run);
}

/* Reports that nothing is left to train. Ends the program if --steps is less than the steps that are done. */
static void check_steps(const trainer *t, int64_t asked)
{
    char problem[400];
    const long long done = th_step(t->ctx);
    if (asked > 0 && asked < done) {
        snprintf(problem, sizeof problem,
                 "%.200s has done %lld steps already; --steps counts them too and must be more, not %lld", t->run, done,
                 (long long)asked);
        refuse(PROGRAM, problem, "");
    }
    if (done >= chosen.steps)
        fprintf(stderr, PROGRAM ": nothing is left to train: %lld of %lld steps are done; a larger --steps continues\n",
                done, (long long)chosen.steps);
}

static int resume(int argc, char **argv)
{
    int64_t steps = 0, threads = 0;
    const program_option options[] = {{"steps",
                                       "in all; the learning rates change to those of this total; 0: as the run began",
                                       .whole = &steps, .low = 0, .high = 1e9},
                                      {"threads", "0: as the run began", .whole = &threads, .low = 0, .high = 1024},
                                      {"quiet", "no progress", .flag = &quiet},
                                      {0}};
    const char *run = NULL;
    if (parse_options_and_words(
            argc, argv, PROGRAM,
            "language_model resume RUN [OPTION...]\nContinues a stopped run, with the same result as without the stop.",
            options, &run, 1) < 1)
        refuse(PROGRAM, "resume needs the folder of a run", "");
    if (is_model_folder(run))
        refuse(PROGRAM, "this is a model, not a run; train TEXT --from FOLDER trains it further: ", run);
    lock_run(run);
    const char *checkpoint = find_intact_checkpoint(run);
    trainer t;
    open_run(&t, run, checkpoint, false);
    make_batch(&t);
    make_optimizer(&t);
    open_tokens(&t, "text.tokens");
    if (threads > 0)
        expect(&t, th_set_threads(t.ctx, (int)threads));
    if (steps > 0)
        chosen.steps = steps;
    expect(&t, load(&t, checkpoint));
    check_steps(&t, steps);
    if (strcmp(checkpoint, NEWEST_CHECKPOINT) != 0)
        fprintf(stderr, PROGRAM ": continues from the older checkpoint %s, at step %lld\n", in_run(run, checkpoint),
                (long long)th_step(t.ctx));
    return_to_checkpoint(run, checkpoint);
    const int status = run_training(&t, true);
    th_context_free(t.ctx);
    return status;
}

/* -- the program -- */

static const struct {
    const char *name, *about;
    int (*function)(int argc, char **argv);
} subcommands[] = {
    {"train", "TEXT... [RUN]  trains a model on texts: files, folders, pipes, or -", train},
    {"resume", "RUN           continues a stopped run, with the same result as without the stop", resume},
    {"sample", "RUN           writes text; RUN may also be a transformers folder", sample},
    {"eval", "RUN             prints loss, perplexity and bits per byte; RUN as for sample", eval},
    {"export", "RUN FOLDER    writes the model for Hugging Face transformers", export},
};
enum { SUBCOMMANDS = sizeof subcommands / sizeof *subcommands };

static void print_subcommands(FILE *file)
{
    fputs("language_model: any text in, a model out\n\n", file);
    for (int i = 0; i < SUBCOMMANDS; i++)
        fprintf(file, "  language_model %s %s\n", subcommands[i].name, subcommands[i].about);
    fputs("\nEach has options: language_model train --help. --version prints the version. A first model in about a "
          "minute:\n\n"
          "  language_model train input.txt run\n"
          "  language_model sample run --prompt \"Once\"\n",
          file);
}

/* Where the standard output or error is closed, the next file to be opened would take its number, and with it what is
 * meant to be read: a log, say, the progress line. So something else takes it, which cannot be written. */
static void keep_standard_descriptors(void)
{
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++)
        if (fcntl(i, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != i)
            exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    keep_standard_descriptors();
    program_path = argv[0] ? argv[0] : PROGRAM;
    for (int i = 0; argc > 1 && i < SUBCOMMANDS; i++)
        if (strcmp(argv[1], subcommands[i].name) == 0) {
            char name[64]; /* getopt's sentences begin with it */
            snprintf(name, sizeof name, PROGRAM " %s", subcommands[i].name);
            argv[1] = name;
            const int status = subcommands[i].function(argc - 1, argv + 1);
            finish_output(PROGRAM);
            return status;
        }
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        print_version(PROGRAM);
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_subcommands(stdout);
        exit_after_printing();
    }
    if (argc > 1)
        fprintf(stderr, PROGRAM ": there is no command %s\n\n", argv[1]);
    print_subcommands(stderr);
    return 2;
}

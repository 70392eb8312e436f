/* The subcommand train: trains a new model on texts. */
#include <math.h>

#include "../processes.h"
#include "trainer.h"

static bool force, only_memory, quiet, other_tokenizer;

/* Returns the number of a text's tokens that are for training. The rest is for validation. */
static int64_t training_share(int64_t tokens)
{
    return tokens - (int64_t)ceil((double)tokens * chosen.validation);
}

/* Prints the memory that training takes, measured in a shapes-only context. */
static void forecast(trainer *t, const char *const *words, int count)
{
    texts text = open_texts(words, count);
    choose_model(t, &text, other_tokenizer);
    if (chosen.from)
        choose_windows(chosen.length > 0 ? 0 : training_share(count_tokens(t, &text)), false);
    close_texts(&text);
    make_model(t);
    make_batch(t);
    make_optimizer(t);
    for (int step = 0; step < 2; step++) /* the second step reaches the peak */
        expect(t, rehearse(t, false));
    const th_memory_usage memory = th_memory(t->ctx);
    printf(PROGRAM ": parameters=%lld memory=%zu reserved=%zu (largest number of bytes in use, and reserved "
                   "from the system; the log adds up to 0.1 kB for each of its lines)\n",
           (long long)th_module_count(t->model), memory.peak, memory.reserved_peak);
}

/* Ends the program if the text is too short: training needs a window and its last target, validation needs one
 * target. */
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

/* Writes the tokens of the text. The last ones are for validation. */
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

/* Prepares a run. Everything that can fail comes before the removal of the old run. */
static void begin_run(trainer *t, const texts *text)
{
    choose_model(t, text, other_tokenizer);
    print_documents(t, text);
    write_tokens(t, text);
    if (chosen.from)
        choose_windows(chosen.training_tokens, false);
    open_windows(t, NEXT_TOKENS);
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

/* Opens the run that the first process has begun. */
static void join_run(trainer *t)
{
    read_settings(t->run);
    load_tokenizer(t);
    open_windows(t, "text.tokens");
    make_model(t);
    make_batch(t);
    make_optimizer(t);
    if (chosen.from)
        expect(t, th_pretrained_load(t->model, chosen.from, NULL));
}

/* Trains a new run in the folder. The first process reads the words' texts. */
static int train_on(trainer *t, const char *const *words, int count)
{
    if (is_first(t)) {
        texts text = open_texts(words, count);
        make_folder(t->run, force);
        begin_run(t, &text);
        close_texts(&text);
    }
    follow_first(t);
    if (!is_first(t))
        join_run(t);
    return run_training(t, false);
}

int train(int argc, char **argv)
{
    static const program_option more[] = {
        {"force", "replace a run that is there", .flag = &force, .group = "This time only"},
        {"other-tokenizer", "with --from: accept a --tokenizer that is not the model's", .flag = &other_tokenizer},
        {"memory", "print the memory that training would take, and exit", .flag = &only_memory},
        {"quiet", "no progress line", .flag = &quiet},
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
    complete_settings();
    const th_context_options options = {.seed = (uint64_t)chosen.seed,
                                        .threads = (int)chosen.threads,
                                        .shapes_only = only_memory,
                                        .precision = precision_called(PROGRAM, chosen.precision)};
    const int documents = count > 1 ? count - 1 : 1;
    trainer t = {.run = count > 1 ? words[count - 1] : "run", .quiet = quiet, .best = INFINITY};
    int status = EXIT_SUCCESS;
    start_processes(&argc, &argv);
    join_group(&t, &options);
    check_processes(PROGRAM, t.group, chosen.shards);
    expect(&t, share_processors(t.ctx, chosen.threads));
    if (!only_memory)
        status = train_on(&t, words, documents);
    else if (is_first(&t))
        forecast(&t, words, documents);
    free(words);
    th_context_free(t.ctx);
    end_processes();
    return status;
}

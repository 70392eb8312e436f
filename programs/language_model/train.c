/* The subcommands train and tune: train a new model on texts, and a pretrained one on examples or documents. */
#include <math.h>
#include <string.h>

#include "plan.h"
#include "processes.h"
#include "shared/system.h"
#include "tuning.h"

static bool force, only_memory, quiet, other_tokenizer;
static bool tuning;       /* the subcommand is tune */
static bool has_examples; /* the words are files with examples */

enum { MARKED_LENGTH = 513 };           /* the smallest default length of windows of documents, and the last target */
static int64_t longest_document_tokens; /* tokens of the longest document */

/* Returns the number of a text's tokens that are for training. The rest is for validation. The text is encoded. */
static int64_t count_training_tokens(const texts *text, int64_t tokens)
{
    if (text->held_out > 0)
        return chosen.training_tokens;
    limit_validation(tokens);
    return tokens - (int64_t)ceil((double)tokens * chosen.validation);
}

/* Completes the plan of a run, and sizes the model. */
static void complete_model(const trainer *t, int64_t tokens)
{
    if (!has_recipe())
        size_model(t);
    complete_plan(t, tokens);
}

/* Finds out what the texts are: examples, documents that are packed, or one text that is cut anywhere. */
static void detect_kind(const texts *text)
{
    const size_t examples = count_example_documents(text);
    const bool all_are_examples = examples == text->documents;
    if (tuning && !has_examples && examples > 0 && !all_are_examples)
        refuse_mixed(text);
    if (tuning)
        has_examples = has_examples || all_are_examples;
    else if (all_are_examples && chosen.from)
        fprintf(stderr, PROGRAM ": these are examples, but train reads them as texts; tune reads examples\n");
    if (tuning && !has_examples)
        check_texts(text);
    if (tuning && !has_examples && !has_documents(text))
        chosen.marked = false;
}

static void print_memory_forecast(const trainer *t)
{
    enum { TEXT = 32 };
    const th_memory_usage memory = th_memory(t->ctx);
    const size_t reserved = memory.reserved_peak + memory.mapped, machine = machine_memory();
    char tensor_text[TEXT], reserved_text[TEXT], machine_text[TEXT];
    printf(PROGRAM ": parameters=%lld memory=%zu reserved=%zu\n", (long long)th_module_count(t->model), memory.peak,
           memory.reserved_peak);
    printf(PROGRAM ": training takes %s of memory (tensors: at most %s); this machine has %s\n",
           spell_bytes(reserved, reserved_text, TEXT), spell_bytes(memory.peak, tensor_text, TEXT),
           machine > 0 ? spell_bytes(machine, machine_text, TEXT) : "an unknown amount");
}

/* Prints the memory that training takes, measured in a shapes-only context. */
static void forecast_memory(trainer *t, const char *const *words, int count)
{
    texts text = open_texts(words, count, chosen.validation_file);
    int64_t tokens = 0;
    detect_kind(&text);
    choose_tokenizer(t, &text, other_tokenizer);
    if (has_recipe() || (chosen.from && chosen.length == 0 && !chosen.marked)) {
        tokens = count_tokens(t, &text);
        chosen.training_tokens = count_training_tokens(&text, tokens);
    }
    complete_model(t, tokens);
    if (chosen.from)
        choose_windows(chosen.marked ? MARKED_LENGTH : chosen.training_tokens, false);
    close_texts(&text);
    make_model(t);
    make_batch(t);
    make_optimizer(t);
    for (int step = 0; step < 2; step++) /* the second step reaches the peak */
        require_ok(t, run_memory_trial(t, false));
    print_memory_forecast(t);
}

/* Ends the program if the text is too short: training needs a window and its last target, validation needs one
 * target. */
static void check_length(const texts *text, int64_t tokens)
{
    char problem[600], advice[80] = "";
    const long long training = chosen.training_tokens, held_out = tokens - training;
    const long long length = chosen.length == 0 && has_recipe() ? 1 : chosen.length; /* the plan chooses a short one */
    if (training > length && held_out > 1)
        return;
    if (held_out <= 1)
        snprintf(advice, sizeof advice, text->held_out > 0 ? " for --validation" : ", or a larger --validation");
    else if (training > 1)
        snprintf(advice, sizeof advice, ", or --length %lld", training - 1);
    snprintf(
        problem, sizeof problem,
        "%.200s is too short: of its %lld tokens, %lld are for training, which needs %lld (--length and 1 more), and "
        "%lld for validation, which needs 2. Give more text%s",
        text->name, (long long)tokens, training, length + 1, held_out, advice);
    give_up(PROGRAM, problem);
}

/* Ends the program if the text for training, or the file for validation, has no tokens: all lines are blank. */
static void check_both_texts(const texts *text, int64_t tokens)
{
    char problem[400];
    snprintf(problem, sizeof problem, "%.300s has no examples",
             chosen.training_tokens == 0 ? text->name : chosen.validation_file);
    if (chosen.training_tokens == 0 || chosen.training_tokens == tokens)
        give_up(PROGRAM, problem);
}

/* Writes the tokens of the text. The last ones are for validation. Returns their number. */
static int64_t write_tokens(trainer *t, const texts *text)
{
    const char *path = path_in(t->run, NEXT_TOKENS);
    require_ok(t, has_examples ? encode_instructions(t, text, chosen.from, path)
                               : encode_text(t->ctx, t->tokenizer, text, path));
    th_token_file *file = th_token_file_open(t->ctx, path, NULL);
    require_no_error(t);
    const int64_t tokens = th_token_file_count(file);
    chosen.training_tokens =
        chosen.marked && text->held_out == 0 ? split_documents(t, file) : count_training_tokens(text, tokens);
    if (text->held_out > 0)
        check_both_texts(text, tokens);
    if (chosen.marked)
        longest_document_tokens = longest_document(t, file);
    th_token_file_close(file);
    require_no_error(t);
    return tokens;
}

/* Returns the number of tokens that a window should have. Documents stay whole, and share windows. */
static int64_t window_tokens(void)
{
    return !chosen.marked                            ? chosen.training_tokens
           : longest_document_tokens > MARKED_LENGTH ? longest_document_tokens
                                                     : MARKED_LENGTH;
}

static void print_documents(const trainer *t, const texts *text)
{
    if (has_documents(text) && !quiet)
        fprintf(stderr, PROGRAM ": %zu documents, %zu bytes; %s\n", text->documents, text->count,
                ends_documents(t->tokenizer, text) ? "each ends with an end-of-text token"
                                                   : "the model has no end-of-text token to put between them");
}

/* Makes the model, the tensors of a batch and the optimizer, and loads the weights of --from. */
static void make_model_and_optimizer(trainer *t)
{
    make_model(t);
    note_int8(PROGRAM, t->model, chosen.lora > 0 ? STORE_ADVICE : "");
    make_batch(t);
    make_optimizer(t);
    if (chosen.from && chosen.lora == 0) /* with adapters, make_model has loaded them */
        require_ok(t, th_pretrained_load(t->model, chosen.from, NULL));
}

/* Prepares a run. Everything that can fail comes before the removal of the old run. */
static void begin_run(trainer *t, const texts *text)
{
    chat_files files;
    choose_tokenizer(t, text, other_tokenizer);
    print_documents(t, text);
    const int64_t tokens = write_tokens(t, text);
    if (!chosen.marked)
        check_length(text, tokens);
    complete_model(t, tokens);
    if (chosen.from)
        choose_windows(window_tokens(), false);
    if (has_examples && longest_document_tokens > chosen.length + 1)
        fprintf(stderr,
                PROGRAM
                ": the longest example has %lld tokens, more than --length: longer ones are divided, and a part "
                "does not see the parts before it\n",
                (long long)longest_document_tokens);
    open_windows(t, NEXT_TOKENS);
    choose_steps(t, tuning);
    make_model_and_optimizer(t);
    read_base_chat_files(t, has_examples, &files);
    replace_run(t->run);
    require_ok(t, th_tokenizer_save(t->tokenizer, t->run));
    write_chat_files(t, &files);
    free_chat_files(&files);
    chosen.tokenizer_hash = hash_tokenizer(t);
    write_settings(t);
}

/* Opens the run that the first process has begun. */
static void join_run(trainer *t)
{
    read_settings(t);
    load_tokenizer(t);
    open_windows(t, "text.tokens");
    make_model_and_optimizer(t);
}

/* Trains a new run in the folder. The first process reads the words' texts. */
static int train_run(trainer *t, const char *const *words, int count)
{
    if (is_first_process(t)) {
        texts text = open_texts(words, count, chosen.validation_file);
        detect_kind(&text);
        create_run_folder(t->run, force);
        begin_run(t, &text);
        close_texts(&text);
        if (has_plan())
            write_command(t, words, count);
    }
    wait_for_first(t);
    if (!is_first_process(t))
        join_run(t);
    return run_training(t, false);
}

/* Takes the first word of `tune`, the model's folder, as --from. The settings keep its absolute path, because a run
 * with adapters needs the folder later. Returns the number of words that remain. */
static int take_model_folder(const char **words, int count)
{
    if (count < 2)
        refuse(PROGRAM, "tune needs the folder of a model, and examples (.jsonl) or texts", "");
    if (!is_model_folder(words[0]))
        refuse_folder(words[0], "a model");
    chosen.from = realpath(words[0], NULL);
    if (chosen.from == NULL)
        give_up_file(words[0], "found");
    memmove(words, words + 1, (size_t)(count - 1) * sizeof *words);
    return count - 1;
}

/* Checks that the words are either all examples or all texts. */
static void detect_examples(const char *const *words, int count)
{
    int lines = 0;
    for (int i = 0; i < count; i++)
        lines += has_examples_ending(words[i]);
    if (lines > 0 && lines < count)
        refuse(PROGRAM, "tune takes either files with examples (.jsonl) or texts, not both", "");
    has_examples = lines > 0;
}

static const char train_help[] =
    "language_model train TEXT... [RUN] [OPTION...]\n"
    "Trains a model on texts and writes it to the folder RUN, the last word (default, after one text: run).\n"
    "A TEXT is a file, a pipe, - (standard input), or a folder. Each file in a folder is a document. If there are\n"
    "several documents, each ends with an end-of-text token, and samples end at this token too.\n"
    "It trains for --minutes, with the best model and settings for this time, this machine and this text. An option\n"
    "that is given keeps its value. --recipe nanogpt, --from and --epochs have fixed defaults instead. The program\n"
    "prints the command that repeats the run anywhere with the same bits (RUN/command.txt).";
static const char tune_help[] =
    "language_model tune MODEL DATA... [RUN] [OPTION...]\n"
    "Trains a model further, and writes a run to the folder RUN, the last word (default, after one DATA: run). MODEL "
    "is\n"
    "a folder of Hugging Face transformers, or a GGUF file. DATA is a file with examples: JSON (lines, an array, "
    "objects in several lines), or a table "
    "with\n"
    "a header (CSV, TSV), also compressed with gzip or zstd. An example is one of these, or has other names that\n"
    "docs/instructions.md lists, such as instruction and output:\n"
    "    {\"prompt\": \"...\", \"completion\": \"...\"}\n"
    "    {\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, {\"role\": \"assistant\", \"content\": "
    "\"...\"}]}\n"
    "or texts, as for train. Only completions and messages of the assistant count for the loss. Examples and "
    "documents\n"
    "share windows and do not see each other. By default the weights stay as they are, and adapters of rank 16 are "
    "trained\n"
    "(LoRA). Then `language_model chat RUN` talks to the model, and `export` writes it.";

static int run_subcommand(int argc, char **argv)
{
    static const program_option extra_options[] = {
        PLAN_OPTIONS,
        {"force", "replace a run that is there", .flag = &force, .group = "This time only"},
        {"other-tokenizer", "with --from: accept a --tokenizer that is not the model's", .flag = &other_tokenizer},
        {"memory", "print the memory that training would take, and exit", .flag = &only_memory},
        {"quiet", "no progress line", .flag = &quiet},
        NO_MAPPING_OPTION,
        {0}};
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    if (words == NULL)
        give_up(PROGRAM, "out of memory");
    int count = parse_options_and_words(argc, argv, PROGRAM, tuning ? tune_help : train_help,
                                        tuning ? tuning_options(&extra_options[2]) : planned_options(extra_options),
                                        words, argc);
    if (tuning)
        count = take_model_folder(words, count);
    if (count < 1)
        refuse(PROGRAM, "train needs a text: a file, a folder, or - for standard input", "");
    if (tuning)
        detect_examples(words, count > 1 ? count - 1 : 1);
    if (was_given.steps && !was_given.epochs)
        chosen.epochs = 0;
    begin_plan(tuning);
    const th_context_options options = {.seed = (uint64_t)chosen.seed,
                                        .threads = (int)chosen.threads,
                                        .shapes_only = only_memory,
                                        .precision = parse_precision(PROGRAM, chosen.precision)};
    const int documents = count > 1 ? count - 1 : 1;
    trainer t = {.run = count > 1 ? words[count - 1] : "run", .quiet = quiet, .best = INFINITY};
    int status = EXIT_SUCCESS;
    start_processes(&argc, &argv);
    join_group(&t, &options);
    check_processes(PROGRAM, t.group, chosen.shards);
    require_ok(&t, share_processors(t.ctx, chosen.threads));
    if (!only_memory)
        status = train_run(&t, words, documents);
    else if (is_first_process(&t))
        forecast_memory(&t, words, documents);
    free(words);
    th_context_free(t.ctx);
    end_processes();
    return status;
}

int train(int argc, char **argv)
{
    return run_subcommand(argc, argv);
}

int tune(int argc, char **argv)
{
    tuning = true;
    set_tuning_defaults();
    return run_subcommand(argc, argv);
}

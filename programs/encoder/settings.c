/* The options of train. A checkpoint has the words of the command line, and resume reads them again. */
#include <string.h>

#include "encoder/encoder.h"

const char *const program_name = PROGRAM;

settings chosen = {
    .task = NULL,
    .loss = NULL,
    .precision = "float32",
    .validation = 0.1,
    .epochs = 3,
    .batch = 16,
    .seed = 1,
    .lr = 5e-5,
    .warmup = 0.1,
    .clip = 1,
    .dropout = -1,
    .log_every = 10,
};

static const program_option train_options[] = {
    {"task", "embed, classify, tokens, regress or spans", .text = &chosen.task, .group = "The task"},
    {"loss", "of embed: ranking for pairs and triplets, cosent for scores; or cosine, triplet", .text = &chosen.loss},
    {"pooling", "of embed: cls, mean, max or lasttoken (default: the model's, or mean)", .text = &chosen.pooling},
    {"text", "the columns of the texts, between commas (default: usual names)", .text = &chosen.text_columns},
    {"label", "the column of the label or the score (default: usual names)", .text = &chosen.label_column},
    {"columns", "the names of all columns, between commas, of a table without a header", .text = &chosen.columns},
    {"validation", "the share of the examples for validation, which the seed chooses", .real = &chosen.validation,
     .low = 0, .high = 0.9},
    {"validation-file", "a file with examples for validation, instead of a share", .text = &chosen.validation_file},
    {"length", "the largest number of tokens of a text; 0: the model's", .integer = &chosen.length, .low = 0,
     .high = 1e6},
    {"epochs", "passes over the examples", .integer = &chosen.epochs, .low = 1, .high = 1e4, .group = "The training"},
    {"batch", "examples in a step", .integer = &chosen.batch, .low = 1, .high = 65536},
    {"lr", "the highest learning rate", .real = &chosen.lr, .low = 1e-12, .high = 1e3},
    {"warmup", "the share of the steps in which the rate rises; then it falls to 0", .real = &chosen.warmup, .low = 0,
     .high = 1},
    {"weight-decay", "of matrices", .real = &chosen.weight_decay, .low = 0, .high = 10},
    {"clip", "the largest norm of the gradient; 0: none", .real = &chosen.clip, .low = 0, .high = 1e9},
    {"dropout", "-1: the model's", .real = &chosen.dropout, .low = -1, .high = 0.9},
    {"lora", "the rank of adapters, which are trained instead of the encoder's weights; 0: none",
     .integer = &chosen.lora, .low = 0, .high = 4096},
    {"freeze", "parameters that do not change, such as 'embedding.*,layers.0.*'", .text = &chosen.freeze},
    {"precision", PRECISION_HELP, .text = &chosen.precision},
    {"in-order", "the examples come in the order of the data, not shuffled", .flag = &chosen.in_order},
    {"seed", "of all random numbers", .integer = &chosen.seed, .low = 0, .high = 1e15},
    {"threads", "0: one for each processor", .integer = &chosen.threads, .low = 0, .high = 1024},
    {"log-every", "steps between two lines in the log", .integer = &chosen.log_every, .low = 1, .high = 1e9,
     .group = "The reports"},
    {"force", "replace a run that is there", .flag = &chosen.force},
    {"quiet", "no progress line", .flag = &chosen.quiet},
    {0},
};

encoder_task parse_task(const char *word)
{
    static const char *const names[] = {"embed", "classify", "tokens", "regress", "spans"};
    for (int i = 0; word && i < 5; i++)
        if (strcmp(word, names[i]) == 0)
            return (encoder_task)i;
    refuse(PROGRAM, "--task takes embed, classify, tokens, regress or spans, not ", word ? word : "nothing");
    return TASK_EMBED;
}

/* Ends the program for options that the task does not have. */
static void check_task_options(void)
{
    static const char *const losses[] = {"ranking", "cosent", "cosine", "triplet"};
    bool known = chosen.loss == NULL;
    for (size_t i = 0; !known && i < sizeof losses / sizeof *losses; i++)
        known = strcmp(chosen.loss, losses[i]) == 0;
    if (!known)
        refuse(PROGRAM, "--loss takes ranking, cosent, cosine or triplet, not ", chosen.loss);
    if (parse_task(chosen.task) != TASK_EMBED && (chosen.loss || chosen.pooling))
        refuse(PROGRAM, chosen.loss ? "--loss is for the task embed, not " : "--pooling is for the task embed, not ",
               chosen.task);
}

void read_settings(int argc, char **argv)
{
    const char *words[3] = {NULL};
    optind = 1;
    if (parse_options_and_words(
            argc, argv, PROGRAM,
            "encoder train MODEL DATA RUN --task TASK [OPTION...]\n"
            "Trains a pretrained encoder. MODEL is a folder of Hugging Face transformers or of\n"
            "sentence-transformers. DATA is a table with a header (CSV, TSV) or JSON, also\n"
            "compressed with gzip or zstd. The names of the columns:\n\n"
            "  embed     anchor, positive (and negative), or sentence1, sentence2 (and score)\n"
            "  classify  text, label; text1, text2, label; a list of labels in JSON: several for a text\n"
            "  tokens    tokens, ner_tags: lists in JSON; or CoNLL's lines of a word and its tag\n"
            "  regress   text, score\n"
            "  spans     question, context, answer: a part of the context; or SQuAD's answers in JSON",
            train_options, words, 3) < 3)
        refuse(PROGRAM, "train needs the folder of a model, a file of examples, and a folder for the run", "");
    chosen.model = words[0];
    chosen.data = words[1];
    chosen.run = words[2];
    check_task_options();
    if (chosen.run[0] == 0)
        refuse(PROGRAM, "the name of the run's folder is empty", "");
}

const char *settings_to_text(int argc, char **argv)
{
    size_t bytes = 1;
    for (int i = 0; i < argc; i++) {
        if (strchr(argv[i], '\n'))
            refuse(PROGRAM, "a word of the command line has a line break: ", argv[i]);
        bytes += strlen(argv[i]) + 1;
    }
    char *text = calloc(bytes, 1);
    for (int i = 0; text && i < argc; i++) {
        strcat(text, argv[i]);
        strcat(text, "\n");
    }
    if (text == NULL)
        give_up(PROGRAM, "out of memory");
    return text;
}

void settings_from_text(char *text)
{
    enum { MAX_WORDS = 2 * MAX_OPTIONS };
    static char *words[MAX_WORDS + 1];
    int count = 0;
    for (char *end; count < MAX_WORDS && (end = strchr(text, '\n')) != NULL; text = end + 1) {
        *end = 0;
        words[count++] = text;
    }
    if (count == 0)
        give_up(PROGRAM, "the checkpoint has no settings of this program");
    read_settings(count, words);
}

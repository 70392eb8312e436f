/* Tunes encoders, such as BERT and all-MiniLM-L6-v2: sentence embeddings, classifiers, tags of words, scores.
 *
 *     encoder train MODEL intents.csv run --task classify     MODEL: a folder of Hugging Face transformers
 *     encoder predict run "where is my parcel"
 *
 *     encoder train MODEL pairs.csv run --task embed          MODEL: also a folder of sentence-transformers
 *     encoder search run texts.txt "my parcel is late"
 *
 * This file selects the subcommand. The folder encoder/ contains the rest:
 *
 *     settings.c   the options of train
 *     data.c       examples from files, and batches of them
 *     tasks.c      what differs between the tasks: the loss of a batch, the measures of an evaluation
 *     train.c      the training run
 *     model.c      opens and saves models
 *     use.c        eval, predict, export
 *     search.c     embed, search
 *     lines.c      the lines of a file
 *
 * A run is a folder:
 *
 *     model/             the best model so far, a folder of transformers or sentence-transformers
 *     last.safetensors   the newest checkpoint: everything needed to continue with the same bits
 *     log.jsonl          losses and measures; events.* for TensorBoard
 *     curves.svg         the same to look at
 *     confusion.svg      of a classifier: which label it takes for which */
#include "encoder/encoder.h"

#include "shared/system.h"

const char *program_path;

static const struct {
    const char *name, *about;
    int (*function)(int argc, char **argv);
} subcommands[] = {
    {"train", "MODEL DATA RUN      trains a pretrained encoder on examples", train},
    {"resume", "RUN                continues a stopped run, with the same result as without the stop", resume},
    {"eval", "RUN DATA             measures a model on examples", eval},
    {"predict", "RUN TEXT          prints labels or scores of a text, or of the lines of a file", predict},
    {"embed", "RUN FILE            writes the embeddings of the lines of a file", embed},
    {"search", "RUN FILE QUERY     prints the lines of a file that are nearest to a query", search},
    {"export", "RUN FOLDER         writes the model for transformers or sentence-transformers", export_folder},
};
enum { SUBCOMMANDS = sizeof subcommands / sizeof *subcommands };

static void print_subcommands(FILE *file)
{
    fputs("encoder: tunes encoders for sentence embeddings, classification, tags of words and scores\n\n", file);
    for (int i = 0; i < SUBCOMMANDS; i++)
        fprintf(file, "  encoder %s %s\n", subcommands[i].name, subcommands[i].about);
    fputs("\nA MODEL is a folder of Hugging Face transformers or sentence-transformers, and may also be given as RUN.\n"
          "Each has options: encoder train --help. --version prints the version. A first classifier:\n\n"
          "  encoder train MODEL data.csv run --task classify     data.csv has the columns text and label\n"
          "  encoder predict run \"a new text\"\n",
          file);
}

int main(int argc, char **argv)
{
    begin_process(&argc, &argv);
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN); /* beyond the limit of `ulimit -f`, writing fails with a message as on a full disk */
#endif
    program_path = argv[0] ? argv[0] : PROGRAM;
    for (int i = 0; argc > 1 && i < SUBCOMMANDS; i++)
        if (strcmp(argv[1], subcommands[i].name) == 0) {
            char name[64]; /* getopt begins its messages with it */
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
        fprintf(stderr, PROGRAM ": unknown command: %s\n\n", argv[1]);
    print_subcommands(stderr);
    return 2;
}

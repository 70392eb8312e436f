/* Tunes encoders, such as BERT and all-MiniLM-L6-v2: sentence embeddings, classifiers, tags of words, scores, answers of
 * questions.
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
 *     attention.c  a picture of attention weights
 *     spans.c      answers of questions that are parts of a text
 *     tasks.c      what differs between the tasks: the loss of a batch, the measures of an evaluation
 *     train.c      the training run
 *     model.c      opens and saves models
 *     use.c        eval, predict
 *     export.c     export
 *     search.c     embed, search
 *     lines.c      the lines of a file
 *
 * A run is a folder:
 *
 *     model/             the best model so far, a folder of transformers or sentence-transformers
 *     last.safetensors   the newest checkpoint: everything needed to continue with the same bits
 *     log.jsonl          losses and measures; events.* for TensorBoard
 *     curves.svg         the same to look at
 *     attention.svg      what the tokens of a text attend to
 *     confusion.svg      of a classifier: which label it takes for which */
#include "encoder/encoder.h"

static const subcommand subcommands[] = {
    {"train", "MODEL DATA RUN      trains a pretrained encoder on examples", train},
    {"resume", "RUN                continues a stopped run, with the same result as without the stop", resume},
    {"eval", "RUN DATA             measures a model on examples", eval},
    {"predict", "RUN TEXT          prints labels or scores of a text, or of the lines of a file", predict},
    {"embed", "RUN FILE            writes the embeddings of the lines of a file", embed},
    {"search", "RUN FILE QUERY     prints the lines of a file that are nearest to a query", search},
    {"export",
     "RUN FOLDER         writes the model for transformers or sentence-transformers; RUN --gguf FILE: for llama.cpp",
     export},
    {NULL, NULL, NULL},
};

static const char advice[] =
    "A MODEL is a folder of Hugging Face transformers or sentence-transformers, and may also be given as RUN.\n"
    "Each has options: encoder train --help. --version prints the version. A first classifier:\n\n"
    "  encoder train MODEL data.csv run --task classify     data.csv has the columns text and label\n"
    "  encoder predict run \"a new text\"\n";

int main(int argc, char **argv)
{
    return run_named_subcommand(
        argc, argv, subcommands,
        "tunes encoders for sentence embeddings, classification, tags of words, scores and answers", advice);
}

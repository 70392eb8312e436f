/* Trains a language model, a small GPT-2 or Llama, on any text, and tunes pretrained models.
 *
 *     language_model train shakespeare.txt run        a minute, or --minutes N
 *     language_model sample run --prompt "ROMEO:"
 *
 *     language_model tune MODEL data.jsonl tuned      MODEL: a folder of Hugging Face transformers, or a GGUF file
 *     language_model chat tuned
 *     language_model export tuned merged              or --adapter for PEFT, or --gguf FILE for llama.cpp
 *
 * This file selects the subcommand. The folder language_model/ contains the rest. The global variable `chosen` contains
 * the settings, from the command line or from a checkpoint. Where to make a change:
 *
 *     a new option                        a member in settings.h, and a line of the table in settings.c
 *     another model                       the options that complete_settings() sets in settings.c
 *     other defaults for a new model      the table in recipes.c
 *     other defaults for --from           length.c
 *     another tokenizer                   make_tokenizer() in corpus.c
 *     another optimizer                   make_optimizer() in model.c
 *     another schedule or training step   train_step() in training.c
 *
 * A run is a folder:
 *
 *     config.json             the settings, for readers; every checkpoint contains them too
 *     command.txt             the command that repeats the run, if time or text chose settings
 *     tokenizer.json          with vocab.json and merges.txt for bpe
 *     text.tokens             the text as tokens: first the training tokens, then the validation tokens
 *     last.safetensors        the newest checkpoint: everything needed to continue with the same bits
 *     last.1.safetensors ...  the checkpoints before it, if --keep is more than 1
 *     best.safetensors        the weights with the lowest validation loss so far
 *     log.jsonl, events.*     for programs and for TensorBoard
 *     curves.svg, samples/    to look at
 *
 * B batch, T length, V vocabulary. */
#include "language_model/trainer.h"

static const subcommand subcommands[] = {
    {"train", "TEXT... [RUN]  trains a model on texts: files, folders, pipes, or -", train},
    {"tune", "MODEL DATA [RUN]  trains a pretrained model further, on examples or texts", tune},
    {"resume", "RUN           continues a stopped run, with the same result as without the stop", resume},
    {"chat", "RUN             answers the lines of a conversation; RUN may also be a MODEL", chat},
    {"sample", "RUN           writes text; RUN may also be a MODEL", sample},
    {"eval", "RUN             prints loss, perplexity and bits per byte; RUN as for sample", eval},
    {"export", "RUN FOLDER    writes the model for Hugging Face transformers; RUN --gguf FILE: for llama.cpp", export},
    {NULL, NULL, NULL},
};

static const char advice[] =
    "A MODEL is a folder of Hugging Face transformers, or a GGUF file.\n"
    "Each has options: language_model train --help. --version prints the version. A first model in about a "
    "minute:\n\n"
    "  language_model train input.txt run\n"
    "  language_model sample run --prompt \"Once\"\n\n"
    "A pretrained model, tuned on lines like {\"prompt\": \"...\", \"completion\": \"...\"}:\n\n"
    "  language_model tune MODEL data.jsonl tuned\n"
    "  language_model chat tuned\n";

int main(int argc, char **argv)
{
    return run_named_subcommand(argc, argv, subcommands,
                                "trains a language model on any text, or tunes a pretrained one", advice);
}

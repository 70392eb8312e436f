/* Tuning a pretrained model on instructions: its defaults, its data as tokens with marks, and what was gained. */
#ifndef EXAMPLES_LANGUAGE_MODEL_TUNING_H
#define EXAMPLES_LANGUAGE_MODEL_TUNING_H

#include "trainer.h"

/* Sets the defaults of `tune`. The command line is read afterwards. */
void set_tuning_defaults(void);
/* Returns the options of `tune` with its defaults: those of `train` without the options of new models. more: as for
 * options_with. */
const program_option *tuning_options(const program_option *more);
/* Sets the steps by --epochs when the windows are open, and then the lines of the log, and the warm-up and the evaluations
 * of `tune` or --epochs. */
void choose_steps(const trainer *t, bool tuning);

/* -- data.c -- */
/* Returns whether a path is a file with lines of JSON, by its name. */
bool is_instructions(const char *path);
/* Returns how many of the texts begin with an example, an object of JSON. If all do, all are examples, whatever their
 * names are: of a pipe, or of files in a folder. */
size_t count_instructions(const texts *text);
/* Ends the program if a text is a table of examples, or a file that is not a text. Prints a message if it may be. */
void check_texts(const texts *text);
/* Writes the name of a document for messages: of its word, with a number if that has several documents. */
void name_document(const texts *text, size_t i, char *name, size_t bytes);

/* -- tuning.c -- */
/* Returns the chat template of a folder; --chat names its kind. It ends the program on an error. */
th_chat_template *choose_chat(trainer *t, const char *folder);
/* Writes the examples of the texts to a token file with marks. folder: of the chat template. Sets the training tokens of
 * the settings if documents are held out. */
th_status encode_instructions(trainer *t, const texts *text, const char *folder, const char *path);

/* -- chat_files.c -- */
/* Returns the folder that has the chat template: the run, or the model folder. */
const char *chat_folder(const trainer *t);
/* The files of a folder that tell how to chat with its model. A file without bytes is removed. */
enum { CHAT_FILES = 4 };
typedef struct chat_files {
    th_export_file file[CHAT_FILES];
    th_text text[CHAT_FILES]; /* of the files */
    int count;
} chat_files;
/* Each of these three functions begins `c`, which free_chat ends, and ends the program on an error. */
/* Reads the files that a run keeps from the folder of --from. instructions: the run trains on examples. */
void read_chat_to_keep(trainer *t, bool instructions, chat_files *c);
/* Reads the files of the run. */
void read_chat(trainer *t, chat_files *c);
/* Makes the files for the model of a GGUF file: its chat template (Jinja; it may be empty), which `c` owns from here on, and
 * the tokens that begin and end a text. begin: the first of them; -1: none. */
void read_gguf_chat(trainer *t, const th_text *jinja, int64_t begin, chat_files *c);
/* Writes the files to the run. It ends the program on an error. */
void write_chat(trainer *t, const chat_files *c);
void free_chat(chat_files *c);
/* Returns the token that begins a text: bos_token in tokenizer_config.json of the folder, otherwise the one that the
 * tokenizer puts there; -1: none. */
int64_t begin_token(trainer *t, const char *folder);

/* -- sources.c -- */
/* Returns whether the name ends with .gguf. */
bool is_gguf_name(const char *name);
/* Ends the program if a model written to `path`, a folder or a file, would replace the source or a file of it. The model
 * from which the run was tuned is a source too. */
void keep_sources(const char *source, const char *path);

/* -- gguf.c -- */
/* Returns the type of this name, in which export writes weights. blocks: GGUF's types too. Ends the program for another
 * name. */
th_dtype type_to_write(const char *name, bool blocks);
/* Opens the model of a GGUF file, its tokenizer, and the tokens that begin and end a text, and appends its chat
 * template to jinja. It ends the program on an error. */
void open_gguf(trainer *t, const char *path, th_text *jinja, int64_t *begin);

/* Returns the token at which the validation part of a file with marks begins: at the beginning of a document, with at
 * least one before and one after it. Ends the program if there is a single document. */
int64_t split_documents(trainer *t, th_token_file *file);
/* Returns the tokens of the longest document. */
int64_t longest_document(trainer *t, th_token_file *file);

/* Reads the prompt of a validation example from the run's tokens, unless the text has no marks or --prompt is given: the
 * first prompt that fits the model. Sets *end to the special token that ends its answer, or to -1. */
void read_question(trainer *t, th_token_list *question, int64_t *end);

/* Prints the loss before the first step. */
void print_start(const trainer *t, double loss);

#endif

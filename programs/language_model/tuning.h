/* Tuning a pretrained model on instructions: its defaults, its data as tokens with marks, and what was gained. */
#ifndef EXAMPLES_LANGUAGE_MODEL_TUNING_H
#define EXAMPLES_LANGUAGE_MODEL_TUNING_H

#include "trainer.h"

/* Sets the defaults of `tune`. The command line is read afterwards. */
void set_tuning_defaults(void);
/* Returns the options of `tune` with its defaults: those of `train` without the options of new models. more: as for
 * append_options. */
const program_option *tuning_options(const program_option *more);
/* Sets the options that depend on the number of windows: the steps by --epochs, and the lines of the log. With `tune`
 * or --epochs, sets the warm-up and the evaluations too. The windows must be open. */
void choose_steps(const trainer *t, bool tuning);

/* -- data.c -- */
/* Returns whether a path is a file with examples, by its name: JSON or a table, perhaps compressed. */
bool has_examples_ending(const char *path);
/* Returns how many of the texts are examples, by their names or by how they begin. */
size_t count_example_documents(const texts *text);
/* Ends the program with the names of two documents: one has examples, and the other is a text. */
void refuse_mixed(const texts *text);
/* Ends the program if a text is a file that is not a text. Prints a message for a text that looks like JSON. */
void check_texts(const texts *text);

/* -- tuning.c -- */
/* TEMPLATE_OPTIONS of a command that uses a model. */
typedef struct template_use {
    const char *chat, *template_variables, *template_date;
} template_use;
/* Replaces the settings by those that are given. */
void choose_template(const template_use *use);
/* Returns the chat template of a folder with the settings' variables and date; --chat names its kind. Without a date it
 * sets today's. It ends the program on an error. */
th_chat_template *load_chat_template(trainer *t, const char *folder);
/* Writes the examples of the texts to a token file with marks. folder: of the chat template. Sets the training tokens
 * of the settings if documents are held out. */
th_status encode_instructions(trainer *t, const texts *text, const char *folder, const char *path);

/* -- chat_files.c -- */
/* Returns the folder that has the chat template: the run, or the model folder. */
const char *chat_template_folder(const trainer *t);
/* The files of a folder that tell how to chat with its model. A file without bytes is removed. */
enum { CHAT_FILES = 4 };
typedef struct chat_files {
    th_export_file file[CHAT_FILES];
    th_text text[CHAT_FILES]; /* of the files */
    int count;
    th_text tool_template; /* for conversations with tools; without bytes: none */
} chat_files;
/* Each of these three functions fills `c`, which the caller frees with free_chat_files. They end the program on an
 * error. */
/* Reads the files that a run keeps from the folder of --from. instructions: the run trains on examples. */
void read_base_chat_files(trainer *t, bool instructions, chat_files *c);
/* Reads the files of the run. */
void read_chat_files(trainer *t, chat_files *c);
/* Makes the files for the model of a GGUF file. jinja: its chat template, which may be empty; `c` becomes its owner.
 * begin: the token that begins a text; -1: none. The settings have the token that ends a text. */
void make_gguf_chat_files(trainer *t, const th_text *jinja, int64_t begin, chat_files *c);
/* Writes the files to the run. It ends the program on an error. */
void write_chat_files(trainer *t, const chat_files *c);
/* Writes the template for conversations with tools to a folder, or removes an older one. It ends the program on an
 * error. */
void write_tool_template(trainer *t, const char *folder, const chat_files *c);
void free_chat_files(chat_files *c);
/* Returns the token that begins a text: bos_token in tokenizer_config.json of the folder, otherwise the one that the
 * tokenizer puts there; -1: none. */
int64_t find_begin_token(trainer *t, const char *folder);

/* -- sources.c -- */
/* Returns whether the name ends with .gguf. */
bool is_gguf_name(const char *name);
/* Ends the program if a model written to `path`, a folder or a file, would replace the source or a file of it. The
 * model from which the run was tuned is a source too. */
void protect_sources(const char *source, const char *path);

/* -- gguf.c -- */
/* Opens the model of a GGUF file, its tokenizer, and the tokens that begin and end a text, and appends its chat
 * template to jinja. It ends the program on an error. */
void open_gguf(trainer *t, const char *path, th_text *jinja, int64_t *begin);

/* Returns the token at which the validation part of a file with marks begins: at the beginning of a document, with at
 * least one before and one after it. Ends the program if there is a single document. */
int64_t split_documents(trainer *t, th_token_file *file);
/* Returns the tokens of the longest document. */
int64_t longest_document(trainer *t, th_token_file *file);

/* Reads the prompt of a validation example from the run's tokens, unless the text has no marks or --prompt is given:
 * the first prompt that fits the model. Sets *end to the special token that ends its answer, or to -1. */
void read_question(trainer *t, th_token_list *question, int64_t *end);

/* Prints the loss before the first step. */
void print_initial_loss(const trainer *t, double loss);

#endif

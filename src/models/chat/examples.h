/* Examples as people have them: a text becomes records, and a record becomes one of the forms that th_instruction_encode
 * knows. Kinds of faults are counted, so that one message names all of them. */
#ifndef TH_MODELS_CHAT_EXAMPLES_H
#define TH_MODELS_CHAT_EXAMPLES_H

#include <jansson.h>

#include "models/core/context.h"
#include "tapehead/chat.h"

enum { TH_MAX_EXAMPLE = 64 << 20, TH_EXAMPLE_DEPTH = 64 }; /* bytes, and nested objects and arrays */

/* -- shapes.c: the fields of an example -- */

enum { TH_FIELDS = 6 * (TH_QUOTED + 20) + 40 };        /* bytes of a list of fields */
enum { TH_PROBLEM = TH_FIELDS + 4 * TH_QUOTED + 300 }; /* bytes of a message about an example */

/* Writes the names and kinds of an object's fields: "question" (a text), "answers" (an array) and 2 more. */
void th_example_list_fields(const json_t *object, char list[TH_FIELDS]);
/* Returns what a value is, for messages: "a text". */
const char *th_example_kind_name(const json_t *value);

/* Returns a new reference to an object with one of the forms: "messages" with roles and contents, "prompt" and
 * "completion", or "text". An object that has a form already is returned itself. Returns NULL and writes a message into
 * problem if the object has no known fields. The message is empty, and the error is pending, if memory ran out. */
json_t *th_example_read(th_context *ctx, json_t *object, char problem[TH_PROBLEM]);
/* Returns whether an object with these keys, whose values are texts, is an example. */
bool th_example_has_columns(const json_t *object);
/* Returns the name of a field of examples, at index i; NULL after the last one. */
const char *th_example_field(size_t i);

/* -- records.c: the parts of a text -- */

/* A text is one of these: values of JSON, with any white space, or in arrays; a table; or sentences of words. */
typedef struct th_example_reader {
    const char *at, *end;
    const char *counted; /* lines are counted up to here */
    int64_t line;        /* of `counted`, from 1 */
    bool in_array;
    char delimiter;  /* of a table; 0: JSON */
    json_t *columns; /* of a table: its names, in lower case; an empty name is a column that is left out */
    bool sentences;  /* a word in each line, and an empty line after each sentence */
} th_example_reader;

typedef struct th_example_part {
    const char *text; /* [bytes], of JSON, or of a row */
    size_t bytes;
    int64_t line;        /* where it begins, from 1 */
    const char *problem; /* a fault; NULL: none so far */
} th_example_part;

/* Finds out what the text is. Returns false if memory runs out. The text must outlive the reader. */
bool th_examples_begin(th_example_reader *reader, const char *text, size_t bytes);
/* Does the same for a table without a header, whose columns have these names, between commas. */
bool th_examples_begin_table(th_example_reader *reader, const char *text, size_t bytes, const char *columns);
/* Does the same for words: JSON, or sentences. */
bool th_examples_begin_words(th_example_reader *reader, const char *text, size_t bytes);
/* Finds the next record. Returns false at the end. */
bool th_examples_next(th_example_reader *reader, th_example_part *record);
/* Frees what th_examples_begin has allocated. */
void th_examples_end(th_example_reader *reader);

/* -- table.c: rows by RFC 4180, separated by commas, semicolons, tabs or bars -- */

/* Reads the header at `first` and sets the reader's columns and delimiter, if it has several names, or one that is
 * enough. Returns false if memory runs out. */
bool th_example_columns(th_example_reader *reader, const char *first);
/* Sets the columns to names between commas, and the delimiter to the one that gives the row at `first` as many fields.
 * Returns false if memory runs out. */
bool th_example_name_columns(th_example_reader *reader, const char *first, const char *names);
/* Returns the end of the row at `at`, before its line break. Sets *problem if a quotation mark is wrong: then it is the end
 * of the line. */
const char *th_example_row_end(const th_example_reader *reader, const char *at, const char **problem);
/* Returns the row of a table as an object with texts. Returns NULL and sets *problem for a wrong row; *problem is NULL if
 * memory ran out. The caller releases the object. */
json_t *th_example_row(const th_example_reader *reader, const th_example_part *record, const char **problem);

/* -- sentences.c: a word and its label in each line, as CoNLL has them -- */

/* Returns the end of the sentence at `at`, before the empty line. */
const char *th_example_sentence_end(const char *at, const char *end);
/* Returns an object with two arrays of texts: the first and the last column of each line. Columns are separated by tabs, or
 * by spaces if the line has no tab. Returns NULL and sets *problem as th_example_row does. */
json_t *th_example_sentence(const th_example_part *record, const char *word_name, const char *label_name,
                            const char **problem);

/* -- faults.c: the kinds of faults in a text -- */

enum { TH_FAULT_KINDS = 4, TH_FAULT_TEXT = 700, TH_MAX_FAULTS = 1000 };

typedef struct th_faults {
    struct {
        char text[TH_FAULT_TEXT]; /* without the source */
        int64_t line, count;
    } kind[TH_FAULT_KINDS];
    int kinds;
    int64_t others;   /* examples with faults of further kinds */
    int64_t count;    /* of all examples with faults */
    th_status status; /* of the first fault */
} th_faults;

/* Takes the pending error of an example as a fault. source: where the example is, with which the error begins. */
void th_faults_take(th_faults *faults, th_context *ctx, const char *source, int64_t line);
/* Sets the operation's error, which names all kinds of faults. examples: those that were read. */
th_status th_faults_fail(const th_faults *faults, th_context *ctx, const char *operation, const char *name,
                         int64_t examples);

#endif

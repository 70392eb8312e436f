/* The internals of chat templates: programs of Jinja that write conversations, and the parts of a text that count. */
#ifndef TH_MODELS_CHAT_CHAT_H
#define TH_MODELS_CHAT_CHAT_H

#include <jansson.h>
#include <time.h>

#include "models/chat/examples.h"
#include "models/jinja/jinja.h"
#include "tapehead/chat.h"

/* -- kinds.c -- */

/* A kind of templates: a program of our own, which consists of two texts. */
typedef struct th_chat_kind {
    const char *name;
    const char *settings;      /* sets the variables of the body */
    const unsigned char *body; /* a file of kinds/, with NUL at its end */
} th_chat_kind;

/* Returns the kind with that name; NULL for none. */
const th_chat_kind *th_chat_find_kind(const char *name);
enum { TH_CHAT_LIST = 600 };
/* Writes the names of all kinds: "plain, chatml, ...". */
void th_chat_list_kinds(char text[TH_CHAT_LIST]);
/* Appends the program of a kind. Returns false if out of memory. */
bool th_chat_append_kind(const th_chat_kind *kind, th_text *text);

/* -- template.c -- */

struct th_chat_template {
    th_context *ctx;
    const char *kind;       /* a name of the table, or th_chat_jinja */
    char *bos, *eos;        /* "" for a tokenizer without the token */
    th_jinja *program;      /* writes conversations */
    th_jinja *tool_program; /* writes conversations with tools; NULL: program does */
    char *stop;             /* what the program writes after an answer; NULL: eos, or nothing */
    json_t *variables;      /* of the caller, an object; NULL: none */
    time_t now;             /* for strftime_now */
};

/* The kind of templates that are not of the table. */
extern const char th_chat_jinja[];

/* What a template is made from. */
typedef struct th_chat_source {
    const char *kind, *name; /* name: of the program, for messages */
    th_text text, tool_text; /* programs; without bytes: none */
    const char *bos, *eos;   /* NULL: none */
} th_chat_source;
/* Creates a template. Returns NULL with the error pending. */
th_chat_template *th_chat_template_make(th_context *ctx, const th_chat_source *source);
/* Creates a template of a kind. Returns NULL with the error pending. */
th_chat_template *th_chat_template_of_kind(th_context *ctx, const th_chat_kind *kind, const char *bos, const char *eos);
/* Whether the template can be used. */
bool th_chat_usable(const th_chat_template *chat, const char *operation);

/* -- render.c -- */

typedef struct th_chat_conversation {
    json_t *messages;  /* an array of objects */
    json_t *tools;     /* an array; NULL: none */
    json_t *variables; /* further variables of this conversation, an object; NULL: none */
    bool prompt;       /* the text ends where the next answer begins */
    bool all_thoughts;
} th_chat_conversation;

/* Writes a conversation. marks: sets the spans of the result to the parts that count, in ascending order. */
th_status th_chat_render(const th_chat_template *chat, const th_chat_conversation *conversation, bool marks,
                         th_jinja_result *to);
/* The same for messages of the caller. */
th_status th_chat_render_messages(const th_chat_template *chat, const th_chat_message *messages, size_t count,
                                  const th_chat_options *options, bool marks, th_jinja_result *to);
/* Returns the tag that the program writes after an answer, such as "<|im_end|>", allocated in the context. NULL if
 * there is none, or if it is eos. */
char *th_chat_find_stop(const th_chat_template *chat);
/* Refuses variables that are not an object, or that the library sets. */
th_status th_chat_check_variables(th_context *ctx, const char *operation, const json_t *variables);

/* -- encode.c -- */
/* Appends the tokens of a text, and their marks, unless marks is NULL. */
th_status th_chat_encode_text(const th_chat_template *chat, th_tokenizer *tokenizer, const th_jinja_result *written,
                              th_token_list *tokens, th_text *marks);

/* Appends `count` equal marks. Returns false if out of memory. */
bool th_add_marks(th_text *marks, unsigned char mark, size_t count);

/* -- content.c -- */
/* Checks the messages of an array. For a kind of the table it also joins contents that are parts with texts; other
 * programs get the parts. name: of the array. Returns false with a message in `problem`, which is empty if memory ran
 * out. */
bool th_chat_prepare(const th_chat_template *chat, json_t *messages, const char *name, char problem[TH_PROBLEM]);

#endif

/* The internals of chat templates: the kinds as data, and the text of a conversation with the parts that count. */
#ifndef TH_MODELS_CHAT_CHAT_H
#define TH_MODELS_CHAT_CHAT_H

#include <jansson.h>
#include <time.h>

#include "models/jinja/jinja.h"
#include "tapehead/chat.h"

/* In the texts of a kind: */
#define TH_BOS "\1" /* the beginning-of-text token */
#define TH_EOS "\2" /* the end-of-text token */
#define TH_DAY "\3" /* the date: "26 Jul 2024", or today's */

/* What differs from "each message is before + content + after". */
typedef enum th_chat_rule {
    TH_CHAT_TRIMS = 1,               /* white space around a content is removed */
    TH_CHAT_ALTERNATES = 2,          /* user and assistant alternate, beginning with the user */
    TH_CHAT_NO_SYSTEM = 4,           /* a system message is an error */
    TH_CHAT_SYSTEM_INSIDE = 8,       /* the system's text is inside the first message of the user */
    TH_CHAT_SYSTEM_AS_IS = 16,       /* the system's content is not trimmed */
    TH_CHAT_ALWAYS_SYSTEM = 32,      /* the system's text is always there, with an empty content */
    TH_CHAT_SKIPS_EMPTY_SYSTEM = 64, /* a system message without content is not written */
    TH_CHAT_COUNTS_LEAD = 128,       /* the last byte before an answer, a space or newline, belongs to it */
    TH_CHAT_THINKS = 256,            /* Qwen 3's thoughts */
    TH_CHAT_TODAY = 512,             /* TH_DAY is today */
    TH_CHAT_LAST_OPEN = 1024,        /* nothing follows the end-of-text token of the last answer */
    TH_CHAT_TRIMS_USER = 2048,       /* contents of the user are trimmed together with the system's text */
    TH_CHAT_SYSTEM_LAST = 4096,      /* the system's text is inside the last message, which must be the user's */
    TH_CHAT_TRIMS_ANSWER = 8192,     /* white space around an answer is removed */
    TH_CHAT_COUNTS_HEADER = 16384,   /* the text before an answer belongs to it */
    TH_CHAT_SMOLLM_3 = 32768         /* SmolLM 3's system message and empty thoughts */
} th_chat_rule;

typedef struct th_chat_turn {
    const char *before, *after;
} th_chat_turn;

typedef struct th_chat_kind {
    const char *name;
    const char *begin; /* before the first message */
    th_chat_turn system, user, assistant;
    const char *prompt;         /* before the next answer */
    const char *end;            /* after the last message, unless a prompt follows */
    const char *default_system; /* the system message of conversations without one; NULL: none */
    const char *stop;           /* the token that ends an answer */
    unsigned rules;
} th_chat_kind;

extern const th_chat_kind th_chat_table[];
enum { TH_CHAT_KINDS = 30, TH_CHAT_PLAIN = 0 };

struct th_chat_template {
    th_context *ctx;
    const th_chat_kind *kind;
    char *bos, *eos;   /* "" for a tokenizer without the token */
    th_jinja *program; /* the template that is not of a known kind, which writes conversations; NULL: the kind does */
    char *stop;        /* what ends an answer of the program; NULL: eos */
    time_t now;        /* the time for the program */
    char *thinking;    /* SmolLM 3: the long system message in the file of the template; NULL if it is not known */
};

/* A range of a text that counts for the loss: bytes begin .. end - 1. */
typedef struct th_chat_span {
    size_t begin, end;
} th_chat_span;

/* The text of a conversation. Initialize it with zeros. */
typedef struct th_chat_text {
    th_text text;
    th_chat_span *span; /* [spans], ascending */
    size_t spans, capacity;
} th_chat_text;
void th_chat_text_free(th_chat_text *text);

/* Writes a conversation (render.c). marks: finds the parts that count. */
th_status th_chat_render(const th_chat_template *chat, const th_chat_message *messages, size_t count,
                         const th_chat_options *options, bool marks, th_chat_text *to);

/* -- interpret.c -- */
extern const th_chat_kind th_chat_interpreted;
/* Writes a conversation by the template's program. messages: an array of objects. tools: an array, or NULL. */
th_status th_chat_interpret(const th_chat_template *chat, json_t *messages, json_t *tools, bool prompt, bool marks,
                            th_chat_text *to);
/* The same for messages with a role and a content. */
th_status th_chat_interpret_messages(const th_chat_template *chat, const th_chat_message *messages, size_t count,
                                     bool prompt, bool marks, th_chat_text *to);
/* Returns the tag that the program writes after an answer, such as "<|im_end|>", allocated in the context. NULL if
 * there is none, or if it is eos. */
char *th_chat_find_stop(const th_chat_template *chat);

/* -- encode.c -- */
/* Appends the tokens of a text, and their marks, unless marks is NULL. */
th_status th_chat_encode_text(const th_chat_template *chat, th_tokenizer *tokenizer, const th_chat_text *written,
                              th_token_list *tokens, th_text *marks);
/* Whether the template and the tokenizer can be used together. */
bool th_chat_usable(const th_chat_template *chat, const char *operation);

/* Appends bytes, followed by NUL. Returns false if out of memory. */
bool th_chat_append(th_text *text, const char *bytes, size_t count);

/* Appends `count` equal marks. Returns false if out of memory. */
bool th_add_marks(th_text *marks, unsigned char mark, size_t count);

/* Returns the long system message in SmolLM 3's template, allocated in the context; NULL if it is missing
 * (thoughts.c). */
char *th_chat_smollm_system_text(th_context *ctx, const char *jinja);

/* -- template.c -- */
enum { TH_CHAT_LIST = 600 };
/* Writes the names of all kinds: "plain, chatml, ...". */
void th_chat_list_kinds(char text[TH_CHAT_LIST]);
/* Returns the kind with that name; NULL with the error pending. */
const th_chat_kind *th_chat_find_kind(th_context *ctx, const char *name);
/* Creates a template. Returns NULL with the error pending. */
th_chat_template *th_chat_template_make(th_context *ctx, const th_chat_kind *kind, const char *bos, const char *eos);

/* Returns the kind of a template by its text; NULL if it is unknown (recognize.c). */
const th_chat_kind *th_chat_recognize(const char *jinja, size_t bytes);

#endif

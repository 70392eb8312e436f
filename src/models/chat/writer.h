/* The writer of a conversation: its state, strings and white space. */
#ifndef TH_MODELS_CHAT_WRITER_H
#define TH_MODELS_CHAT_WRITER_H

#include "models/chat/chat.h"

typedef struct th_chat_writer {
    const th_chat_template *chat;
    const th_chat_kind *kind;
    th_chat_text *to;
    bool all_thoughts;
    bool failed; /* out of memory */
} th_chat_writer;

/* A range of a text, without NUL at its end. */
typedef struct th_chat_string {
    const char *at;
    size_t count;
} th_chat_string;

/* Returns whether the kind has a rule. */
bool th_chat_has_rule(const th_chat_writer *w, th_chat_rule rule);
/* Writes a string unchanged. */
void th_chat_put_string(th_chat_writer *w, th_chat_string p);
/* Writes a text of the kind. The writer replaces its marks by tokens and the date. NULL: nothing. */
void th_chat_put_template_text(th_chat_writer *w, const char *text);
/* Writes the date of today: 05 Jul 2026, or 05 July 2026. */
void th_chat_put_today(th_chat_writer *w, bool whole_month);

/* Returns the string without white space at both ends, as Python's str.strip. */
th_chat_string th_chat_trim(th_chat_string p);
/* Returns the content of a message, trimmed if the kind trims contents. */
th_chat_string th_chat_content(const th_chat_writer *w, const th_chat_message *message);

/* -- thoughts.c -- */
/* Writes an answer of Qwen 3 with or without its thoughts. */
void th_chat_put_thoughts(th_chat_writer *w, const th_chat_message *messages, size_t count, size_t i);
/* Returns whether SmolLM 3's system message can be written: without instructions it is long, and only the template's
 * file has it. */
bool th_chat_can_write_smollm(const th_chat_writer *w, const char *system);
/* Writes the system message of SmolLM 3. system: its text, or NULL. */
void th_chat_put_smollm_system(th_chat_writer *w, const char *system);
/* Writes the empty thoughts of an answer of SmolLM 3, if the system message wants them, and the content, unless
 * NULL. */
void th_chat_put_smollm_answer(th_chat_writer *w, const char *system, const char *content);

#endif

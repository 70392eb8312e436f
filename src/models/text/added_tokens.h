/* Tokens that are found in a text before it is split: special tokens, and others that a file adds. */
#ifndef TH_MODELS_TEXT_ADDED_TOKENS_H
#define TH_MODELS_TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TH_MAX_ADDED_TOKENS = 1 << 14, TH_MAX_ADDED_TOKEN_BYTES = 512 };

typedef struct th_added_token {
    const char *content; /* [bytes], owned */
    size_t bytes;
    int32_t id;
    bool special;
    bool normalized;     /* found after all tokens that are not normalized */
    bool lstrip, rstrip; /* includes the white space before it, or after it */
} th_added_token;

typedef struct th_added_tokens {
    th_added_token *token; /* [count], sorted by content */
    size_t count, capacity;
    bool begins[2][256]; /* whether a token begins with this byte; [normalized] */
    bool any[2];
} th_added_tokens;

/* Copies the content, which has 1 to TH_MAX_ADDED_TOKEN_BYTES bytes, and replaces a token with the same content.
 * Returns false if out of memory. */
bool th_added_tokens_add(th_added_tokens *a, th_added_token token);
/* Returns the token with this content, or NULL. */
const th_added_token *th_added_tokens_find(const th_added_tokens *a, const char *content, size_t bytes);
/* Releases the memory. */
void th_added_tokens_release(th_added_tokens *a);

/* A search of a text for its tokens. The whole search takes time in proportion to the text. */
typedef struct th_added_search {
    const th_added_tokens *tokens;
    bool normalized; /* whether it finds the normalized tokens or the others */
    const char *text;
    size_t bytes;
    size_t next;       /* the search continues here */
    size_t begin, end; /* the last token found, including its white space */
    size_t spaces_end; /* the white space around `next` is known to end here */
} th_added_search;

/* Returns the next token: the first one, or the longest if several begin at the same byte. NULL at the end of the
 * text. The previous token ended at `from`; white space before `from` belongs to it. */
const th_added_token *th_added_search_next(th_added_search *s, size_t from);

#endif

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
    bool normalized;     /* found in normalized text, after all tokens that are not normalized */
    bool lstrip, rstrip; /* includes the white space before it, or after it */
    bool single_word;    /* only found between characters that do not belong to words */
} th_added_token;

/* Tokens sorted by content, each only once. */
typedef struct th_added_set {
    th_added_token *token; /* [count] */
    size_t count, capacity;
    bool begins[256]; /* whether a token begins with this byte */
} th_added_set;

typedef struct th_added_tokens {
    th_added_set all;
    th_added_set found[2]; /* [normalized]; the content of a normalized token is normalized */
} th_added_tokens;

/* Adds a token that is found by the text found[0 .. bytes-1]: its content, or that content normalized. If this text is
 * empty, the token is never found. Copies both. Replaces a token with the same content. Returns false if out of
 * memory. */
bool th_added_tokens_add(th_added_tokens *a, th_added_token token, const char *found, size_t bytes);
/* Returns the token with this content, or NULL. */
const th_added_token *th_added_tokens_find(const th_added_tokens *a, const char *content, size_t bytes);
/* Returns the normalized token with this id, whose content is normalized; NULL if there is none. */
const th_added_token *th_added_tokens_normalized(const th_added_tokens *a, int32_t id);
/* Returns another token that is found by the same text, or NULL. */
const th_added_token *th_added_tokens_conflict(const th_added_tokens *a, th_added_token token, const char *found,
                                               size_t bytes);
/* Returns the number of bytes that the tokens take. */
size_t th_added_tokens_memory(const th_added_tokens *a);
/* Releases the memory. */
void th_added_tokens_release(th_added_tokens *a);

/* A search of a text for its tokens. The whole search takes time in proportion to the text. */
typedef struct th_added_search {
    const th_added_set *tokens;
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

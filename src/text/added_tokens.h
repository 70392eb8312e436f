/* Tokens that are found in a text before it is split: special ones, and others that a file adds. */
#ifndef TH_TEXT_ADDED_TOKENS_H
#define TH_TEXT_ADDED_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TH_MAX_ADDED_TOKENS = 1 << 14 };

typedef struct th_added_token {
    const char *content; /* [bytes], its own */
    size_t bytes;
    int32_t id;
    bool special;
    bool normalized;     /* looked for after all that are not */
    bool lstrip, rstrip; /* takes white space before, behind it along */
} th_added_token;

typedef struct th_added_tokens {
    th_added_token *token; /* [count], sorted by content */
    size_t count, capacity;
    bool begins[2][256]; /* whether one begins with a byte; [normalized] */
    bool any[2];
} th_added_tokens;

/* Copies the content, which is not empty; in place of one with the same content. false when memory is out. */
bool th_added_tokens_add(th_added_tokens *a, th_added_token token);
void th_added_tokens_release(th_added_tokens *a);

/* The first and, there, longest token in text[from .. bytes-1]; NULL: none. *begin, *end: where it stands, with the
 * white space that it takes along. *next: where to go on looking. */
const th_added_token *th_added_tokens_next(const th_added_tokens *a, bool normalized, const char *text, size_t bytes,
                                           size_t from, size_t *begin, size_t *end, size_t *next);

#endif

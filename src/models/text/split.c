/* Splits a text into words: see split.h. */
#include "models/text/split.h"

#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/text/characters.h"

const char th_gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

typedef struct cutting {
    const th_text_split *split;
    th_context *ctx;
    const char *operation;
    th_word_sink sink;
} cutting;

void th_split_release(th_text_split *split)
{
    for (int i = 0; i < split->stages; i++) {
        th_pattern_free(split->stage[i].pattern);
        th_text_free(split->stage[i].buffer);
        free(split->stage[i].buffer);
    }
    *split = (th_text_split){0};
}

static th_status cut_piece(const cutting *c, int stage, th_piece piece);

/* -- patterns -- */

/* A match of a pattern, or a gap between matches. */
typedef struct fragment {
    size_t begin, end;
    bool match;
} fragment;

/* Whether two neighboring fragments become one word. */
static bool belong_together(th_split_behavior behavior, bool left_matches, bool right_matches)
{
    switch (behavior) {
    case TH_SPLIT_CONTIGUOUS:
        return left_matches == right_matches;
    case TH_SPLIT_PREVIOUS:
        return !left_matches && right_matches;
    case TH_SPLIT_NEXT:
        return left_matches && !right_matches;
    default:
        return false;
    }
}

/* Passes a word to the next stage, unless it is removed. */
static th_status finish_word(const cutting *c, int stage, th_piece piece, fragment word)
{
    const bool removed = word.match && c->split->stage[stage].behavior == TH_SPLIT_REMOVED;
    return word.begin == word.end || removed ? TH_OK
                                             : cut_piece(c, stage + 1, th_piece_of(piece, word.begin, word.end));
}

/* Adds a fragment, which perhaps extends the word before. Otherwise that word is complete, and goes to the next stage. */
static th_status add_fragment(const cutting *c, int stage, th_piece piece, fragment *word, fragment next)
{
    const th_split_stage *s = &c->split->stage[stage];
    next.match = next.match != s->inverted;
    if (next.begin == next.end)
        return TH_OK;
    if (word->begin < word->end && belong_together(s->behavior, word->match, next.match)) {
        word->end = next.end;
        word->match = next.match;
        return TH_OK;
    }
    const fragment complete = *word;
    *word = next;
    return finish_word(c, stage, piece, complete);
}

static th_status cut_by_pattern(const cutting *c, int stage, th_piece piece)
{
    fragment word = {0};
    th_pattern *pattern = c->split->stage[stage].pattern;
    th_pattern_begin(pattern, piece.text, piece.bytes);
    for (size_t at = 0; at < piece.bytes;) {
        size_t begin = piece.bytes, end = begin;
        if (th_pattern_next(pattern, at, &begin, &end) == TH_MATCH_NO_MEMORY)
            return th_fail_memory(c->ctx, c->operation, piece.bytes);
        if (add_fragment(c, stage, piece, &word, (fragment){at, begin, false}) ||
            add_fragment(c, stage, piece, &word, (fragment){begin, end, true}))
            return th_error_code(c->ctx);
        at = end;
    }
    return finish_word(c, stage, piece, word);
}

/* -- Metaspace -- */

/* Whether `space` is added before a piece. */
static bool begins_with_space(const th_split_stage *s, th_piece piece)
{
    const size_t space_bytes = strlen(s->space);
    const bool begins =
        *piece.text == ' ' || (piece.bytes >= space_bytes && memcmp(piece.text, s->space, space_bytes) == 0);
    return !begins && !piece.continues &&
           (s->prepend == TH_PREPEND_ALWAYS || (s->prepend == TH_PREPEND_FIRST && piece.first > 0));
}

/* Writes the piece with `space` instead of spaces into the buffer. Returns false if out of memory. */
static bool write_spaces(const th_split_stage *s, th_piece piece, size_t *first)
{
    const size_t space_bytes = strlen(s->space);
    th_text *out = s->buffer;
    out->count = *first = 0;
    if (begins_with_space(s, piece)) {
        if (!th_text_append(out, s->space, space_bytes))
            return false;
        *first = piece.first > 0 ? space_bytes : 0;
    }
    for (size_t at = 0; at < piece.bytes; at++) {
        const char *found = memchr(piece.text + at, ' ', piece.bytes - at);
        const size_t end = found ? (size_t)(found - piece.text) : piece.bytes;
        if (!th_text_append(out, piece.text + at, end - at) || (found && !th_text_append(out, s->space, space_bytes)))
            return false;
        if (at < piece.first)
            *first += (end < piece.first ? end : piece.first) - at;
        if (end < piece.first)
            *first += space_bytes;
        at = end;
    }
    return true;
}

static th_status cut_by_spaces(const cutting *c, int stage, th_piece piece)
{
    const th_split_stage *s = &c->split->stage[stage];
    const size_t space_bytes = strlen(s->space);
    th_piece spaced = {.continues = piece.continues};
    if (!write_spaces(s, piece, &spaced.first))
        return th_fail_memory(c->ctx, c->operation, piece.bytes);
    spaced.text = s->buffer->bytes;
    spaced.bytes = s->buffer->count;
    if (!s->splits)
        return cut_piece(c, stage + 1, spaced);
    size_t begin = 0;
    for (size_t at = 1; at < spaced.bytes; at++) {
        const char *next = memchr(spaced.text + at, s->space[0], spaced.bytes - at);
        at = next ? (size_t)(next - spaced.text) : spaced.bytes;
        if (spaced.bytes - at < space_bytes || memcmp(next, s->space, space_bytes) != 0)
            continue;
        if (cut_piece(c, stage + 1, th_piece_of(spaced, begin, at)))
            return th_error_code(c->ctx);
        begin = at;
    }
    return cut_piece(c, stage + 1, th_piece_of(spaced, begin, spaced.bytes));
}

/* -- all stages -- */

static th_status cut_piece(const cutting *c, int stage, th_piece piece)
{
    if (stage == c->split->stages)
        return c->sink.take(c->sink.user, piece.text, piece.bytes);
    return c->split->stage[stage].pattern ? cut_by_pattern(c, stage, piece) : cut_by_spaces(c, stage, piece);
}

th_status th_split_text(const th_text_split *split, th_context *ctx, const char *operation, th_piece text,
                        th_word_sink sink)
{
    const cutting c = {split, ctx, operation, sink};
    for (size_t at = 0; at < text.bytes; at++) { /* each run of valid UTF-8 is followed by an invalid byte */
        const size_t valid = th_valid_bytes(text.text + at, text.bytes - at);
        th_piece piece = th_piece_of(text, at, at + valid);
        piece.continues = at > 0;
        if (valid > 0 && cut_piece(&c, 0, piece))
            return th_error_code(ctx);
        at += valid;
        if (at < text.bytes && sink.take(sink.user, text.text + at, 1))
            return th_error_code(ctx);
    }
    return TH_OK;
}

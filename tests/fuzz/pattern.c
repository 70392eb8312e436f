/* Fuzz target: patterns of tokenizers. The input is a pattern, NUL, and a text. A pattern is compiled or refused with a
 * sentence. Matches are in order, not empty, and whole characters; the words of a split make up the text. An automaton
 * finds PCRE2's matches. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "models/text/pattern.h"
#include "models/text/pattern_automaton.h"
#include "models/text/split.h"

#include "fuzz.h"

enum { MAX_TEXT = 4096 };

/* The words of a split so far. */
typedef struct words {
    const char *at;
    int64_t count;
} words;

static th_status take_word(void *user, const char *word, size_t bytes)
{
    words *w = user;
    FUZZ_CHECK(word == w->at && bytes > 0, "the words do not make up the text");
    w->at = word + bytes;
    w->count++;
    return TH_OK;
}

/* Whether a pattern has matched to its end: it did not give up. */
static bool check_matches(th_pattern *p, fuzz_part text)
{
    uint64_t budget = th_pattern_budget(text.count);
    size_t at = 0, begin = 0, end = 0;
    th_match match;
    while ((match = th_pattern_next(p, text.bytes, text.count, at, &budget, &begin, &end)) == TH_MATCH) {
        FUZZ_CHECK(begin >= at && end >= begin && end <= text.count, "a match is outside the text");
        FUZZ_CHECK(th_valid_bytes(text.bytes + begin, end - begin) == end - begin, "a match cuts a character");
        if (end == begin) /* \K and the like */
            break;
        at = end;
    }
    return match != TH_MATCH_GAVE_UP;
}

static void check_split(th_pattern *p, fuzz_part text)
{
    th_context *ctx = fuzz_context(1 << 20);
    const th_text_split split = {.stage = {{.pattern = p}}, .stages = 1};
    words w = {text.bytes, 0};
    uint64_t budget = th_pattern_budget(text.count);
    const th_status status =
        th_split_text(&split, ctx, "splitting", (th_piece){.text = text.bytes, .bytes = text.count}, &budget,
                      (th_word_sink){take_word, &w});
    if (!fuzz_failed_with(ctx, status != TH_OK, TH_ERROR_VALUE))
        FUZZ_CHECK(w.at == text.bytes + text.count, "the words end too early");
    fuzz_context_free(ctx);
}

/* Checks the automaton of a pattern, if it has one, at every character of the text. */
static void check_automaton(fuzz_part pattern, const char *translated, fuzz_part text)
{
    th_automaton *a = NULL;
    if (!th_automaton_new(pattern.bytes, pattern.count, &a) || a == NULL)
        return;
    int error;
    PCRE2_SIZE offset;
    pcre2_compile_context *newlines = pcre2_compile_context_create(NULL);
    pcre2_set_newline(newlines, PCRE2_NEWLINE_LF);
    const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_START_OPTIMIZE; /* as in pattern.c */
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED, options, &error, &offset, newlines);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    for (size_t at = 0, seen; at < text.count; at++) {
        if (((unsigned char)text.bytes[at] & 0xc0) == 0x80)
            continue;
        const size_t end = th_automaton_match(a, text.bytes, text.count, at, &seen);
        const int found =
            pcre2_match(code, (PCRE2_SPTR)text.bytes, text.count, at, PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, data, NULL);
        if (found < PCRE2_ERROR_NOMATCH) /* too many steps */
            break;
        FUZZ_CHECK(end == (found > 0 ? pcre2_get_ovector_pointer(data)[1] : at), "the automaton's match is another");
        FUZZ_CHECK(seen >= end && seen <= text.count, "the automaton reads outside the text");
    }
    pcre2_match_data_free(data);
    pcre2_code_free(code);
    pcre2_compile_context_free(newlines);
    th_automaton_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char translated[1 << 18];
    char trouble[TH_PATTERN_TROUBLE];
    fuzz_part part[2];
    fuzz_split(data, size, part, 2);
    if (part[0].count > TH_MAX_PATTERN || part[1].count > MAX_TEXT)
        return 0;
    char *expression = fuzz_copy(part[0]), *text = fuzz_copy(part[1]);
    const bool valid = th_pattern_translate(expression, part[0].count, translated, sizeof translated, trouble);
    th_pattern *p = th_pattern_new(expression, part[0].count, trouble);
    FUZZ_CHECK(valid || p == NULL, "the pattern is compiled, but not translated");
    FUZZ_CHECK(p || trouble[0], "the pattern is refused without a reason");
    const fuzz_part valid_text = {text, th_valid_bytes(text, part[1].count)};
    if (p)
        check_automaton((fuzz_part){expression, part[0].count}, translated, valid_text);
    if (p && check_matches(p, valid_text))
        check_split(p, (fuzz_part){text, part[1].count});
    th_pattern_free(p);
    free(expression);
    free(text);
    return 0;
}

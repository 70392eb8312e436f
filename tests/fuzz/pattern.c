/* Fuzz target: patterns of tokenizers. The input is a pattern, NUL, and a text. A pattern is compiled or refused with a
 * sentence. Matches are PCRE2's; the words of a split make up the text. The work is proportional to the length of the
 * text. */
#include <stdlib.h>

#include "models/text/characters.h"
#include "models/text/pattern/pattern.h"
#include "models/text/split.h"

#include "../support/pattern_oracle.h"

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

/* Checks all matches in a text. */
static void check_matches(th_pattern *p, fuzz_part pattern, fuzz_part text)
{
    oracle *o = oracle_new(pattern.bytes, pattern.count);
    const uint64_t before = th_pattern_work(p);
    th_pattern_begin(p, text.bytes, text.count);
    bool compares = o != NULL;
    for (size_t at = 0, begin, end, expected_begin, expected_end; at < text.count; at = end) {
        begin = end = text.count;
        const th_match match = th_pattern_next(p, at, &begin, &end);
        FUZZ_CHECK(match != TH_MATCH_NO_MEMORY, "a match is out of memory");
        FUZZ_CHECK(begin >= at && end >= begin && end <= text.count, "a match is outside the text");
        FUZZ_CHECK((match == TH_MATCH) == (end > begin), "a match is empty");
        compares = compares && oracle_next(o, text.bytes, text.count, at, &expected_begin, &expected_end);
        FUZZ_CHECK(!compares || (begin == expected_begin && end == expected_end), "the match is not PCRE2's");
    }
    FUZZ_CHECK(th_pattern_work(p) - before <= 4096 + text.count * (10 * TH_MAX_PATTERN_STEPS + 18), "too much work");
    oracle_free(o);
}

static void check_split(th_pattern *p, fuzz_part text)
{
    th_context *ctx = fuzz_context(1 << 20);
    const th_text_split split = {.stage = {{.pattern = p}}, .stages = 1};
    words w = {text.bytes, 0};
    const th_piece piece = {.text = text.bytes, .bytes = text.count};
    FUZZ_CHECK(th_split_text(&split, ctx, "splitting", piece, (th_word_sink){take_word, &w}) == TH_OK, "no words");
    FUZZ_CHECK(w.at == text.bytes + text.count, "the words end too early");
    fuzz_context_free(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char reason[TH_PATTERN_REASON];
    fuzz_part part[2];
    fuzz_split(data, size, part, 2);
    if (part[0].count > TH_MAX_PATTERN || part[1].count > MAX_TEXT)
        return 0;
    char *expression = fuzz_copy(part[0]), *text = fuzz_copy(part[1]);
    th_pattern *p = th_pattern_new(expression, part[0].count, reason);
    FUZZ_CHECK(p || reason[0], "the pattern is refused without a reason");
    if (p) {
        const fuzz_part valid_text = {text, th_valid_bytes(text, part[1].count)};
        check_matches(p, (fuzz_part){expression, part[0].count}, valid_text);
        check_split(p, (fuzz_part){text, part[1].count});
    }
    th_pattern_free(p);
    free(expression);
    free(text);
    return 0;
}

/* Fuzz target: patterns of tokenizers. The input is a pattern, NUL, and a text. A pattern is compiled or refused with a
 * sentence. Matches are in order, not empty, and whole characters; the words of a split make up the text. */
#include "models/text/pattern.h"
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
    if (p && check_matches(p, valid_text))
        check_split(p, (fuzz_part){text, part[1].count});
    th_pattern_free(p);
    free(expression);
    free(text);
    return 0;
}

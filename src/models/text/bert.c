/* Classes of characters: see bert.h. */
#include "models/text/bert.h"

#include <string.h>

#include "models/core/files.h"
#include "models/text/bert_characters.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

bool th_bert_has(th_bert_class characters, uint32_t code)
{
    switch (characters) {
    case TH_BERT_CONTROL:
        return th_code_ranges_contain(th_bert_controls, COUNT(th_bert_controls), code);
    case TH_BERT_CHINESE:
        return th_code_ranges_contain(th_bert_chinese, COUNT(th_bert_chinese), code);
    case TH_BERT_MARK:
        break;
    }
    return th_code_ranges_contain(th_bert_marks, COUNT(th_bert_marks), code);
}

/* Appends a character to an expression. In brackets ASCII characters may have a meaning, which \\ removes. */
static size_t append_character(char *pattern, uint32_t code)
{
    const size_t escape = code < 0x80;
    *pattern = '\\';
    return escape + th_utf8_write(code, pattern + escape);
}

static size_t append_punctuation(char *pattern)
{
    size_t at = 0;
    for (size_t i = 0; i < COUNT(th_bert_punctuation); i++) {
        const th_code_range range = th_bert_punctuation[i];
        at += append_character(pattern + at, range.first);
        if (range.first == range.last)
            continue;
        pattern[at++] = '-';
        at += append_character(pattern + at, range.last);
    }
    return at;
}

size_t th_bert_punctuation_pattern(char pattern[TH_BERT_PATTERN])
{
    const size_t end = 1 + append_punctuation(pattern + 1);
    pattern[0] = '[';
    memcpy(pattern + end, "]", 2);
    return end + 1;
}

size_t th_bert_pattern(char pattern[TH_BERT_PATTERN])
{
    static const char between[] = "|[^\\s", end[] = "]+";
    size_t at = th_bert_punctuation_pattern(pattern);
    memcpy(pattern + at, between, sizeof between - 1);
    at += sizeof between - 1;
    at += append_punctuation(pattern + at);
    memcpy(pattern + at, end, sizeof end);
    return at + sizeof end - 1;
}

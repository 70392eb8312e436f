/* Properties of characters: see unicode.h. */
#include "models/text/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "models/text/characters.h"
#include "models/text/unicode_additions.h"
#include "models/text/unicode_normal_characters.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* -- lower case: the reference has Unicode 17.0 -- */

/* Upper-case letters that Unicode 15.1 to 17.0 added, and the first one's lower case; `step` is the distance between
 * letters. */
static const struct {
    uint32_t first, last, lower, step;
} lower_additions[] = {
    {0x1c89, 0x1c89, 0x1c8a, 1}, {0xa7cb, 0xa7cb, 0x264, 1},     {0xa7cc, 0xa7cc, 0xa7cd, 1},
    {0xa7ce, 0xa7ce, 0xa7cf, 1}, {0xa7d2, 0xa7d4, 0xa7d3, 2},    {0xa7da, 0xa7da, 0xa7db, 1},
    {0xa7dc, 0xa7dc, 0x19b, 1},  {0x10d50, 0x10d65, 0x10d70, 1}, {0x16ea0, 0x16eb8, 0x16ebb, 1},
};

int th_unicode_lower(uint32_t code, uint32_t lower[2])
{
    if (code < 0x80) {
        lower[0] = code >= 'A' && code <= 'Z' ? code + 32 : code;
        return 1;
    }
    if (code == 0x130) { /* i with a dot above: a letter and a mark */
        lower[0] = 'i';
        lower[1] = 0x307;
        return 2;
    }
    for (size_t i = 0; i < COUNT(lower_additions) && code >= lower_additions[0].first; i++) {
        const uint32_t distance = code - lower_additions[i].first;
        if (code >= lower_additions[i].first && code <= lower_additions[i].last &&
            distance % lower_additions[i].step == 0) {
            lower[0] = lower_additions[i].lower + distance;
            return 1;
        }
    }
    lower[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
    return 1;
}

/* -- categories -- */

uint32_t th_unicode_categories(const char *name)
{
    static const char names[TH_CATEGORIES][3] = {
        [UTF8PROC_CATEGORY_CN] = "Cn", [UTF8PROC_CATEGORY_LU] = "Lu", [UTF8PROC_CATEGORY_LL] = "Ll",
        [UTF8PROC_CATEGORY_LT] = "Lt", [UTF8PROC_CATEGORY_LM] = "Lm", [UTF8PROC_CATEGORY_LO] = "Lo",
        [UTF8PROC_CATEGORY_MN] = "Mn", [UTF8PROC_CATEGORY_MC] = "Mc", [UTF8PROC_CATEGORY_ME] = "Me",
        [UTF8PROC_CATEGORY_ND] = "Nd", [UTF8PROC_CATEGORY_NL] = "Nl", [UTF8PROC_CATEGORY_NO] = "No",
        [UTF8PROC_CATEGORY_PC] = "Pc", [UTF8PROC_CATEGORY_PD] = "Pd", [UTF8PROC_CATEGORY_PS] = "Ps",
        [UTF8PROC_CATEGORY_PE] = "Pe", [UTF8PROC_CATEGORY_PI] = "Pi", [UTF8PROC_CATEGORY_PF] = "Pf",
        [UTF8PROC_CATEGORY_PO] = "Po", [UTF8PROC_CATEGORY_SM] = "Sm", [UTF8PROC_CATEGORY_SC] = "Sc",
        [UTF8PROC_CATEGORY_SK] = "Sk", [UTF8PROC_CATEGORY_SO] = "So", [UTF8PROC_CATEGORY_ZS] = "Zs",
        [UTF8PROC_CATEGORY_ZL] = "Zl", [UTF8PROC_CATEGORY_ZP] = "Zp", [UTF8PROC_CATEGORY_CC] = "Cc",
        [UTF8PROC_CATEGORY_CF] = "Cf", [UTF8PROC_CATEGORY_CS] = "Cs", [UTF8PROC_CATEGORY_CO] = "Co",
    };
    uint32_t categories = 0;
    for (int i = 0; i < TH_CATEGORIES; i++)
        if (name[0] == names[i][0] && (name[1] == 0 || strcmp(name, names[i]) == 0))
            categories |= 1u << i;
    return categories;
}

int th_unicode_category(uint32_t code)
{
    const int category = (int)utf8proc_category((utf8proc_int32_t)code);
    if (category != UTF8PROC_CATEGORY_CN)
        return category;
    for (size_t i = 0; i < COUNT(th_unicode_additions); i++) {
        const th_unicode_range *range = &th_unicode_additions[i];
        if (code >= range->first && code <= range->last)
            return __builtin_ctz(th_unicode_categories(range->category));
    }
    return category;
}

/* Whether a character belongs to the script Han in Unicode 16.0. */
static bool is_han(uint32_t code)
{
    static const uint32_t ranges[][2] = {
        {0x2e80, 0x2e99},   {0x2e9b, 0x2ef3},   {0x2f00, 0x2fd5},   {0x3005, 0x3005},   {0x3007, 0x3007},
        {0x3021, 0x3029},   {0x3038, 0x303b},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfa6d},
        {0xfa70, 0xfad9},   {0x16fe2, 0x16fe3}, {0x16ff0, 0x16ff1}, {0x20000, 0x2a6df}, {0x2a700, 0x2b739},
        {0x2b740, 0x2b81d}, {0x2b820, 0x2cea1}, {0x2ceb0, 0x2ebe0}, {0x2ebf0, 0x2ee5d}, {0x2f800, 0x2fa1d},
        {0x30000, 0x3134a}, {0x31350, 0x323af},
    };
    size_t i = 0;
    while (i < COUNT(ranges) && code > ranges[i][1])
        i++;
    return i < COUNT(ranges) && code >= ranges[i][0];
}

uint32_t th_unicode_properties(uint32_t code)
{
    return UINT32_C(1) << th_unicode_category(code) | (th_unicode_is_space(code) ? TH_SPACE : 0) |
           (is_han(code) ? TH_HAN : 0);
}

/* -- classes -- */

bool th_unicode_is_space(uint32_t code)
{
    if (code < 0x80)
        return code == ' ' || (code >= '\t' && code <= '\r');
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

/* Whether a character is a letter, a mark or a digit that Unicode 15.0 to 16.0 added. */
static bool is_added_to_words(uint32_t code)
{
    for (size_t i = 0; i < COUNT(th_unicode_additions); i++) {
        const th_unicode_range *range = &th_unicode_additions[i];
        if (code >= range->first && code <= range->last && strchr("LMN", range->category[0]) &&
            strcmp(range->category, "No") != 0)
            return true;
    }
    return false;
}

bool th_unicode_is_word(uint32_t code)
{
    switch (utf8proc_category((utf8proc_int32_t)code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default: /* symbols that are letters in circles and squares; joiners */
        return code == 0x200c || code == 0x200d || (code >= 0x24b6 && code <= 0x24e9) ||
               (code >= 0x1f130 && code <= 0x1f149) || (code >= 0x1f150 && code <= 0x1f169) ||
               (code >= 0x1f170 && code <= 0x1f189) || is_added_to_words(code);
    }
}

bool th_code_ranges_contain(const th_code_range *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranges[low].first <= code;
}

bool th_unicode_may_normalize(uint32_t code)
{
    return th_code_ranges_contain(th_normal_characters, COUNT(th_normal_characters), code);
}

bool th_unicode_is_mark(uint32_t code)
{
    if (code < 0x300 || !th_unicode_may_normalize(code))
        return false;
    if (code == 0x1cf2 || code == 0x1cf3 || code == 0x111c9) /* their category has changed since */
        return code != 0x111c9;
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

/* -- positions in texts -- */

size_t th_spaces_before(const char *text, size_t from, size_t at)
{
    for (;;) {
        const size_t begin = th_character_before(text, from, at);
        if (begin == at || !th_unicode_is_space(th_character_code(text + begin, (int)(at - begin))))
            return at;
        at = begin;
    }
}

size_t th_spaces_after(const char *text, size_t bytes, size_t at)
{
    int length;
    while (at < bytes && (length = th_character_length(text + at, bytes - at)) > 0 &&
           th_unicode_is_space(th_character_code(text + at, length)))
        at += (size_t)length;
    return at;
}

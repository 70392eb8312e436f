/* Finds grapheme clusters by utf8proc: see graphemes.h. */
#include "models/text/graphemes.h"

#include <utf8proc.h>

#include "models/text/characters.h"
#include "models/text/unicode.h"

/* The marks that Unicode 17.0 added. The reference library finds clusters by 17.0. */
static const th_code_range marks_of_17[] = {
    {0x1acf, 0x1add},   {0x1ae0, 0x1aeb},   {0x10efa, 0x10efb}, {0x11b60, 0x11b67},
    {0x1e6e3, 0x1e6e3}, {0x1e6e6, 0x1e6e6}, {0x1e6ee, 0x1e6ef}, {0x1e6f5, 0x1e6f5},
};

/* Returns a character that breaks clusters as the given one does. utf8proc may not know a mark. */
static utf8proc_int32_t known_character(const char *text, int length)
{
    const uint32_t code = th_character_code(text, length);
    const utf8proc_category_t category =
        code < 0x300 ? UTF8PROC_CATEGORY_LU : utf8proc_category((utf8proc_int32_t)code);
    const bool mark = category == UTF8PROC_CATEGORY_CN &&
                      (th_unicode_category(code) == UTF8PROC_CATEGORY_MN ||
                       th_code_ranges_contain(marks_of_17, sizeof marks_of_17 / sizeof *marks_of_17, code));
    return mark ? 0x301 : (utf8proc_int32_t)code;
}

size_t th_grapheme_length(const char *text, size_t bytes)
{
    int length = th_character_length(text, bytes);
    if (length == 0)
        return 1;
    utf8proc_int32_t before = known_character(text, length), state = 0;
    for (size_t at = (size_t)length;; at += (size_t)length) {
        length = at < bytes ? th_character_length(text + at, bytes - at) : 0;
        if (length == 0)
            return at;
        const utf8proc_int32_t after = known_character(text + at, length);
        if (utf8proc_grapheme_break_stateful(before, after, &state))
            return at;
        before = after;
    }
}

/* Sets of characters: see character_set.h. */
#include "models/text/character_set.h"

#include "models/text/unicode.h"

bool th_character_set_add(th_character_set *s, uint32_t first, uint32_t last)
{
    if (s->ranges == TH_MAX_SET_RANGES)
        return false;
    s->range[s->ranges].first = first;
    s->range[s->ranges++].last = last;
    return true;
}

bool th_character_set_add_spaces(th_character_set *s)
{
    bool fits = true;
    for (uint32_t code = 0, first; fits && code <= 0x3000; code++) {
        for (first = code; th_unicode_is_space(code); code++)
            continue;
        fits = code == first || th_character_set_add(s, first, code - 1);
    }
    return fits;
}

bool th_character_set_add_category(th_character_set *s, const char *name)
{
    const uint32_t categories = th_unicode_categories(name);
    s->categories |= categories;
    return categories != 0;
}

bool th_character_set_has(const th_character_set *s, uint32_t code, int category)
{
    bool has = s->categories >> category & 1;
    for (uint32_t i = 0; !has && i < s->ranges; i++)
        has = code >= s->range[i].first && code <= s->range[i].last;
    return has != (s->inverted != 0);
}

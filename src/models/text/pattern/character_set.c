/* Sets of characters: see character_set.h. */
#include "models/text/pattern/character_set.h"

#include <string.h>

#include "models/text/grow.h"

bool th_character_set_add(th_character_sets *s, th_character_set *set, uint32_t first, uint32_t last)
{
    if (!TH_GROW(s->range, s->range_capacity, s->ranges + 1))
        return false;
    s->range[s->ranges++] = (th_character_range){first, last};
    set->ranges++;
    return true;
}

static bool are_equal(const th_character_sets *s, const th_character_set *a, const th_character_set *b)
{
    return a->properties == b->properties && a->inverted == b->inverted && a->ranges == b->ranges &&
           (a->ranges == 0 ||
            memcmp(&s->range[a->first], &s->range[b->first], a->ranges * sizeof(th_character_range)) == 0);
}

bool th_character_sets_add(th_character_sets *s, const th_character_set *set, int *index)
{
    size_t i = 0;
    while (i < s->sets && !are_equal(s, &s->set[i], set))
        i++;
    *index = (int)i;
    if (i < s->sets) {
        s->ranges = set->first;
        return true;
    }
    if (!TH_GROW(s->set, s->set_capacity, s->sets + 1))
        return false;
    s->set[s->sets++] = *set;
    return true;
}

bool th_character_sets_have_range(const th_character_sets *s, size_t i, uint32_t code)
{
    const th_character_set *set = &s->set[i];
    bool has = false;
    for (size_t k = 0; !has && k < set->ranges; k++)
        has = code >= s->range[set->first + k].first && code <= s->range[set->first + k].last;
    return has;
}

bool th_character_sets_have(const th_character_sets *s, size_t i, uint32_t code, uint32_t properties)
{
    const th_character_set *set = &s->set[i];
    return ((set->properties & properties) != 0 || th_character_sets_have_range(s, i, code)) != set->inverted;
}

size_t th_character_sets_memory(const th_character_sets *s)
{
    return s->set_capacity * sizeof *s->set + s->range_capacity * sizeof *s->range;
}

void th_character_sets_release(th_character_sets *s)
{
    free(s->set);
    free(s->range);
    *s = (th_character_sets){0};
}

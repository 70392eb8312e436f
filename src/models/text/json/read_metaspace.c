/* Reads a Metaspace: see readers.h. */
#include "models/text/json/readers.h"

#include <string.h>

#include "models/core/context.h"
#include "models/text/characters.h"

bool th_read_character(const th_json_source *source, const json_t *value, const char *key, char character[5])
{
    const char *text;
    char quoted[TH_QUOTED];
    if (!th_json_string(source, value, key, &text))
        return false;
    const size_t bytes = strlen(text);
    if (bytes == 0 || th_character_length(text, bytes) != (int)bytes) {
        th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: its \"%s\" '%s' is not one character",
                source->name, key, th_quote(text, quoted));
        return false;
    }
    memcpy(character, text, bytes + 1);
    return true;
}

/* A member that may be missing; null counts as missing. */
static bool read_flag(const th_json_source *source, const json_t *value, const char *key, bool default_value,
                      bool *flag)
{
    const json_t *member = json_object_get(value, key);
    *flag = default_value;
    return member == NULL || json_is_null(member) || th_json_boolean(source, value, key, flag);
}

static bool read_scheme(const th_json_source *source, const json_t *value, th_prepend *prepend)
{
    static const char *const names[] = {
        [TH_PREPEND_ALWAYS] = "always", [TH_PREPEND_FIRST] = "first", [TH_PREPEND_NEVER] = "never"};
    const char *name = "always";
    char quoted[TH_QUOTED];
    if (json_object_get(value, "prepend_scheme") && !th_json_string(source, value, "prepend_scheme", &name))
        return false;
    for (int i = 0; i < 3; i++) {
        *prepend = (th_prepend)i;
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    th_fail(source->ctx, TH_ERROR_FILE, source->operation,
            "%.300s: the prepend_scheme '%s' of a Metaspace is none of always, first and never", source->name,
            th_quote(name, quoted));
    return false;
}

bool th_read_metaspace(const th_json_source *source, const json_t *value, th_metaspace *metaspace)
{
    bool prefix; /* older files have it; it must say the same as prepend_scheme */
    if (!th_read_character(source, value, "replacement", metaspace->space) ||
        !read_scheme(source, value, &metaspace->prepend) ||
        !read_flag(source, value, "add_prefix_space", true, &prefix) ||
        !read_flag(source, value, "split", true, &metaspace->splits))
        return false;
    if (!prefix && metaspace->prepend != TH_PREPEND_NEVER) {
        th_fail(source->ctx, TH_ERROR_FILE, source->operation,
                "%.300s: the add_prefix_space of a Metaspace contradicts its prepend_scheme", source->name);
        return false;
    }
    return true;
}

/* Reads replacements: see readers.h. */
#include "models/text/json/readers.h"

#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"

enum { MAX_BYTES = 512 };

th_status th_read_text(const th_json_source *source, const json_t *value, const char *key, char **copy, size_t *bytes)
{
    const char *text;
    if (!th_json_string(source, value, key, &text))
        return th_error_code(source->ctx);
    *bytes = strlen(text);
    if (*bytes > MAX_BYTES)
        return th_fail(source->ctx, TH_ERROR_FILE, source->operation,
                       "%.300s: its \"%s\" has %zu bytes, more than the %d allowed", source->name, key, *bytes,
                       (int)MAX_BYTES);
    *copy = strdup(text);
    return *copy ? TH_OK : th_fail_memory(source->ctx, source->operation, *bytes);
}

static th_status read_pattern(const th_json_source *source, const json_t *pattern, th_replacement *r)
{
    const char *text;
    char reason[TH_PATTERN_REASON], quoted[TH_QUOTED];
    if (!th_json_string(source, pattern, "Regex", &text))
        return th_error_code(source->ctx);
    r->pattern = th_pattern_new(text, strlen(text), reason);
    if (r->pattern)
        return TH_OK;
    if (reason[0] == 0)
        return th_fail_memory(source->ctx, source->operation, strlen(text));
    return th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: the pattern '%s' cannot be used: %s",
                   source->name, th_quote(text, quoted), reason);
}

th_status th_read_replacement(const th_json_source *source, const json_t *value, const char *part, th_replacement *r)
{
    const json_t *pattern = json_object_get(value, "pattern");
    if (json_object_size(pattern) != 1)
        return th_fail(source->ctx, TH_ERROR_FILE, source->operation,
                       "%.300s: the pattern of a Replace in its %s is neither a Regex nor a String", source->name,
                       part);
    const th_status status = json_object_get(pattern, "Regex")
                                 ? read_pattern(source, pattern, r)
                                 : th_read_text(source, pattern, "String", &r->string, &r->string_bytes);
    if (status)
        return status;
    if (r->string && r->string_bytes == 0)
        return th_fail(source->ctx, TH_ERROR_FILE, source->operation,
                       "%.300s: a Replace in its %s replaces the empty string", source->name, part);
    return th_read_text(source, value, "content", &r->content, &r->content_bytes);
}

/* Reads truncation and padding: see readers.h. */
#include "models/text/json/readers.h"

#include <string.h>

#include "models/core/context.h"

static bool refuse(const th_json_source *source, const char *sentence)
{
    th_fail(source->ctx, TH_ERROR_FILE, source->operation, "%.300s: %s", source->name, sentence);
    return false;
}

/* Reads "direction": "Left" or "Right". */
static bool read_direction(const th_json_source *source, const json_t *value, bool *left)
{
    const char *direction = "Right";
    if (json_object_get(value, "direction") && !th_json_string(source, value, "direction", &direction))
        return false;
    *left = strcmp(direction, "Left") == 0;
    return *left || strcmp(direction, "Right") == 0 ||
           refuse(source, "the direction of its truncation or padding is neither Left nor Right");
}

bool th_read_truncation(const th_json_source *source, const json_t *value, th_truncation *truncation, bool *given)
{
    static const char *const names[] = {
        [TH_TRUNCATE_LONGEST] = "LongestFirst", [TH_TRUNCATE_FIRST] = "OnlyFirst", [TH_TRUNCATE_SECOND] = "OnlySecond"};
    const char *strategy;
    *truncation = (th_truncation){0};
    *given = !json_is_null(value);
    if (!*given)
        return true;
    if (!json_is_object(value))
        return refuse(source, "its truncation is not an object");
    if (!th_json_integer(source, value, "max_length", 0, INT64_MAX, &truncation->max_length) ||
        !th_json_integer(source, value, "stride", 0, INT64_MAX, &truncation->stride) ||
        !read_direction(source, value, &truncation->left) || !th_json_string(source, value, "strategy", &strategy))
        return false;
    for (int i = 0; i < 3; i++) {
        truncation->strategy = (th_truncation_strategy)i;
        if (strcmp(strategy, names[i]) == 0)
            return true;
    }
    return refuse(source, "the strategy of its truncation is none of LongestFirst, OnlyFirst and OnlySecond");
}

/* Reads "BatchLongest" or {"Fixed": length}. */
static bool read_length(const th_json_source *source, const json_t *value, int64_t *fixed)
{
    const json_t *strategy = json_object_get(value, "strategy");
    if (json_is_string(strategy) && strcmp(json_string_value(strategy), "BatchLongest") == 0)
        return true;
    if (!json_is_object(strategy) || json_object_size(strategy) != 1)
        return refuse(source, "the strategy of its padding is neither BatchLongest nor Fixed");
    return th_json_integer(source, strategy, "Fixed", 0, INT64_MAX, fixed);
}

bool th_read_padding(const th_json_source *source, const json_t *value, th_padding *padding, bool *given)
{
    *padding = (th_padding){.fixed = -1};
    *given = !json_is_null(value);
    if (!*given)
        return true;
    if (!json_is_object(value))
        return refuse(source, "its padding is not an object");
    const json_t *multiple = json_object_get(value, "pad_to_multiple_of");
    return read_length(source, value, &padding->fixed) && read_direction(source, value, &padding->left) &&
           (multiple == NULL || json_is_null(multiple) ||
            th_json_integer(source, value, "pad_to_multiple_of", 0, INT64_MAX, &padding->multiple_of)) &&
           th_json_integer(source, value, "pad_id", 0, UINT32_MAX, &padding->token) &&
           th_json_integer(source, value, "pad_type_id", 0, UINT32_MAX, &padding->type) &&
           th_json_string(source, value, "pad_token", &padding->content);
}

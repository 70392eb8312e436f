/* Reads untrusted JSON into jansson's values. Before anything is allocated, th_json_measure applies limits: on the size
 * of the text, its depth, the length of numbers, and the memory of the values. json_build.h then checks the rest
 * (grammar, UTF-8, no NUL character, no repeated key however it is escaped) and builds the values. jansson's own reader
 * is not used. Nothing here writes JSON. */
#ifndef TH_MODELS_FILES_JSON_H
#define TH_MODELS_FILES_JSON_H

#include <jansson.h>

#include "tapehead/base.h"

/* The source of a text, for error messages: "<operation>: <name>: ...". */
typedef struct th_json_source {
    th_context *ctx;
    const char *operation;
    const char *name; /* "model.safetensors: the header" */
} th_json_source;

/* A number may have this many characters, more than any double needs. */
enum { TH_JSON_MAX_NUMBER = 64 };

typedef struct th_json_limits {
    size_t bytes;  /* of the text */
    int depth;     /* of nested objects and arrays */
    size_t memory; /* of jansson's values, as th_json_measure estimates it; 0: only the context's limit applies */
    /* NULL, or a key of the outer object. th_json_read and th_json_read_file remove this member if its key is written
     * with escapes, or if the text does not begin with '{'. */
    const char *plain_key;
} th_json_limits;

/* Checks the limits, and that strings are closed and brackets balance. Sets *memory to an upper bound of the bytes that
 * jansson needs for the values. Does not check the grammar. Errors: TH_ERROR_FILE, which names the byte. */
th_status th_json_measure(const th_json_source *source, const char *text, size_t bytes, const th_json_limits *limits,
                          size_t *memory);
/* Returns the end of the first value; NULL if the text ends within it. It looks at brackets and strings only. */
const char *th_json_value_end(const char *text, const char *end);
/* Measures the text and builds its value. Returns NULL with the error pending: TH_ERROR_FILE, or TH_ERROR_MEMORY if the
 * values do not fit the context's memory_limit. The caller releases the value with json_decref. */
json_t *th_json_read(const th_json_source *source, const char *text, size_t bytes, const th_json_limits *limits);
/* Does the same for a whole file, whose path is the source's name. The context counts the values' memory until
 * th_json_release. */
json_t *th_json_read_file(const th_json_source *source, const th_json_limits *limits, size_t *memory);
/* Releases a value of th_json_read_file, which set *memory. value may be NULL. */
void th_json_release(th_context *ctx, json_t *value, size_t memory);

/* Builds one value without measuring it; its text must be short, or measured. Returns NULL with TH_ERROR_FILE or
 * TH_ERROR_MEMORY pending. The caller releases the value with json_decref. */
json_t *th_json_build(const th_json_source *source, const char *text, size_t bytes);

/* Adds a member to an object and takes ownership of value, even on failure. Returns false if value is NULL, the name is
 * not UTF-8, or memory runs out. */
static inline bool th_json_add(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0;
}

/* -- members of an object, one at a time -- */

/* th_json_iterator it = th_json_iterate(&source, text, bytes);  while (th_json_next(&it)) ...  if (it.failed) ... */
typedef struct th_json_iterator {
    const th_json_source *source;
    const char *text, *at, *end;
    const char *key, *value; /* in the text: strings with their quotes, without spaces around them */
    size_t key_bytes, value_bytes;
    bool failed; /* the error is pending */
} th_json_iterator;
/* Starts before the first member of an object. The text begins with '{', and th_json_measure has accepted it. */
th_json_iterator th_json_iterate(const th_json_source *source, const char *text, size_t bytes);
/* Finds the next key and value, which the caller gives to th_json_build: their contents are not checked, and keys may
 * repeat. Returns false at the end, and for an error in the object's grammar. */
bool th_json_next(th_json_iterator *iterator);

/* -- typed members -- */

/* Sets *value to the integer member `key` of an object. If it is missing, has another type or is outside [low, high],
 * returns false and sets TH_ERROR_FILE. 1.0 and 1e3 are not integers. */
bool th_json_integer(const th_json_source *source, const json_t *object, const char *key, int64_t low, int64_t high,
                     int64_t *value);
/* Does the same for a number: an integer or a real. */
bool th_json_number(const th_json_source *source, const json_t *object, const char *key, double *value);
/* Does the same for true or false. */
bool th_json_boolean(const th_json_source *source, const json_t *object, const char *key, bool *value);
/* Does the same for a string, which lives as long as the object. */
bool th_json_string(const th_json_source *source, const json_t *object, const char *key, const char **value);

#endif

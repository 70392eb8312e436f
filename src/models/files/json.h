/* Reading JSON from files that nobody vouches for. The text is checked by a scanner of our own first, which takes no
 * memory but for the keys of open objects: its size and depth, UTF-8, the grammar, strings without the character NUL,
 * numbers of a sane length, no -0, and that no object has a key twice, however it is written ("a" and "\u0061"). Only
 * then jansson builds values from it, or the members of an object are walked without building it. Nothing here writes
 * JSON. */
#ifndef TH_MODELS_FILES_JSON_H
#define TH_MODELS_FILES_JSON_H

#include <jansson.h>

#include "tensor/context.h"
#include "tensor/visible.h"

/* Where a text came from, for sentences: "<operation>: <name>: ...". */
typedef struct th_json_source {
    th_context *ctx;
    const char *operation;
    const char *name; /* "model.safetensors: the header" */
} th_json_source;

/* A number may have so many characters: those of a double in full, and more. */
enum { TH_JSON_MAX_NUMBER = 64, TH_JSON_MAX_DEPTH = 64 };

typedef struct th_json_limits {
    size_t bytes;  /* of the text */
    int depth;     /* of objects and arrays within one another; at most TH_JSON_MAX_DEPTH */
    size_t memory; /* of jansson's values, as th_json_check estimates it; 0: no limit but the context's */
} th_json_limits;

/* TH_ERROR_FILE names the first trouble and its byte; TH_ERROR_MEMORY. */
th_status th_json_check(const th_json_source *source, const char *text, size_t bytes, const th_json_limits *limits);
/* Does the same, and sets *memory to an upper bound of the bytes that jansson needs for the values. */
th_status th_json_measure(const th_json_source *source, const char *text, size_t bytes, const th_json_limits *limits,
                          size_t *memory);
/* Checks the text and builds its values. Returns NULL with the error stored: TH_ERROR_MEMORY if the values do not fit
 * the context's memory_limit. The caller releases them with json_decref. */
json_t *th_json_read(const th_json_source *source, const char *text, size_t bytes, const th_json_limits *limits);
/* The same for a whole file, of at most limits->bytes; the source's name is its path. The context counts the values'
 * memory until th_json_release, which takes the same *memory. */
json_t *th_json_read_file(const th_json_source *source, const th_json_limits *limits, size_t *memory);
void th_json_release(th_context *ctx, json_t *value, size_t memory);

/* Only its text, not yet checked; NULL with the error stored. The caller's: th_release(ctx, text, bytes). */
char *th_json_load(const th_json_source *source, const th_json_limits *limits, size_t *bytes);

/* -- members of an object, in a text that th_json_check has found sound -- */
/* th_json_walk w = th_json_members(text, bytes);  while (th_json_next(&w)) ... */
typedef struct th_json_walk {
    const char *at, *end;
    const char *key, *value; /* in the text: strings with their quotes, without spaces around them */
    size_t key_bytes, value_bytes;
} th_json_walk;
/* text begins with the object (spaces before it do not matter). */
th_json_walk th_json_members(const char *text, size_t bytes);
bool th_json_next(th_json_walk *walk);
/* One value of it, built. NULL with TH_ERROR_MEMORY, or TH_ERROR_FILE for a number that jansson cannot hold. */
json_t *th_json_build(const th_json_source *source, const char *text, size_t bytes);

/* -- values where they belong -- */
/* Member `key` of an object; what is missing, of another type or outside [low, high] is TH_ERROR_FILE with a sentence
 * that names it, and false. 1.0 and 1e3 are no integers. */
bool th_json_integer(const th_json_source *source, const json_t *object, const char *key, int64_t low, int64_t high,
                     int64_t *value);
bool th_json_number(const th_json_source *source, const json_t *object, const char *key, double *value);
bool th_json_boolean(const th_json_source *source, const json_t *object, const char *key, bool *value);
/* The string lives as long as the object. */
bool th_json_string(const th_json_source *source, const json_t *object, const char *key, const char **value);

#endif

/* Jinja programs as chat templates need them: parsed once, rendered with variables from JSON. A program equals jinja2's
 * sandboxed immutable environment with trim_blocks, lstrip_blocks, loop controls, and the additions of transformers
 * (tojson, raise_exception, strftime_now, generation). A program can read its variables only. Its steps, memory, output
 * and depth are limited, so it always ends. */
#ifndef TH_MODELS_JINJA_JINJA_H
#define TH_MODELS_JINJA_JINJA_H

#include <jansson.h>
#include <time.h>

#include "models/core/context.h"
#include "tapehead/tokenizer.h"

/* A parsed program. It belongs to the caller. */
typedef struct th_jinja th_jinja;

/* Parses a text. Returns NULL with the error pending: TH_ERROR_FILE "<operation>: <name>, line 3, column 7: ...". */
th_jinja *th_jinja_parse(th_context *ctx, const char *operation, const char *name, const char *text, size_t bytes);
void th_jinja_free(th_jinja *program);
/* Whether the program has generation blocks, which enclose what counts for the loss. */
bool th_jinja_marks_answers(const th_jinja *program);

/* Bytes begin .. end - 1 of a rendered text. */
typedef struct th_jinja_span {
    size_t begin, end;
} th_jinja_span;

/* The result. Initialize it with zeros. */
typedef struct th_jinja_result {
    th_text text;
    th_jinja_span *span; /* [spans], of generation blocks */
    size_t spans, capacity;
} th_jinja_result;
void th_jinja_result_free(th_jinja_result *result);

/* What one rendering may use. 0: the defaults. */
typedef struct th_jinja_limits {
    size_t steps, memory, output;
} th_jinja_limits;

/* Renders with the members of an object as variables. now: the time that strftime_now writes. Errors: TH_ERROR_VALUE
 * with the line and the column. The text then has what was written before. */
th_status th_jinja_render(const th_jinja *program, const char *operation, const json_t *variables, time_t now,
                          const th_jinja_limits *limits, th_jinja_result *result);

/* Appends bytes, followed by NUL. Returns false if out of memory. */
bool th_jinja_append(th_text *text, const char *bytes, size_t count);

#endif

/* Normalizes texts: see normal_form.h. A text consists of stable characters, which stay and do not combine with the
 * character before, and of others. Only the others are normalized, each run of them with the stable character before
 * it. */
#include "models/text/normal_form.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "models/core/files.h"
#include "models/text/characters.h"
#include "models/text/grow.h"
#include "models/text/unicode.h"

enum { PAGE = 256, PAGES = 0x110000 / PAGE, LONGEST = 32 }; /* a character decomposes into at most 18 */

typedef enum stability { UNKNOWN, STABLE, UNSTABLE } stability;

/* Characters that are normalized together. */
typedef struct run {
    utf8proc_int32_t *code; /* [count] */
    size_t count, capacity;
} run;

struct th_normal_form {
    utf8proc_option_t decompose;
    bool composes;
    uint8_t *page[PAGES]; /* the stability of characters that have occurred. NULL: none of the page has */
    run run, single;      /* of a text; of the character whose stability is found */
    uint64_t *order;
    size_t order_capacity;
};

th_normal_form *th_normal_form_new(th_form form)
{
    th_normal_form *f = calloc(1, sizeof *f);
    if (f == NULL)
        return NULL;
    f->composes = form == TH_FORM_C || form == TH_FORM_KC;
    f->decompose = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    if (form == TH_FORM_KC || form == TH_FORM_KD)
        f->decompose |= UTF8PROC_COMPAT;
    return f;
}

void th_normal_form_free(th_normal_form *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < PAGES; i++)
        free(f->page[i]);
    free(f->run.code);
    free(f->single.code);
    free(f->order);
    free(f);
}

/* -- one run -- */

static unsigned combining_class(utf8proc_int32_t code)
{
    return th_unicode_may_normalize((uint32_t)code) ? (unsigned)utf8proc_get_property(code)->combining_class : 0;
}

/* Appends a character's decomposition to the run. */
static bool add_decomposition(const th_normal_form *f, run *r, uint32_t code)
{
    if (!TH_GROW(r->code, r->capacity, r->count + LONGEST))
        return false;
    if (!th_unicode_may_normalize(code)) {
        r->code[r->count++] = (utf8proc_int32_t)code;
        return true;
    }
    const utf8proc_ssize_t written =
        utf8proc_decompose_char((utf8proc_int32_t)code, r->code + r->count, LONGEST, f->decompose, NULL);
    if (written < 0 || written > LONGEST)
        return false;
    r->count += (size_t)written;
    return true;
}

static int compare_order(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts code[begin .. end-1] by their classes; characters of the same class keep their order. */
static bool sort_by_class(th_normal_form *f, run *r, size_t begin, size_t end)
{
    const size_t count = end - begin;
    if (count >= UINT32_MAX || !TH_GROW(f->order, f->order_capacity, count))
        return false;
    for (size_t i = 0; i < count; i++) /* class: 8 bits, position: 32, character: 21 */
        f->order[i] =
            (uint64_t)combining_class(r->code[begin + i]) << 53 | (uint64_t)i << 21 | (uint64_t)r->code[begin + i];
    qsort(f->order, count, sizeof *f->order, compare_order);
    for (size_t i = 0; i < count; i++)
        r->code[begin + i] = (utf8proc_int32_t)(f->order[i] & 0x1fffff);
    return true;
}

/* Puts marks in their canonical order. */
static bool put_in_order(th_normal_form *f, run *r)
{
    for (size_t begin = 0; begin < r->count;) {
        size_t end = begin;
        bool sorted = true;
        for (unsigned before = 0; end < r->count; end++) {
            const unsigned class = combining_class(r->code[end]);
            if (class == 0)
                break;
            sorted = sorted && class >= before;
            before = class;
        }
        if (!sorted && !sort_by_class(f, r, begin, end))
            return false;
        begin = end + 1;
    }
    return true;
}

/* Normalizes the run in place. */
static bool normalize_run(th_normal_form *f, run *r)
{
    if (!put_in_order(f, r))
        return false;
    if (f->composes) {
        const utf8proc_ssize_t left =
            utf8proc_normalize_utf32(r->code, (utf8proc_ssize_t)r->count, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        r->count = left < 0 ? 0 : (size_t)left;
    }
    return true;
}

/* -- stability -- */

/* Vowels and final consonants of Hangul combine with the character before. */
static bool is_later_jamo(uint32_t code)
{
    return (code >= 0x1161 && code <= 0x1175) || (code >= 0x11a8 && code <= 0x11c2);
}

static stability find_stability(th_normal_form *f, uint32_t code)
{
    if (!th_unicode_may_normalize(code))
        return STABLE;
    if (combining_class((utf8proc_int32_t)code) > 0 ||
        (f->composes && (is_later_jamo(code) || th_unicode_is_mark(code))))
        return UNSTABLE;
    run *r = &f->single;
    r->count = 0;
    if (!add_decomposition(f, r, code) || !normalize_run(f, r))
        return UNKNOWN;
    return r->count == 1 && r->code[0] == (utf8proc_int32_t)code ? STABLE : UNSTABLE;
}

/* UNKNOWN: out of memory. */
static stability stability_of(th_normal_form *f, uint32_t code)
{
    uint8_t **page = &f->page[code / PAGE];
    if (*page == NULL && (*page = calloc(PAGE, 1)) == NULL)
        return UNKNOWN;
    uint8_t *known = &(*page)[code % PAGE];
    if (*known == UNKNOWN)
        *known = (uint8_t)find_stability(f, code);
    return (stability)*known;
}

/* Whether a mark of Unicode 9.0 may combine with this stable character. Some characters that were added outside the
 * first plane combine with older marks in later versions. */
static bool may_combine(uint32_t code)
{
    return code < 0x10000 || th_unicode_may_normalize(code);
}

/* -- texts -- */

static bool append_bytes(th_text *out, const char *bytes, size_t count)
{
    if (!TH_GROW(out->bytes, out->capacity, out->count + count + 1))
        return false;
    if (count > 0)
        memcpy(out->bytes + out->count, bytes, count);
    out->count += count;
    return true;
}

/* Returns the first position, from `at` on, of eight bytes that are not all ASCII. */
static size_t after_ascii(const char *text, size_t bytes, size_t at)
{
    uint64_t eight;
    while (bytes - at >= 8 && (memcpy(&eight, text + at, 8), (eight & 0x8080808080808080u) == 0))
        at += 8;
    return at;
}

/* A position in a text: the end of stable characters that have not been copied yet. */
typedef struct reading {
    const char *text;
    size_t bytes;
    size_t copied, at;
    size_t run_begin; /* the last stable character before `at`, if a mark may combine with it; otherwise `at` */
} reading;

/* Reads stable characters. Returns false if out of memory. */
static bool skip_stable(th_normal_form *f, reading *r)
{
    while (r->at < r->bytes) {
        const size_t ascii = after_ascii(r->text, r->bytes, r->at);
        if (ascii > r->at)
            r->run_begin = ascii - 1;
        r->at = ascii;
        const int length = ascii < r->bytes ? th_character_length(r->text + ascii, r->bytes - ascii) : 1;
        const uint32_t code = length > 0 && ascii < r->bytes ? th_character_code(r->text + ascii, length) : 0;
        const stability stable = ascii < r->bytes && code >= 0x80 ? stability_of(f, code) : STABLE;
        if (stable != STABLE)
            return stable == UNSTABLE;
        if (ascii == r->bytes)
            break;
        r->at += length > 0 ? (size_t)length : 1;
        r->run_begin = length > 0 && may_combine(code) ? ascii : r->at;
    }
    r->run_begin = r->at;
    return true;
}

/* Reads the run at r->last: perhaps a stable character, and then all characters up to the next stable one. */
static bool read_run(th_normal_form *f, reading *r)
{
    size_t at = r->run_begin;
    f->run.count = 0;
    while (at < r->bytes) {
        const int length = th_character_length(r->text + at, r->bytes - at);
        const uint32_t code = length > 0 ? th_character_code(r->text + at, length) : 0;
        if (at >= r->at) {
            const stability stable = code >= 0x80 ? stability_of(f, code) : STABLE;
            if (stable == UNKNOWN)
                return false;
            if (stable == STABLE)
                break;
        }
        if (!add_decomposition(f, &f->run, code))
            return false;
        at += (size_t)length;
    }
    r->copied = r->at = r->run_begin = at;
    return true;
}

static bool write_run(const run *r, th_text *out)
{
    if (!TH_GROW(out->bytes, out->capacity, out->count + 4 * r->count + 1))
        return false;
    for (size_t i = 0; i < r->count; i++)
        out->count += th_utf8_write((uint32_t)r->code[i], out->bytes + out->count);
    return true;
}

bool th_normal_form_apply(th_normal_form *f, const char *text, size_t bytes, th_text *out)
{
    reading r = {.text = text, .bytes = bytes};
    while (r.at < bytes) {
        if (!skip_stable(f, &r) || !append_bytes(out, text + r.copied, r.run_begin - r.copied))
            return false;
        r.copied = r.run_begin;
        if (r.at < bytes && !(read_run(f, &r) && normalize_run(f, &f->run) && write_run(&f->run, out)))
            return false;
    }
    return true;
}

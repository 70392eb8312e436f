/* Applies normalizers to texts: see normalizer.h. A byte that is not valid UTF-8 stays as it is. */
#include "models/text/normalizer.h"

#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/text/bert.h"
#include "models/text/characters.h"
#include "models/text/grow.h"
#include "models/text/unicode.h"

void th_normalizer_release(th_normalizer *n)
{
    for (int i = 0; i < n->steps; i++) {
        th_normal_form_free(n->step[i].form);
        th_character_map_free(n->step[i].map);
        th_replacement_release(&n->step[i].replace);
    }
    th_text_free(&n->text[0]);
    th_text_free(&n->text[1]);
    *n = (th_normalizer){0};
}

/* -- steps: each appends to `out`, and sets *first (th_piece). They return false if out of memory -- */

static bool apply_form(th_normal_form *f, th_piece piece, th_text *out, size_t *first)
{
    if (piece.first > 0) { /* how many bytes the first character becomes */
        if (!th_normal_form_apply(f, piece.text, piece.first < piece.bytes ? piece.first : piece.bytes, out))
            return false;
        *first = out->count;
        out->count = 0;
    }
    return th_normal_form_apply(f, piece.text, piece.bytes, out);
}

/* The Nmt of the reference: sets *code to a space for white space and the like. Returns whether the character stays. */
static bool change_nmt(uint32_t *code)
{
    const uint32_t c = *code;
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
        return false;
    if (c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
        c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd)
        *code = ' ';
    return true;
}

/* Writes what a character becomes, and returns the number of characters. */
static int change_character(th_normalizer_kind kind, uint32_t code, uint32_t changed[3])
{
    changed[0] = code;
    switch (kind) {
    case TH_NORMALIZE_LOWER:
        return th_unicode_lower(code, changed);
    case TH_NORMALIZE_ACCENTS:
        return !th_unicode_is_mark(code);
    case TH_NORMALIZE_CLEAN:
        if (code == '\t' || code == '\n' || code == '\r' || (th_unicode_is_space(code) && code >= 0xa0))
            changed[0] = ' ';
        return changed[0] == ' ' || !th_bert_has(TH_BERT_CONTROL, code);
    case TH_NORMALIZE_NMT:
        return change_nmt(&changed[0]);
    case TH_NORMALIZE_CHINESE:
        if (code < 0x3400 || !th_bert_has(TH_BERT_CHINESE, code))
            return 1;
        changed[0] = changed[2] = ' ';
        changed[1] = code;
        return 3;
    default:
        return !(code >= 0x300 && th_bert_has(TH_BERT_MARK, code));
    }
}

/* Whether the step copies all characters of ASCII. */
static bool keeps_ascii(th_normalizer_kind kind)
{
    return kind != TH_NORMALIZE_LOWER && kind != TH_NORMALIZE_CLEAN && kind != TH_NORMALIZE_NMT;
}

/* Changes characters one by one. */
static bool apply_characters(th_normalizer_kind kind, th_piece piece, th_text *out, size_t *first)
{
    enum { LONGEST = 6 }; /* a character of 4 bytes between two spaces, or two characters in lower case */
    if (!TH_GROW(out->bytes, out->capacity, piece.bytes + 16))
        return false;
    for (size_t at = 0; at < piece.bytes;) {
        if (!TH_GROW(out->bytes, out->capacity, out->count + LONGEST + 1))
            return false;
        const unsigned char byte = (unsigned char)piece.text[at];
        const bool ascii = byte < 0x80;
        const int length = ascii ? 1 : th_character_length(piece.text + at, piece.bytes - at);
        uint32_t character[3];
        if (length == 0 ||
            (ascii && (keeps_ascii(kind) || (byte >= ' ' && byte != 0x7f && !(byte >= 'A' && byte <= 'Z'))))) {
            out->bytes[out->count++] = (char)byte;
        } else {
            const int count = change_character(kind, th_character_code(piece.text + at, length), character);
            for (int i = 0; i < count; i++)
                out->count += th_utf8_write(character[i], out->bytes + out->count);
        }
        if (at < piece.first)
            *first = out->count;
        at += length > 0 ? (size_t)length : 1;
    }
    return true;
}

static bool apply_prepend(const th_replacement *r, th_piece piece, th_text *out, size_t *first)
{
    if (piece.bytes == 0)
        return true;
    *first = piece.first > 0 ? piece.first + r->content_bytes : 0;
    return th_text_append(out, r->content, r->content_bytes) && th_text_append(out, piece.text, piece.bytes);
}

static bool apply_strip(const th_normalizer_step *step, th_piece piece, th_text *out, size_t *first)
{
    const size_t begin = step->left ? th_spaces_after(piece.text, piece.bytes, 0) : 0;
    const size_t end = step->right ? th_spaces_before(piece.text, begin, piece.bytes) : piece.bytes;
    *first = th_piece_of(piece, begin, end).first;
    return th_text_append(out, piece.text + begin, end - begin);
}

/* -- all steps -- */

static th_status apply_step(const th_normalizer_step *step, th_context *ctx, const char *operation, size_t limit,
                            th_piece piece, th_text *out, size_t *first)
{
    bool succeeded = false;
    out->count = *first = 0;
    switch (step->kind) {
    case TH_NORMALIZE_FORM:
        succeeded = apply_form(step->form, piece, out, first);
        break;
    case TH_NORMALIZE_LOWER:
    case TH_NORMALIZE_ACCENTS:
    case TH_NORMALIZE_CLEAN:
    case TH_NORMALIZE_CHINESE:
    case TH_NORMALIZE_MARKS:
    case TH_NORMALIZE_NMT:
        succeeded = apply_characters(step->kind, piece, out, first);
        break;
    case TH_NORMALIZE_STRIP:
        succeeded = apply_strip(step, piece, out, first);
        break;
    case TH_NORMALIZE_PREPEND:
        succeeded = apply_prepend(&step->replace, piece, out, first);
        break;
    case TH_NORMALIZE_REPLACE:
        return th_replacement_apply(&step->replace, ctx, operation, limit, piece, out, first);
    case TH_NORMALIZE_MAP:
        return th_character_map_apply(step->map, ctx, operation, limit, piece, out, first);
    }
    return succeeded ? TH_OK : th_fail_memory(ctx, operation, piece.bytes);
}

th_status th_normalizer_apply(th_normalizer *n, th_context *ctx, const char *operation, th_piece *piece)
{
    const size_t limit = th_replacement_limit(piece->bytes);
    for (int i = 0; i < n->steps; i++) {
        th_text *out = &n->text[i % 2];
        size_t first;
        if (apply_step(&n->step[i], ctx, operation, limit, *piece, out, &first))
            return th_error_code(ctx);
        *piece = (th_piece){.text = out->bytes ? out->bytes : "", .bytes = out->count, .first = first};
    }
    return TH_OK;
}

bool th_normalizer_lowers(const th_normalizer *n)
{
    bool lowers = false;
    for (int i = 0; i < n->steps; i++)
        lowers = lowers || n->step[i].kind == TH_NORMALIZE_LOWER;
    return lowers;
}

void th_normalizer_match_longest(th_normalizer *n)
{
    for (int i = 0; i < n->steps; i++)
        if (n->step[i].map)
            n->step[i].map->longest = true;
}

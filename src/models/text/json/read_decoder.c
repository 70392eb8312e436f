/* Reads the "decoder" of tokenizer.json. Tokens are decoded one by one, so the parts must have this order: Replace,
 * Strip, Metaspace and WordPiece, which change tokens; ByteFallback; Fuse; a Strip, which changes the beginning of the text. */
#include <string.h>

#include "models/core/context.h"
#include "models/text/decoder.h"
#include "models/text/json/readers.h"

typedef struct decoder_reading {
    th_decoder *decoder;
    const th_json_source *source;
    bool byte_level, fused, stripped;
} decoder_reading;

static th_status refuse(const decoder_reading *p, const char *sentence)
{
    return th_fail(p->source->ctx, TH_ERROR_FILE, p->source->operation, "%.300s: its decoder %s", p->source->name,
                   sentence);
}

/* Returns a new step, or NULL with the error pending. */
static th_decoder_step *add_step(const decoder_reading *p, th_decoder_kind kind)
{
    th_decoder *d = p->decoder;
    if (p->byte_level)
        refuse(p, "changes tokens, but the pre_tokenizer is ByteLevel");
    else if (d->byte_fallback || p->fused)
        refuse(p, "has a Replace, Strip, Metaspace or WordPiece behind a ByteFallback or Fuse");
    else if (d->steps == TH_MAX_DECODERS)
        refuse(p, "has more than 16 steps");
    if (th_failed(p->source->ctx))
        return NULL;
    d->step[d->steps] = (th_decoder_step){.kind = kind};
    return &d->step[d->steps++];
}

/* A Strip behind a Fuse changes the beginning of the whole text. */
static th_status read_strip(decoder_reading *p, const json_t *value)
{
    char character[5];
    int64_t start, stop;
    if (!th_read_character(p->source, value, "content", character) ||
        !th_json_integer(p->source, value, "start", 0, INT32_MAX, &start) ||
        !th_json_integer(p->source, value, "stop", 0, INT32_MAX, &stop))
        return th_error_code(p->source->ctx);
    if (p->fused) {
        if (stop > 0)
            return refuse(p, "has a Strip behind a Fuse whose \"stop\" is not 0: it would change the end of the text");
        if (p->stripped)
            return refuse(p, "has two Strips behind a Fuse");
        memcpy(p->decoder->start, character, sizeof character);
        p->decoder->start_count = (size_t)start;
        p->stripped = true;
        return TH_OK;
    }
    th_decoder_step *step = add_step(p, TH_DECODE_STRIP);
    if (step == NULL)
        return th_error_code(p->source->ctx);
    memcpy(step->character, character, sizeof character);
    step->start = (size_t)start;
    step->stop = (size_t)stop;
    return TH_OK;
}

static th_status read_metaspace(decoder_reading *p, const json_t *value)
{
    th_metaspace metaspace;
    if (!th_read_metaspace(p->source, value, &metaspace))
        return th_error_code(p->source->ctx);
    th_decoder_step *step = add_step(p, TH_DECODE_METASPACE);
    if (step == NULL)
        return th_error_code(p->source->ctx);
    memcpy(step->character, metaspace.space, sizeof step->character);
    step->drops = metaspace.prepend != TH_PREPEND_NEVER;
    p->decoder->first_differs = p->decoder->first_differs || step->drops;
    return TH_OK;
}

/* WordPiece's "cleanup" removes spaces in front of signs and in short forms of English, within each token. */
static th_status add_cleanup(const decoder_reading *p)
{
    static const char *const replaced[][2] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++) {
        th_decoder_step *step = add_step(p, TH_DECODE_REPLACE);
        if (step == NULL)
            return th_error_code(p->source->ctx);
        step->replace = (th_replacement){.string = strdup(replaced[i][0]),
                                         .string_bytes = strlen(replaced[i][0]),
                                         .content = strdup(replaced[i][1]),
                                         .content_bytes = strlen(replaced[i][1])};
        if (step->replace.string == NULL || step->replace.content == NULL)
            return th_fail_memory(p->source->ctx, p->source->operation, step->replace.string_bytes);
    }
    return TH_OK;
}

static th_status read_word_piece(decoder_reading *p, const json_t *value)
{
    bool cleanup;
    if (!th_json_boolean(p->source, value, "cleanup", &cleanup))
        return th_error_code(p->source->ctx);
    th_decoder_step *step = add_step(p, TH_DECODE_PIECES);
    if (step == NULL ||
        th_read_text(p->source, value, "prefix", &step->replace.string, &step->replace.string_bytes) != TH_OK)
        return th_error_code(p->source->ctx);
    p->decoder->first_differs = true;
    return cleanup ? add_cleanup(p) : TH_OK;
}

static th_status read_part(decoder_reading *p, const json_t *value, bool within);

static th_status read_parts(decoder_reading *p, const json_t *value)
{
    const json_t *parts = json_object_get(value, "decoders"), *element;
    size_t i;
    if (!json_is_array(parts))
        return refuse(p, "is a Sequence without a list \"decoders\"");
    json_array_foreach (parts, i, element) {
        if (read_part(p, element, true))
            return th_error_code(p->source->ctx);
    }
    return TH_OK;
}

static th_status read_part(decoder_reading *p, const json_t *value, bool within)
{
    const char *type;
    if (!json_is_object(value))
        return refuse(p, "is not an object");
    if (!th_json_string(p->source, value, "type", &type))
        return th_error_code(p->source->ctx);
    if (strcmp(type, "Fuse") == 0) {
        p->fused = true;
        return TH_OK;
    }
    if (strcmp(type, "ByteLevel") == 0)
        return p->byte_level ? TH_OK : refuse(p, "is ByteLevel, but the pre_tokenizer is not");
    if (strcmp(type, "Replace") == 0) {
        th_decoder_step *step = add_step(p, TH_DECODE_REPLACE);
        return step ? th_read_replacement(p->source, value, "decoder", &step->replace) : th_error_code(p->source->ctx);
    }
    if (strcmp(type, "Strip") == 0)
        return read_strip(p, value);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(p, value);
    if (strcmp(type, "WordPiece") == 0)
        return read_word_piece(p, value);
    if (strcmp(type, "ByteFallback") == 0) {
        if (p->fused || p->byte_level)
            return refuse(p, "has a ByteFallback behind a Fuse, or for tokens of bytes");
        p->decoder->byte_fallback = true;
        return TH_OK;
    }
    if (strcmp(type, "Sequence") == 0 && !within)
        return read_parts(p, value);
    char quoted[TH_QUOTED];
    return th_fail(p->source->ctx, TH_ERROR_FILE, p->source->operation,
                   "%.300s: its decoder '%s' is not supported; ByteLevel, Metaspace, WordPiece, Replace, Strip, "
                   "ByteFallback, Fuse and a Sequence of them are",
                   p->source->name, th_quote(type, quoted));
}

th_status th_decoder_read(th_decoder *d, const th_json_source *source, const json_t *value, bool byte_level)
{
    decoder_reading p = {.decoder = d, .source = source, .byte_level = byte_level};
    return json_is_null(value) ? TH_OK : read_part(&p, value, false);
}

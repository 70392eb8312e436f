/* Converts texts to tokens: see corpus.h. */
#include "corpus.h"

#include <string.h>

#include "settings.h"

enum { PIECE = 1 << 22 }; /* bytes encoded at a time */

static th_tokenizer *make_characters(th_context *ctx, const texts *text)
{
    th_tokenizer *characters = th_tokenizer_characters_new(ctx, text->bytes, text->count);
    if (th_error_code(ctx) == TH_ERROR_VALUE)
        fprintf(stderr, PROGRAM ": %s is not UTF-8, so it has no characters; --tokenizer bytes or bpe takes any file\n",
                text->name);
    return characters; /* the error names the position */
}

static th_tokenizer *train_bpe(th_context *ctx, const texts *text)
{
    static const char *const specials[] = {END_OF_TEXT};
    const th_bpe_options options = {.vocabulary = chosen.vocabulary,
                                    .min_frequency = 2,
                                    .specials = specials,
                                    .n_specials = has_documents(text) ? 1 : 0};
    return th_tokenizer_train(ctx, text->bytes, text->count, &options);
}

th_tokenizer *make_tokenizer(th_context *ctx, const texts *text)
{
    if (strcmp(chosen.tokenizer, "bpe") == 0)
        return train_bpe(ctx, text);
    th_tokenizer *t = strcmp(chosen.tokenizer, "bytes") == 0        ? th_tokenizer_bytes_new(ctx)
                      : strcmp(chosen.tokenizer, "characters") == 0 ? make_characters(ctx, text)
                                                                    : th_tokenizer_load(ctx, chosen.tokenizer);
    /* A pretrained model does not have weights for another token. */
    if (has_documents(text) && chosen.from == NULL && th_tokenizer_find(t, END_OF_TEXT) < 0)
        (void)th_tokenizer_add(t, END_OF_TEXT);
    return t;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Returns whether a text may be cut before byte i: at the end of a line, without a space on either side. No tokenizer
 * has tokens across such a cut. (Tokenizers of transformers join adjacent spaces, and separate a word from the line
 * before it.) */
static bool may_cut_line(const char *bytes, size_t i)
{
    return bytes[i - 1] == '\n' && !is_space(bytes[i]) && !is_space(bytes[i - 2]);
}

/* The second choice: few tokenizers have tokens that contain a word and the space after it. */
static bool may_cut_word(const char *bytes, size_t i)
{
    return bytes[i] == ' ' && !is_space(bytes[i - 1]) && !is_space(bytes[i + 1]);
}

/* The last choice: between two UTF-8 characters. */
static bool may_cut_character(const char *bytes, size_t i)
{
    return ((unsigned char)bytes[i] & 0xc0) != 0x80;
}

/* Returns the end of the piece that begins at `begin`: the first good cut after PIECE bytes, at most `end`. So a text
 * without lines, or without words, is encoded in pieces too. */
static size_t find_end_of_piece(const char *bytes, size_t begin, size_t end)
{
    static bool (*const may_cut[])(const char *bytes, size_t i) = {may_cut_line, may_cut_word, may_cut_character};
    const size_t first = begin + PIECE;
    for (int kind = 0; kind < 3; kind++)
        for (size_t i = first; i < first + PIECE && i + 1 < end; i++)
            if (may_cut[kind](bytes, i))
                return i;
    return end - begin <= 2 * (size_t)PIECE ? end : begin + 2 * (size_t)PIECE;
}

bool ends_documents(const th_tokenizer *tokenizer, const texts *text)
{
    return has_documents(text) && chosen.end_token >= 0 && chosen.end_token < th_tokenizer_size(tokenizer);
}

/* Adds the number of tokens to *written. */
static th_status encode_document(th_tokenizer *tokenizer, const char *bytes, size_t begin, size_t end,
                                 th_token_list *tokens, th_token_writer *writer, int64_t *written)
{
    th_status status = TH_OK;
    bool needs_mark = chosen.marked;
    for (size_t next; begin < end && status == TH_OK; begin = next) {
        next = find_end_of_piece(bytes, begin, end);
        tokens->count = 0;
        status = th_tokenizer_encode(tokenizer, bytes + begin, next - begin, tokens);
        if (status == TH_OK && needs_mark && tokens->count > 0) { /* only the first token has a mark */
            status = th_token_writer_append_marked(writer, tokens->token, &(unsigned char){TH_TOKEN_BEGINS}, 1);
            needs_mark = false;
            if (status == TH_OK)
                status = th_token_writer_append(writer, tokens->token + 1, (int64_t)tokens->count - 1);
        } else if (status == TH_OK)
            status = th_token_writer_append(writer, tokens->token, (int64_t)tokens->count);
        *written += (int64_t)tokens->count;
    }
    return status;
}

th_status encode_text(th_context *ctx, th_tokenizer *tokenizer, const texts *text, const char *path)
{
    th_token_writer *writer = chosen.marked ? th_token_writer_open_marked(ctx, path, th_tokenizer_size(tokenizer))
                                            : th_token_writer_open(ctx, path, th_tokenizer_size(tokenizer));
    th_token_list tokens = {0};
    const int32_t end_token = (int32_t)chosen.end_token;
    int64_t written = 0;
    th_status status = writer ? TH_OK : th_error_code(ctx);
    for (size_t i = 0, begin = 0; i < text->documents && status == TH_OK; begin = text->end[i++]) {
        if (i == text->documents - text->held_out)
            chosen.training_tokens = written;
        status = encode_document(tokenizer, text->bytes, begin, text->end[i], &tokens, writer, &written);
        if (status == TH_OK && ends_documents(tokenizer, text)) {
            status = th_token_writer_append(writer, &end_token, 1);
            written++;
        }
    }
    th_token_list_free(&tokens);
    return writer ? th_token_writer_close(writer) : status;
}

int64_t count_token_bytes(const th_tokenizer *tokenizer, th_token_file *file, int64_t begin, int64_t end)
{
    enum { CHUNK = 4096 };
    int32_t token[CHUNK];
    int64_t bytes = 0;
    for (int64_t n; begin < end; begin += n) {
        n = end - begin < CHUNK ? end - begin : CHUNK;
        if (th_token_file_read(file, begin, n, token))
            return -1;
        for (int64_t i = 0; i < n; i++) {
            size_t size = 0;
            if (!th_tokenizer_is_special(tokenizer, token[i]))
                (void)th_tokenizer_bytes(tokenizer, token[i], &size);
            bytes += (int64_t)size;
        }
    }
    return bytes;
}

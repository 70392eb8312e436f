/* Texts into tokens: see corpus.h. */
#include "corpus.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "settings.h"

enum { PIECE = 1 << 22 }; /* bytes that are encoded at a time */

text_file open_text(const char *path)
{
    char problem[400] = "";
    struct stat status = {0};
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* (a pipe must not hold us up) */
    const char *trouble = file < 0 || fstat(file, &status) != 0 ? strerror(errno)
                          : S_ISFIFO(status.st_mode)            ? "it is a pipe; write it to a file first"
                          : !S_ISREG(status.st_mode)            ? "it is not a regular file"
                          : status.st_size == 0                 ? "it is empty"
                                                                : NULL;
    void *bytes = trouble ? NULL : mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (trouble == NULL && bytes == MAP_FAILED)
        trouble = strerror(errno);
    if (trouble) {
        snprintf(problem, sizeof problem, "the text %.300s cannot be used: %s", path, trouble);
        give_up(PROGRAM, problem);
    }
    close(file);
    return (text_file){path, bytes, (size_t)status.st_size};
}

th_tokenizer *make_tokenizer(th_context *ctx, const text_file *text)
{
    if (strcmp(chosen.tokenizer, "bytes") == 0)
        return th_tokenizer_bytes_new(ctx);
    if (strcmp(chosen.tokenizer, "characters") == 0) {
        th_tokenizer *characters = th_tokenizer_characters_new(ctx, text->bytes, text->count);
        if (th_error_code(ctx) == TH_ERROR_VALUE)
            fprintf(stderr, PROGRAM ": %s is no text of characters; --tokenizer bytes or bpe takes any file\n",
                    text->path);
        return characters; /* (the error says where) */
    }
    if (strcmp(chosen.tokenizer, "bpe") == 0)
        return th_tokenizer_train(ctx, text->bytes, text->count,
                                  &(th_bpe_options){.vocabulary = chosen.vocabulary, .min_frequency = 2});
    return th_tokenizer_load(ctx, chosen.tokenizer);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether a text may be cut in front of byte i: at a line's end with no space on either side no tokenizer would have
 * gone on (those of transformers keep spaces in a row together, and a word apart from the line before it). */
static bool may_cut_line(const char *bytes, size_t i)
{
    return bytes[i - 1] == '\n' && !is_space(bytes[i]) && !is_space(bytes[i - 2]);
}

/* Few tokenizers go on from a word to the space behind it. */
static bool may_cut_word(const char *bytes, size_t i)
{
    return bytes[i] == ' ' && !is_space(bytes[i - 1]) && !is_space(bytes[i + 1]);
}

/* In front of no byte that continues a character of UTF-8. */
static bool may_cut_character(const char *bytes, size_t i)
{
    return ((unsigned char)bytes[i] & 0xc0) != 0x80;
}

/* Where the piece that begins at `begin` ends: at the first good place of as many bytes again, so that a text without
 * lines, or without words, is encoded in pieces too. */
static size_t end_of_piece(const text_file *text, size_t begin)
{
    static bool (*const may_cut[])(const char *bytes, size_t i) = {may_cut_line, may_cut_word, may_cut_character};
    const size_t first = begin + PIECE;
    for (int kind = 0; kind < 3; kind++)
        for (size_t i = first; i < first + PIECE && i + 1 < text->count; i++)
            if (may_cut[kind](text->bytes, i))
                return i;
    return text->count - begin <= 2 * (size_t)PIECE ? text->count : begin + 2 * (size_t)PIECE;
}

th_status encode_text(th_context *ctx, th_tokenizer *tokenizer, const text_file *text, const char *path)
{
    th_token_writer *writer = th_token_writer_open(ctx, path, th_tokenizer_size(tokenizer));
    th_token_list tokens = {0};
    for (size_t begin = 0, end; begin < text->count && writer; begin = end) {
        end = end_of_piece(text, begin);
        tokens.count = 0;
        if (th_tokenizer_encode(tokenizer, text->bytes + begin, end - begin, &tokens) ||
            th_token_writer_append(writer, tokens.token, (int64_t)tokens.count))
            break;
    }
    th_token_list_free(&tokens);
    return writer ? th_token_writer_close(writer) : th_error_code(ctx);
}

int64_t bytes_of_tokens(const th_tokenizer *tokenizer, th_token_file *file, int64_t begin, int64_t end)
{
    enum { SOME = 4096 };
    int32_t token[SOME];
    int64_t bytes = 0;
    for (int64_t n; begin < end; begin += n) {
        n = end - begin < SOME ? end - begin : SOME;
        if (th_token_file_read(file, begin, n, token))
            return -1;
        for (int64_t i = 0; i < n; i++) {
            size_t size = 0;
            (void)th_tokenizer_bytes(tokenizer, token[i], &size);
            bytes += (int64_t)size;
        }
    }
    return bytes;
}

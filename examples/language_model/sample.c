/* Generates text: see sample.h. */
#include "sample.h"

#include <string.h>
#include <unistd.h>

#include "settings.h"

typedef struct writing {
    const th_tokenizer *tokenizer;
    th_text_stream stream; /* a character may take several tokens */
    FILE *file;
    bool escaped;        /* the file is a terminal */
    first_tokens *first; /* or NULL */
    bool ignore_end;     /* continues after an end token, and writes the token's name */
} writing;

/* Returns whether a terminal would execute a character instead of showing it: control characters except newline and
 * tab, and characters that change the direction of text. */
static bool is_control(uint32_t c)
{
    return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c <= 0x9f) || c == 0x061c || c == 0x200e ||
           c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/* Writes valid UTF-8 with its control characters escaped. */
static void write_escaped(const char *text, size_t count, FILE *file)
{
    for (size_t i = 0, size; i < count; i += size) {
        const unsigned char first = (unsigned char)text[i];
        uint32_t c = first < 0x80 ? first : first < 0xe0 ? first & 0x1fu : first < 0xf0 ? first & 0x0fu : first & 0x07u;
        size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        for (size_t k = 1; k < size && i + k < count; k++)
            c = c << 6 | ((unsigned char)text[i + k] & 0x3fu);
        if (is_control(c))
            fprintf(file, c < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)c);
        else
            fwrite(text + i, 1, size < count - i ? size : count - i, file);
    }
}

/* Writes the tokens' text, in whole characters; a count of 0 ends the text and writes the rest. */
static bool write_tokens(writing *w, const int32_t *tokens, size_t count)
{
    if (w->first)
        keep_first(w->first, tokens, count);
    char *text = NULL;
    size_t size = 0;
    FILE *file = w->escaped ? open_memstream(&text, &size) : w->file;
    if (file == NULL)
        give_up(PROGRAM, "out of memory");
    const th_status status = count > 0 ? th_tokenizer_write(w->tokenizer, tokens, count, &w->stream, file)
                                       : th_tokenizer_write_end(w->tokenizer, &w->stream, file);
    if (w->escaped) {
        if (fclose(file) != 0)
            give_up(PROGRAM, "out of memory");
        write_escaped(text, size, w->file);
        free(text);
    }
    return status == TH_OK && fflush(w->file) == 0;
}

static bool write_token(void *user, int64_t sequence, int64_t token)
{
    writing *w = user;
    (void)sequence;
    const bool named = w->ignore_end && token == chosen.end_token;
    if (token >= th_tokenizer_size(w->tokenizer) ||
        (!named && (token == chosen.end_token || th_tokenizer_is_special(w->tokenizer, token))))
        return true; /* the end token, or padding of the vocabulary: neither has a text */
    return write_tokens(w, &(int32_t){(int32_t)token}, 1);
}

/* Generates the continuation of the prompt (1, T). */
static th_status continue_text(th_module *model, th_tensor *prompt, const th_generate_options *options, writing *w)
{
    const int64_t remaining = chosen.model.length - th_size(prompt, 1);
    th_generate_options how = *options;
    how.prompts = prompt;
    how.slide = how.beams <= 1;
    if (!how.slide && how.max_new_tokens > remaining) /* beam search cannot exceed the model's length */
        how.max_new_tokens = remaining;
    how.emit = write_token;
    how.user = w;
    how.end_tokens = &chosen.end_token;
    how.n_end_tokens = chosen.end_token >= 0 && !w->ignore_end ? 1 : 0;
    if (th_generate(model, &how, NULL))
        return th_error_code(model->ctx);
    return write_tokens(w, NULL, 0) ? TH_OK : th_error_code(model->ctx);
}

th_status write_sample(th_module *model, th_tokenizer *tokenizer, const char *prompt,
                       const th_generate_options *options, bool ignore_end, FILE *file, first_tokens *first)
{
    const int descriptor = fileno(file); /* -1 if the file is in memory */
    writing w = {.tokenizer = tokenizer,
                 .file = file,
                 .first = first,
                 .escaped = descriptor >= 0 && isatty(descriptor),
                 .ignore_end = ignore_end};
    th_token_list tokens = {0};
    size_t bytes = prompt ? strlen(prompt) : 1;
    if (prompt == NULL)
        prompt = th_tokenizer_find(tokenizer, "\n") >= 0 ? "\n" : th_tokenizer_bytes(tokenizer, 0, &bytes);
    if (th_tokenizer_encode(tokenizer, prompt, bytes, &tokens) == TH_OK &&
        write_tokens(&w, tokens.token, tokens.count)) {
        th_tensor *t = th_from_data(model->ctx, TH_INT32, TH_SHAPE(1, (int64_t)tokens.count), tokens.token);
        (void)(continue_text(model, t, options, &w) == TH_OK);
        th_tensor_free(t);
    }
    th_token_list_free(&tokens);
    return th_error_code(model->ctx);
}

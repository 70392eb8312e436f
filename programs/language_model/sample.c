/* Generates text: see sample.h. */
#include "sample.h"

#include <string.h>

#include "settings.h"
#include "shared/system.h"

/* One text. */
typedef struct generated_text {
    const th_tokenizer *tokenizer;
    th_stop_stream stream; /* a character may take several tokens */
    FILE *file;
    bool escaped;              /* the text goes to a terminal */
    first_tokens *first;       /* or NULL */
    bool ignore_end;           /* continues after an end token, and writes the token's name */
    th_token_list *answer;     /* or NULL */
    const int64_t *end_tokens; /* [n_end_tokens] */
    int n_end_tokens;
    char *memory; /* the text of one of several samples, which file writes to; otherwise NULL */
    size_t bytes;
} generated_text;

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
static bool write_tokens(generated_text *w, const int32_t *tokens, size_t count)
{
    if (w->first)
        append_first_tokens(w->first, tokens, count);
    char *text = NULL;
    size_t size = 0;
    FILE *file = w->escaped ? open_memstream(&text, &size) : w->file;
    if (file == NULL)
        give_up(PROGRAM, "out of memory");
    const th_status status = count > 0 ? th_tokenizer_write_until(w->tokenizer, tokens, count, &w->stream, file)
                                       : th_tokenizer_write_until_end(w->tokenizer, &w->stream, file);
    if (w->escaped) {
        if (fclose(file) != 0)
            give_up(PROGRAM, "out of memory");
        write_escaped(text, size, w->file);
        free(text);
    }
    return status == TH_OK && fflush(w->file) == 0;
}

static void append_token(th_token_list *list, int32_t token)
{
    if (list->count == list->capacity) {
        list->capacity = 2 * list->capacity + 64;
        list->token = realloc(list->token, list->capacity * sizeof *list->token);
        if (list->token == NULL)
            give_up(PROGRAM, "out of memory");
    }
    list->token[list->count++] = token;
}

/* Returns whether a token ends the text. */
static bool is_end_token(const generated_text *w, int64_t token)
{
    for (int i = 0; i < w->n_end_tokens; i++)
        if (w->end_tokens[i] == token)
            return true;
    return false;
}

/* Writes a token of one of the texts. Returns false if that text ends. */
static bool write_token(void *user, int64_t sequence, int64_t token)
{
    generated_text *w = (generated_text *)user + sequence;
    const bool named = w->ignore_end && token == chosen.end_token;
    if (token >= th_tokenizer_size(w->tokenizer) || (!named && (token == chosen.end_token || is_end_token(w, token) ||
                                                                th_tokenizer_is_special(w->tokenizer, token))))
        return true; /* the end token, or padding of the vocabulary: neither has a text */
    if (w->answer)
        append_token(w->answer, (int32_t)token);
    return write_tokens(w, &(int32_t){(int32_t)token}, 1) && !w->stream.found;
}

/* Generates the continuations of the prompt (1, T). */
static th_status generate_texts(th_module *model, th_tensor *prompt, const sample_options *options, int64_t count,
                                generated_text *texts)
{
    const int64_t remaining = chosen.model.length - th_size(prompt, 1);
    th_generate_options generate_options = options->generate;
    generate_options.prompts = prompt;
    generate_options.slide = generate_options.beams <= 1;
    if (!generate_options.slide &&
        generate_options.max_new_tokens > remaining) /* beam search cannot exceed the model's length */
        generate_options.max_new_tokens = remaining;
    generate_options.emit = write_token;
    generate_options.user = texts;
    generate_options.end_tokens = options->n_end_tokens > 0 ? options->end_tokens : &chosen.end_token;
    generate_options.n_end_tokens = options->n_end_tokens > 0 ? options->n_end_tokens : chosen.end_token >= 0;
    if (options->ignore_end)
        generate_options.n_end_tokens = 0;
    for (int64_t i = 0; i < count; i++) { /* from here on, because the prompt may have a stop string */
        texts[i].stream.strings = options->stop;
        texts[i].stream.count = options->n_stop;
    }
    if (th_generate(model, &generate_options, NULL))
        return th_error_code(model->ctx);
    for (int64_t i = 0; i < count; i++)
        if (!write_tokens(&texts[i], NULL, 0))
            return th_error_code(model->ctx);
    return TH_OK;
}

/* Begins the texts. Several of them are kept in memory, because their tokens are generated together. */
static generated_text *begin_texts(const th_tokenizer *tokenizer, const sample_options *options, int64_t count,
                                   FILE *file, first_tokens *first)
{
    const int descriptor = fileno(file); /* -1 if the file is in memory */
    generated_text *texts = calloc((size_t)count, sizeof *texts);
    if (texts == NULL)
        give_up(PROGRAM, "out of memory");
    for (int64_t i = 0; i < count; i++) {
        texts[i] = (generated_text){.tokenizer = tokenizer,
                                    .file = file,
                                    .first = i == 0 ? first : NULL,
                                    .escaped = descriptor >= 0 && isatty(descriptor),
                                    .ignore_end = options->ignore_end,
                                    .end_tokens = options->ignore_end ? NULL : options->end_tokens,
                                    .n_end_tokens = options->ignore_end ? 0 : options->n_end_tokens,
                                    .answer = i == 0 ? options->answer : NULL};
        if (count > 1)
            texts[i].file = open_memstream(&texts[i].memory, &texts[i].bytes);
        if (texts[i].file == NULL)
            give_up(PROGRAM, "out of memory");
    }
    return texts;
}

/* Writes texts that were kept in memory, and releases all. */
static void end_texts(generated_text *texts, int64_t count, bool complete, FILE *file)
{
    for (int64_t i = 0; i < count; i++) {
        if (texts[i].file == file)
            continue;
        if (fclose(texts[i].file) != 0)
            give_up(PROGRAM, "out of memory");
        if (complete) {
            fprintf(file, "%s--- sample %lld of %lld ---\n", i ? "\n" : "", (long long)i + 1, (long long)count);
            fwrite(texts[i].memory, 1, texts[i].bytes, file);
        }
        free(texts[i].memory);
    }
    free(texts);
}

/* Appends the tokens of the prompt: a question, the text, or a new line. */
static th_status encode_prompt(th_tokenizer *tokenizer, const char *prompt, const sample_options *options,
                               th_token_list *tokens)
{
    size_t bytes = prompt ? strlen(prompt) : 1;
    for (size_t i = 0; options->question && i < options->question->count; i++)
        append_token(tokens, options->question->token[i]);
    if (tokens->count > 0)
        return TH_OK;
    if (prompt == NULL)
        prompt = th_tokenizer_find(tokenizer, "\n") >= 0 ? "\n" : th_tokenizer_bytes(tokenizer, 0, &bytes);
    return th_tokenizer_encode(tokenizer, prompt, bytes, tokens);
}

th_status generate_sample(th_module *model, th_tokenizer *tokenizer, const char *prompt, const sample_options *options,
                          FILE *file, first_tokens *first)
{
    const int64_t count = options->generate.sequences > 1 ? options->generate.sequences : 1;
    generated_text *texts = begin_texts(tokenizer, options, count, file, first);
    th_token_list tokens = {0};
    bool good = encode_prompt(tokenizer, prompt, options, &tokens) == TH_OK;
    for (int64_t i = 0; i < count && good && !options->without_prompt; i++)
        good = write_tokens(&texts[i], tokens.token, tokens.count);
    if (good) {
        th_tensor *t = th_from_data(model->ctx, TH_INT32, TH_SHAPE(1, (int64_t)tokens.count), tokens.token);
        good = generate_texts(model, t, options, count, texts) == TH_OK;
        th_tensor_free(t);
    }
    end_texts(texts, count, good, file);
    th_token_list_free(&tokens);
    return th_error_code(model->ctx);
}

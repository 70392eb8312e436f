/* Conversations as tokens. The whole text is encoded at once, as in transformers, because tokens may join the end of
 * one part with the beginning of the next. Then the tokens of the parts that count are found. */
#include <string.h>

#include "models/chat/chat.h"
#include "models/core/context.h"
#include "models/text/grow.h"

static const char operation[] = "chat_encode";

/* Tokens first .. past - 1. */
typedef struct token_range {
    size_t first, past;
} token_range;

/* -- by the bytes of tokens -- */

/* Sets begin[i] to the byte where token i begins, for the tokens from `from` on, and one more. Returns false if the
 * tokens' bytes are not the text, because the tokenizer changes it. */
static bool find_token_bytes(const th_tokenizer *tokenizer, const th_token_list *tokens, size_t from,
                             const th_text *text, size_t *begin)
{
    size_t at = 0;
    for (size_t i = from; i < tokens->count; i++) {
        size_t bytes = 0;
        const char *token = th_tokenizer_bytes(tokenizer, tokens->token[i], &bytes);
        if (token == NULL || bytes > text->count - at || memcmp(token, text->bytes + at, bytes) != 0)
            return false;
        begin[i - from] = at;
        at += bytes;
    }
    begin[tokens->count - from] = at;
    return at == text->count;
}

/* Returns the tokens that contain the bytes of the span. from: the first token of the span before, or 0. */
static token_range range_by_bytes(const size_t *begin, size_t count, size_t from, th_jinja_span span)
{
    token_range r = {from, from};
    while (r.first < count && begin[r.first + 1] <= span.begin)
        r.first++;
    for (r.past = r.first; r.past < count && begin[r.past] < span.end;)
        r.past++;
    return r;
}

/* -- by encoding the beginning of the text -- */

/* Returns how many tokens the text's beginning has in common with the whole; *is_whole: these are
 * all tokens of the beginning. */
static th_status count_common_tokens(th_tokenizer *tokenizer, const th_text *text, size_t bytes, const int32_t *whole,
                                     size_t count, size_t *same, bool *is_whole)
{
    th_token_list beginning = {0};
    const th_status status = th_tokenizer_encode(tokenizer, text->bytes, bytes, &beginning);
    for (*same = 0; *same < beginning.count && *same < count && beginning.token[*same] == whole[*same];)
        ++*same;
    *is_whole = *same == beginning.count;
    th_token_list_free(&beginning);
    return status;
}

static th_status range_by_prefix(th_tokenizer *tokenizer, const th_text *text, const int32_t *whole, size_t count,
                                 th_jinja_span span, token_range *range)
{
    bool is_whole;
    th_status status = count_common_tokens(tokenizer, text, span.begin, whole, count, &range->first, &is_whole);
    if (status == TH_OK)
        status = count_common_tokens(tokenizer, text, span.end, whole, count, &range->past, &is_whole);
    if (status == TH_OK && !is_whole && range->past < count)
        range->past++; /* a token that is partly in the span */
    return status;
}

/* -- marks -- */

/* Writes the marks of the tokens from `from` on: 0 if they are in a span, otherwise TH_TOKEN_GIVEN. */
static th_status mark_tokens(th_context *ctx, th_tokenizer *tokenizer, const th_jinja_result *written,
                             const th_token_list *tokens, size_t from, unsigned char *marks)
{
    const size_t count = tokens->count - from;
    size_t *begin = malloc((count + 1) * sizeof *begin);
    if (begin == NULL)
        return th_fail_memory(ctx, operation, count * sizeof *begin);
    const bool by_bytes = find_token_bytes(tokenizer, tokens, from, &written->text, begin);
    th_status status = TH_OK;
    memset(marks, TH_TOKEN_GIVEN, count);
    token_range r = {0, 0};
    for (size_t i = 0; i < written->spans && status == TH_OK; i++) {
        if (by_bytes)
            r = range_by_bytes(begin, count, r.first, written->span[i]);
        else
            status = range_by_prefix(tokenizer, &written->text, tokens->token + from, count, written->span[i], &r);
        if (status == TH_OK && r.past > r.first)
            memset(marks + r.first, 0, r.past - r.first);
    }
    free(begin);
    return status;
}

bool th_add_marks(th_text *marks, unsigned char mark, size_t count)
{
    if (count > PTRDIFF_MAX - 1 - marks->count || !TH_GROW(marks->bytes, marks->capacity, marks->count + count + 1))
        return false;
    memset(marks->bytes + marks->count, mark, count);
    marks->count += count;
    marks->bytes[marks->count] = 0;
    return true;
}

th_status th_chat_encode_text(const th_chat_template *chat, th_tokenizer *tokenizer, const th_jinja_result *written,
                              th_token_list *tokens, th_text *marks)
{
    const size_t from = tokens->count;
    th_status status = th_tokenizer_encode(tokenizer, written->text.bytes, written->text.count, tokens);
    if (status == TH_OK && marks && !th_add_marks(marks, 0, tokens->count - from))
        status = th_fail_memory(chat->ctx, operation, tokens->count);
    if (status == TH_OK && marks && tokens->count > from)
        status = mark_tokens(chat->ctx, tokenizer, written, tokens, from,
                             (unsigned char *)marks->bytes + marks->count - (tokens->count - from));
    return status;
}

th_status th_chat_encode(const th_chat_template *chat, th_tokenizer *tokenizer, const th_chat_message *messages,
                         size_t count, const th_chat_options *options, th_token_list *tokens, th_text *marks)
{
    if (!th_chat_usable(chat, operation))
        return chat ? th_error_code(chat->ctx) : TH_ERROR_ARGUMENT;
    if (tokenizer == NULL || tokens == NULL)
        return th_fail(chat->ctx, TH_ERROR_ARGUMENT, operation, "the tokenizer or the list of tokens is NULL");
    th_jinja_result written = {0};
    th_status status = th_chat_render_messages(chat, messages, count, options, marks != NULL, &written);
    if (status == TH_OK)
        status = th_chat_encode_text(chat, tokenizer, &written, tokens, marks);
    th_jinja_result_free(&written);
    return status;
}

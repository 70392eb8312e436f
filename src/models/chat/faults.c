/* The kinds of faults in a text of examples: see examples.h. Faults whose messages differ only in numbers are of one kind. */
#include <stdlib.h>
#include <string.h>

#include "models/chat/examples.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether two messages are equal, except for their numbers. */
static bool are_alike(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        if (is_digit(*a) && is_digit(*b)) {
            a += strspn(a, "0123456789") - 1;
            b += strspn(b, "0123456789") - 1;
        } else if (*a != *b) {
            return false;
        }
    }
    return *a == *b;
}

void th_faults_take(th_faults *faults, th_context *ctx, const char *source, int64_t line)
{
    char text[TH_FAULT_TEXT] = "", shown[TH_FAULT_TEXT] = "";
    th_append_visible(shown, sizeof shown, source); /* as errors have it */
    const char *error = th_error_text(ctx), *at = strstr(error, shown);
    th_append(text, sizeof text, "%s", at ? at + strlen(shown) + 2 : error);
    if (faults->count++ == 0)
        faults->status = th_error_code(ctx);
    th_error_clear(ctx);
    int i = 0;
    while (i < faults->kinds && !are_alike(faults->kind[i].text, text))
        i++;
    if (i == TH_FAULT_KINDS) {
        faults->others++;
        return;
    }
    if (i == faults->kinds) {
        faults->kinds++;
        memcpy(faults->kind[i].text, text, sizeof text);
        faults->kind[i].line = line;
    }
    faults->kind[i].count++;
}

/* Appends at most `most` bytes of a message. A longer one ends with "..." behind a word. Returns how many bytes it took. */
static size_t append_message(char *text, size_t size, const char *message, size_t most)
{
    size_t bytes = strlen(message);
    const bool fits = bytes <= most;
    if (!fits)
        for (bytes = most; bytes > 1 && message[bytes - 1] != ' ';)
            bytes--;
    th_append(text, size, "%.*s%s", (int)bytes, message, fits ? "" : "...");
    return bytes;
}

th_status th_faults_fail(const th_faults *faults, th_context *ctx, const char *operation, const char *name,
                         int64_t examples)
{
    char text[1000] = "";
    size_t left = TH_FAULT_TEXT; /* bytes for messages. Those that a short one leaves are for the ones after it */
    for (int i = 0; i < faults->kinds; i++) {
        if (i == 0)
            th_append(text, sizeof text, "%.300s", name);
        th_append(text, sizeof text, "%s line %lld: ", i == 0 ? "," : ";", (long long)faults->kind[i].line);
        left -= append_message(text, sizeof text, faults->kind[i].text, left / (size_t)(faults->kinds - i));
        if (faults->count > 1)
            th_append(text, sizeof text, " (%lld such)", (long long)faults->kind[i].count);
    }
    if (faults->others > 0)
        th_append(text, sizeof text, "; %lld have other faults", (long long)faults->others);
    if (faults->count > 1)
        th_append(text, sizeof text, ". In all, %lld of %lld examples have faults%s", (long long)faults->count,
                  (long long)examples, faults->count == TH_MAX_FAULTS ? ", and the rest was not read" : "");
    return th_fail(ctx, faults->status, operation, "%s", text);
}

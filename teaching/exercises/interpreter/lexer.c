/* Splits the source into tokens (language.h). Lines of the preprocessor: #include is skipped, #define of a number
 * becomes a constant. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "language.h"

static bool name_begins(char c)
{
    return isalpha((unsigned char)c) || c == '_';
}

static bool name_continues(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void add_token(interpreter *in, token t)
{
    if (in->n_tokens % 256 == 0) {
        token *more = realloc(in->tokens, ((size_t)in->n_tokens + 256) * sizeof *more);
        if (more == NULL) {
            in->no_memory = true;
            return;
        }
        in->tokens = more;
    }
    in->tokens[in->n_tokens++] = t;
}

/* Skips white space and comments. Returns whether something was skipped. */
static bool skip_space(interpreter *in, const char **s, int *line)
{
    const char *begin = *s;
    for (;; (*s)++) {
        if ((*s)[0] == '/' && (*s)[1] == '/') {
            *s += strcspn(*s, "\n");
        } else if ((*s)[0] == '/' && (*s)[1] == '*') {
            const char *end = strstr(*s + 2, "*/");
            if (end == NULL) {
                fail_at(in, *line, "this comment does not end");
                end = *s + strlen(*s) - 2;
            }
            for (; *s < end; (*s)++)
                *line += **s == '\n';
            (*s)++; /* and the loop skips the last character */
            continue;
        }
        if (**s == '\\' && (*s)[1] == '\n')
            (*s)++;
        else if (!isspace((unsigned char)**s))
            return *s > begin;
        *line += **s == '\n';
    }
}

static int sign_length(const char *s)
{
    static const char *const signs[] = {"...", "<<=", ">>=", "->", "++", "--", "+=", "-=", "*=", "/=", "%=",
                                        "&=",  "|=",  "^=",  "==", "!=", "<=", ">=", "&&", "||", "<<", ">>"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strncmp(s, signs[i], strlen(signs[i])) == 0)
            return (int)strlen(signs[i]);
    return 1;
}

/* Returns the length of a number. A sign belongs to it after e or p. */
static int number_length(const char *s, bool *real)
{
    const bool hexadecimal = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    int length = 0;
    for (; name_continues(s[length]) || s[length] == '.' ||
           ((s[length] == '+' || s[length] == '-') && length > 0 && strchr(hexadecimal ? "pP" : "eE", s[length - 1]));
         length++)
        *real = *real || s[length] == '.' || strchr(hexadecimal ? "pP" : "eEfF", s[length]) != NULL;
    return length;
}

static token next_token(interpreter *in, const char **s, int *line)
{
    const bool spaced = skip_space(in, s, line);
    token t = {.spaced = spaced, .text = *s, .line = *line, .kind = TOKEN_SIGN};
    bool real = false;
    if (**s == '\0') {
        t.kind = TOKEN_END;
    } else if (name_begins(**s)) {
        t.kind = TOKEN_NAME;
        while (name_continues((*s)[t.length]))
            t.length++;
    } else if (isdigit((unsigned char)**s) || (**s == '.' && isdigit((unsigned char)(*s)[1]))) {
        t.length = number_length(*s, &real);
        t.kind = real ? TOKEN_REAL : TOKEN_INTEGER;
    } else if (**s == '"' || **s == '\'') {
        for (t.length = 1; (*s)[t.length] && (*s)[t.length] != **s && (*s)[t.length] != '\n'; t.length++)
            t.length += (*s)[t.length] == '\\' && (*s)[t.length + 1];
        if ((*s)[t.length] == **s)
            t.length++;
        else
            fail_at(in, *line, "the text that begins here does not end in its line");
        t.kind = **s == '"' ? TOKEN_TEXT : TOKEN_SIGN;
    } else {
        t.length = sign_length(*s);
    }
    *s += t.length;
    return t;
}

/* Reads the rest of a line that begins with #. */
static void read_directive(interpreter *in, const char **s, int *line)
{
    const int first = *line;
    const char *word = *s + strspn(*s, " \t"), *end = *s + strcspn(*s, "\n");
    if (strncmp(word, "include", 7) == 0) {
        *s = end;
        return;
    }
    if (strncmp(word, "define", 6) != 0) {
        fail_at(in, first, "#%.*s is not in the C of the exercises: leave out this line", (int)strcspn(word, " \t\n"),
                word);
        *s = end;
        return;
    }
    *s = word + 6;
    const token name = next_token(in, s, line);
    if (name.kind != TOKEN_NAME || **s == '(') {
        fail_at(in, first, "a #define with arguments is not in the C of the exercises: write a function");
        *s = end;
        return;
    }
    const constant c = {.name = name.text,
                        .length = name.length,
                        .line = first,
                        .macro = true,
                        .at = in->n_tokens,
                        .next = in->constants};
    in->constants = keep(in, &c, sizeof c);
    for (;;) {
        const char *before = *s;
        const token t = next_token(in, s, line);
        if (t.kind == TOKEN_END || *line != first) {
            *s = t.kind == TOKEN_END ? t.text : before;
            *line = first;
            break;
        }
        add_token(in, t);
    }
    add_token(in, (token){.kind = TOKEN_END, .text = "", .line = first});
}

/* A list of the tokens of macros and the others would mix them. So the macros come first, in a pass of their own. */
static void read_pass(interpreter *in, bool macros)
{
    const char *s = in->source;
    int line = 1;
    for (;;) {
        const int before = line;
        skip_space(in, &s, &line);
        const bool begins = s == in->source || before != line || s[-1] == '\n';
        if (*s == '#' && begins) {
            const char *end = s + strcspn(s, "\n");
            s++;
            if (macros)
                read_directive(in, &s, &line);
            else
                s = end;
            continue;
        }
        const token t = next_token(in, &s, &line);
        if (!macros) {
            add_token(in, t);
            if (t.length && (in->tokens[in->n_tokens - 1].text[0] & 0x80))
                fail_at(in, t.line, "this character is not in the C of the exercises: %.*s",
                        (int)strcspn(t.text, " \n"), t.text);
        }
        if (t.kind == TOKEN_END || in->no_memory)
            return;
    }
}

bool read_tokens(interpreter *in)
{
    read_pass(in, true);
    const int first = in->n_tokens;
    read_pass(in, false);
    in->at = first;
    if (in->no_memory || in->n_tokens == first)
        return false;
    /* next_token forgets white space that read_pass skipped */
    for (int i = first + 1; i < in->n_tokens; i++)
        in->tokens[i].spaced = in->tokens[i].text > in->tokens[i - 1].text + in->tokens[i - 1].length;
    if (in->error[0])
        in->at = in->n_tokens - 1;
    return true;
}

/* -- looking at tokens -- */

const token *peek(const interpreter *in)
{
    static const token none = {.kind = TOKEN_END, .text = ""};
    return in->n_tokens ? &in->tokens[in->at] : &none;
}

bool is_text(const token *t, const char *text)
{
    return t->kind != TOKEN_TEXT && (size_t)t->length == strlen(text) && strncmp(t->text, text, strlen(text)) == 0 &&
           t->kind != TOKEN_END;
}

bool next_is(const interpreter *in, const char *text)
{
    return is_text(peek(in), text);
}

bool second_is(const interpreter *in, const char *text)
{
    return peek(in)->kind != TOKEN_END && is_text(peek(in) + 1, text);
}

void advance(interpreter *in)
{
    in->at += peek(in)->kind != TOKEN_END;
}

bool accept(interpreter *in, const char *text)
{
    if (!next_is(in, text))
        return false;
    advance(in);
    return true;
}

void require(interpreter *in, const char *text, const char *where)
{
    if (accept(in, text))
        return;
    const token *t = peek(in);
    const int line = in->at > 0 && t[-1].kind != TOKEN_END ? t[-1].line : t->line;
    if (t->kind == TOKEN_END)
        fail_at(in, line, "%s is missing %s: the file ends here", text, where);
    else
        fail_at(in, line, "%s is missing %s, before %.*s", text, where, t->length, t->text);
}

const char *source_text(interpreter *in, int first, int end)
{
    size_t length = 1;
    for (int i = first; i < end; i++)
        length += (size_t)in->tokens[i].length + 1;
    char *text = keep(in, NULL, length), *to = text;
    for (int i = first; i < end && !in->no_memory; i++) {
        if (i > first && in->tokens[i].spaced)
            *to++ = ' ';
        memcpy(to, in->tokens[i].text, (size_t)in->tokens[i].length);
        to += in->tokens[i].length;
    }
    return text;
}

/* Divides a Jinja program into tokens, with jinja2's rules for white space (trim_blocks, lstrip_blocks, the signs + and
 * -), comments and raw blocks. */
#include <string.h>

#include "models/jinja/syntax.h"
#include "models/text/characters.h"

void th_jinja_find_place(const char *text, size_t place, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < place; i++)
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80)
            ++*column;
}

static char at(const th_jinja_lexer *lexer, size_t place)
{
    return place < lexer->bytes ? lexer->text[place] : 0;
}

static size_t skip_space(const th_jinja_lexer *lexer, size_t place)
{
    for (size_t n; (n = th_white_space_length(lexer->text + place, lexer->bytes - place)) > 0;)
        place += n;
    return place;
}

static bool begins(const th_jinja_lexer *lexer, size_t place, const char *text)
{
    const size_t count = strlen(text);
    return lexer->bytes - place >= count && memcmp(lexer->text + place, text, count) == 0;
}

/* -- text outside tags -- */

/* Returns the end of a text before a tag whose sign is given, without the white space that the tag removes. */
static size_t end_of_text(const th_jinja_lexer *lexer, size_t begin, size_t end, char sign, bool strips)
{
    if (sign == '-') {
        while (end > begin) {
            size_t n = 1;
            while (n <= 3 && n <= end - begin && th_white_space_length(lexer->text + end - n, n) != n)
                n++;
            if (n > 3 || n > end - begin)
                break;
            end -= n;
        }
        return end;
    }
    size_t line = end;
    while (line > begin && lexer->text[line - 1] != '\n')
        line--;
    if (sign == '+' || !strips || (line == begin && !lexer->line_starts) || line == end)
        return end;
    for (size_t place = line; place < end;) {
        const size_t n = th_white_space_length(lexer->text + place, end - place);
        if (n == 0)
            return end;
        place += n;
    }
    return line;
}

/* Moves behind the end of a block or a comment, with the white space that it removes. The end is at `place`. */
static void leave(th_jinja_lexer *lexer, size_t place, bool trims)
{
    const char sign = at(lexer, place);
    const size_t after = place + (sign == '-' || sign == '+' ? 3 : 2);
    lexer->at = sign == '-' ? skip_space(lexer, after) : after + (trims && sign != '+' && at(lexer, after) == '\n');
    lexer->line_starts = lexer->text[lexer->at - 1] == '\n';
    lexer->where = TH_JINJA_OUTSIDE;
}

/* Finds the end of a tag, such as "#}", with its sign. Returns false if there is none. */
static bool find_end(const th_jinja_lexer *lexer, size_t from, const char *end, size_t *place)
{
    for (size_t i = from; i + 2 <= lexer->bytes; i++)
        if (begins(lexer, i, end)) {
            const char sign = i > from ? lexer->text[i - 1] : 0;
            *place = sign == '-' || sign == '+' ? i - 1 : i;
            return true;
        }
    return false;
}

/* Returns the end of "{%- word -%}" at `place`, where it is that tag; 0 for another. *sign: the one at its end. */
static size_t find_word_tag(const th_jinja_lexer *lexer, size_t place, const char *word, char *sign)
{
    if (!begins(lexer, place, "{%"))
        return 0;
    size_t i = place + 2;
    i += at(lexer, i) == '-' || at(lexer, i) == '+';
    i = skip_space(lexer, i);
    if (!begins(lexer, i, word))
        return 0;
    i = skip_space(lexer, i + strlen(word));
    *sign = at(lexer, i);
    const size_t end = i + (*sign == '-' || *sign == '+');
    return begins(lexer, end, "%}") ? end + 2 : 0;
}

/* Returns the text of a raw block, whose tag ends at `lexer->at`. */
static th_jinja_token read_raw(th_jinja_lexer *lexer, uint32_t tag)
{
    const size_t begin = lexer->at;
    for (size_t i = begin; i < lexer->bytes; i++) {
        char sign;
        const size_t end = find_word_tag(lexer, i, "endraw", &sign);
        if (end == 0)
            continue;
        const size_t stop = end_of_text(lexer, begin, i, at(lexer, i + 2), true);
        leave(lexer, end - 2 - (sign == '-' || sign == '+'), true);
        return (th_jinja_token){TH_JINJA_DATA, lexer->text + begin, stop - begin, (uint32_t)begin};
    }
    lexer->at = tag;
    lexer->problem = "the raw block has no {% endraw %}";
    return (th_jinja_token){.place = tag};
}

/* Reads what begins at lexer->at, a tag: a raw block is a text, a comment nothing. */
static th_jinja_token open_tag(th_jinja_lexer *lexer)
{
    char sign;
    const size_t place = lexer->at, raw = find_word_tag(lexer, place, "raw", &sign);
    size_t end;
    if (raw && sign != '+') {
        lexer->at = sign == '-' ? skip_space(lexer, raw) : raw;
        lexer->line_starts = lexer->text[lexer->at - 1] == '\n';
        return read_raw(lexer, (uint32_t)place);
    }
    if (begins(lexer, place, "{#")) {
        if (!find_end(lexer, place + 2, "#}", &end)) {
            lexer->problem = "the comment has no end: #}";
            return (th_jinja_token){.place = (uint32_t)place};
        }
        leave(lexer, end, true);
        return (th_jinja_token){TH_JINJA_DATA, lexer->text + place, 0, (uint32_t)place};
    }
    const bool block = begins(lexer, place, "{%");
    const char first = at(lexer, place + 2);
    lexer->at += 2 + (size_t)(first == '-' || first == '+');
    lexer->where = block ? TH_JINJA_IN_BLOCK : TH_JINJA_IN_VARIABLE;
    lexer->brackets = 0;
    return (th_jinja_token){block ? TH_JINJA_BLOCK_BEGIN : TH_JINJA_VARIABLE_BEGIN, lexer->text + place, 2,
                            (uint32_t)place};
}

static bool is_tag(const th_jinja_lexer *lexer, size_t place)
{
    return begins(lexer, place, "{%") || begins(lexer, place, "{{") || begins(lexer, place, "{#");
}

static th_jinja_token read_outside(th_jinja_lexer *lexer)
{
    const size_t begin = lexer->at;
    if (begin >= lexer->bytes)
        return (th_jinja_token){.place = (uint32_t)lexer->bytes};
    if (is_tag(lexer, begin))
        return open_tag(lexer);
    size_t end = begin;
    while (end < lexer->bytes && !is_tag(lexer, end))
        end++;
    size_t stop = end;
    if (end < lexer->bytes)
        stop = end_of_text(lexer, begin, end, at(lexer, end + 2), !begins(lexer, end, "{{"));
    lexer->at = end;
    return (th_jinja_token){TH_JINJA_DATA, lexer->text + begin, stop - begin, (uint32_t)begin};
}

/* -- inside tags -- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static size_t skip_digits(const th_jinja_lexer *lexer, size_t place)
{
    while (is_digit(at(lexer, place)) || (at(lexer, place) == '_' && is_digit(at(lexer, place + 1))))
        place++;
    return place;
}

static th_jinja_token take(th_jinja_lexer *lexer, th_jinja_token_kind kind, size_t end)
{
    const size_t place = lexer->at;
    lexer->at = end;
    return (th_jinja_token){kind, lexer->text + place, end - place, (uint32_t)place};
}

static th_jinja_token read_number(th_jinja_lexer *lexer)
{
    const size_t begin = lexer->at;
    const char next = (char)(at(lexer, begin + 1) | 0x20);
    size_t end = skip_digits(lexer, begin);
    if (at(lexer, begin) == '0' && (next == 'x' || next == 'o' || next == 'b')) {
        for (end = begin + 2; is_word(at(lexer, end));)
            end++;
        return take(lexer, TH_JINJA_INTEGER, end);
    }
    bool real = at(lexer, end) == '.' && is_digit(at(lexer, end + 1)) && (begin == 0 || at(lexer, begin - 1) != '.');
    if (real)
        end = skip_digits(lexer, end + 1);
    if ((at(lexer, end) | 0x20) == 'e') {
        const size_t digits = end + 1 + (at(lexer, end + 1) == '-' || at(lexer, end + 1) == '+');
        if (is_digit(at(lexer, digits))) {
            end = skip_digits(lexer, digits);
            real = true;
        }
    }
    return take(lexer, real ? TH_JINJA_REAL : TH_JINJA_INTEGER, end);
}

static th_jinja_token read_string(th_jinja_lexer *lexer)
{
    const char quote = at(lexer, lexer->at);
    for (size_t i = lexer->at + 1; i < lexer->bytes; i++)
        if (lexer->text[i] == '\\')
            i++;
        else if (lexer->text[i] == quote)
            return take(lexer, TH_JINJA_QUOTED, i + 1);
    lexer->problem = "the string has no end";
    return (th_jinja_token){.place = (uint32_t)lexer->at};
}

/* Counts a bracket. Returns false if it does not match. */
static bool count_bracket(th_jinja_lexer *lexer, char c)
{
    static const char open[] = "([{", close[] = ")]}";
    const char *opens = strchr(open, c), *closes = strchr(close, c);
    if (opens && *opens) {
        if (lexer->brackets == (int)sizeof lexer->bracket) {
            lexer->problem = "brackets are nested too deep";
            return false;
        }
        lexer->bracket[lexer->brackets++] = close[opens - open];
    } else if (closes && *closes) {
        if (lexer->brackets == 0 || lexer->bracket[--lexer->brackets] != c) {
            lexer->problem = "a closing bracket has no opening one";
            return false;
        }
    }
    return true;
}

static th_jinja_token read_operator(th_jinja_lexer *lexer)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "//", "**", "+", "-", "*", "/", "%", "~", "[",
                                            "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (begins(lexer, lexer->at, operators[i])) {
            if (!count_bracket(lexer, operators[i][0]))
                break;
            return take(lexer, TH_JINJA_OPERATOR, lexer->at + strlen(operators[i]));
        }
    if (lexer->problem == NULL)
        lexer->problem = "this character has no meaning here";
    return (th_jinja_token){.place = (uint32_t)lexer->at};
}

static th_jinja_token read_inside(th_jinja_lexer *lexer)
{
    lexer->at = skip_space(lexer, lexer->at);
    const size_t place = lexer->at;
    const char c = at(lexer, place);
    const bool block = lexer->where == TH_JINJA_IN_BLOCK;
    const size_t sign = c == '-' || (block && c == '+') ? 1 : 0;
    if (place >= lexer->bytes) {
        lexer->problem = "the tag has no end";
        return (th_jinja_token){.place = (uint32_t)place};
    }
    if (lexer->brackets == 0 && begins(lexer, place + sign, block ? "%}" : "}}")) {
        leave(lexer, place, block);
        return (th_jinja_token){block ? TH_JINJA_BLOCK_END : TH_JINJA_VARIABLE_END, lexer->text + place, 2,
                                (uint32_t)place};
    }
    if (is_digit(c))
        return read_number(lexer);
    if (is_word(c)) {
        size_t end = place;
        while (is_word(at(lexer, end)))
            end++;
        return take(lexer, TH_JINJA_WORD, end);
    }
    return c == '"' || c == '\'' ? read_string(lexer) : read_operator(lexer);
}

th_jinja_token th_jinja_next(th_jinja_lexer *lexer)
{
    if (lexer->problem)
        return (th_jinja_token){.place = (uint32_t)lexer->at};
    return lexer->where == TH_JINJA_OUTSIDE ? read_outside(lexer) : read_inside(lexer);
}

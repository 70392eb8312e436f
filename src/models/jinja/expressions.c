/* Parses the expressions of a Jinja program, with jinja2's precedence. */
#include <errno.h>
#include <string.h>

#include "models/jinja/parser.h"

static th_jinja_node *parse_choice(th_jinja_parser *p);
static th_jinja_node *parse_or(th_jinja_parser *p);
static th_jinja_node *parse_unary(th_jinja_parser *p, bool filters);

static th_jinja_node *constant(th_jinja_parser *p, th_jinja_value value)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_CONSTANT);
    node->value = value;
    return node;
}

/* -- literals -- */

/* Writes a code point as UTF-8. Returns its length; 0 for an invalid one. */
static size_t put_code(char *to, uint32_t code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    const size_t count = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)((0xf00u >> count & 0xf0u) | code);
    return count;
}

static int digit_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : 99;
}

/* Reads at most `most` digits of a base. Returns their number. */
static size_t read_code(const char *text, size_t count, int base, size_t most, uint32_t *code)
{
    size_t n = 0;
    for (*code = 0; n < most && n < count && digit_value(text[n]) < base; n++)
        *code = *code * (uint32_t)base + (uint32_t)digit_value(text[n]);
    return n;
}

/* Writes what the escape after a backslash means. Returns the bytes that it has, 0 for an error. */
static size_t put_escape(char *to, size_t *written, const char *text, size_t count)
{
    static const char letters[] = "abfnrtv\\'\"", meaning[] = "\a\b\f\n\r\t\v\\'\"";
    const char *letter = memchr(letters, text[0], sizeof letters - 1);
    uint32_t code;
    if (letter) {
        to[(*written)++] = meaning[letter - letters];
        return 1;
    }
    if (text[0] == '\n')
        return 1;
    const size_t wanted = text[0] == 'x' ? 2 : text[0] == 'u' ? 4 : text[0] == 'U' ? 8 : 0;
    size_t used = wanted > 0 ? 1 : 0;
    used += read_code(text + used, count - used, wanted ? 16 : 8, wanted ? wanted : 3, &code);
    if (used == 0) { /* another letter: the backslash stays */
        to[(*written)++] = '\\';
        return text[0] == 'N' ? 0 : SIZE_MAX;
    }
    const size_t bytes = put_code(to + *written, code);
    *written += bytes;
    return bytes == 0 || (wanted && used != wanted + 1) ? 0 : used;
}

/* Appends the contents of a quoted string. */
static bool put_quoted(const th_jinja_token *token, char *to, size_t *written)
{
    const char *text = token->bytes + 1;
    const size_t count = token->count - 2;
    for (size_t i = 0; i < count;) {
        if (text[i] != '\\') {
            to[(*written)++] = text[i++];
            continue;
        }
        const size_t used = put_escape(to, written, text + i + 1, count - i - 1);
        if (used == 0)
            return false;
        i += used == SIZE_MAX ? 1 : used + 1;
    }
    return true;
}

/* Reads strings, which are one if they follow each other. */
static th_jinja_node *parse_string(th_jinja_parser *p)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_CONSTANT);
    const char *before = "";
    size_t count = 0;
    while (!p->failed && p->token.kind == TH_JINJA_QUOTED) {
        /* \U12345678 is the escape with the most bytes for each of its own, and none has more than itself */
        char *bytes = th_jinja_take_memory(p, count + p->token.count + 4);
        if (bytes == NULL)
            break;
        memcpy(bytes, before, count);
        if (!put_quoted(&p->token, bytes, &count))
            th_jinja_refuse(p, "an escape in the string is not a character");
        before = bytes;
        th_jinja_advance(p);
    }
    node->value = (th_jinja_value){.kind = TH_JINJA_STRING, .string = th_jinja_intern(p, before, count)};
    return node;
}

static th_jinja_node *parse_number(th_jinja_parser *p)
{
    char digits[80];
    size_t count = 0;
    const bool real = p->token.kind == TH_JINJA_REAL;
    for (size_t i = 0; i < p->token.count && count + 1 < sizeof digits; i++)
        if (p->token.bytes[i] != '_')
            digits[count++] = p->token.bytes[i];
    digits[count] = 0;
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_CONSTANT);
    const char letter = count > 1 ? (char)(digits[1] | 0x20) : 0;
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    char *end = digits;
    errno = 0;
    if (real) {
        double value = 0;
        json_t *json = json_loads(digits, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL);
        value = json_real_value(json);
        end = json ? digits + count : digits;
        json_decref(json);
        node->value = th_jinja_float(value);
    } else
        node->value = th_jinja_int(strtoll(base == 10 ? digits : digits + 2, &end, base));
    if (errno != 0 || *end || (!real && base == 10 && digits[0] == '0' && strspn(digits, "0") != count))
        th_jinja_refuse(p, "the number %s cannot be read", digits);
    th_jinja_advance(p);
    return node;
}

static th_jinja_node *parse_word(th_jinja_parser *p)
{
    static const struct {
        const char *word;
        th_jinja_kind kind;
        bool boolean;
    } constants[] = {{"true", TH_JINJA_BOOL, true},   {"True", TH_JINJA_BOOL, true},  {"false", TH_JINJA_BOOL, false},
                     {"False", TH_JINJA_BOOL, false}, {"none", TH_JINJA_NONE, false}, {"None", TH_JINJA_NONE, false}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (th_jinja_at_word(p, constants[i].word)) {
            th_jinja_node *node =
                constant(p, constants[i].kind == TH_JINJA_BOOL ? th_jinja_bool(constants[i].boolean) : th_jinja_none());
            th_jinja_advance(p);
            return node;
        }
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_NAME);
    node->name = th_jinja_take_name(p);
    return node;
}

/* -- brackets -- */

/* Reads expressions with commas up to a closing bracket, which is read. */
static th_jinja_node *parse_items(th_jinja_parser *p, const char *close, bool *comma)
{
    th_jinja_node *first = NULL, **link = &first;
    *comma = false;
    while (!p->failed && !th_jinja_at_operator(p, close)) {
        if (first)
            th_jinja_expect(p, ",");
        *comma |= first != NULL;
        if (th_jinja_at_operator(p, close))
            break;
        *link = parse_choice(p);
        link = &(*link)->next;
    }
    th_jinja_expect(p, close);
    return first;
}

static th_jinja_node *parse_parentheses(th_jinja_parser *p)
{
    bool comma;
    th_jinja_node *tuple = th_jinja_make(p, TH_JINJA_TUPLE_OF);
    th_jinja_advance(p);
    tuple->first = parse_items(p, ")", &comma);
    return comma || tuple->first == NULL ? tuple : tuple->first;
}

static th_jinja_node *parse_list(th_jinja_parser *p)
{
    bool comma;
    th_jinja_node *list = th_jinja_make(p, TH_JINJA_LIST_OF);
    th_jinja_advance(p);
    list->first = parse_items(p, "]", &comma);
    return list;
}

static th_jinja_node *parse_dict(th_jinja_parser *p)
{
    th_jinja_node *dict = th_jinja_make(p, TH_JINJA_DICT_OF), **link = &dict->first;
    th_jinja_advance(p);
    while (!p->failed && !th_jinja_at_operator(p, "}")) {
        if (dict->first)
            th_jinja_expect(p, ",");
        if (th_jinja_at_operator(p, "}"))
            break;
        th_jinja_node *pair = th_jinja_make(p, TH_JINJA_PAIR);
        pair->first = parse_choice(p);
        th_jinja_expect(p, ":");
        pair->second = parse_choice(p);
        *link = pair;
        link = &pair->next;
    }
    th_jinja_expect(p, "}");
    return dict;
}

static th_jinja_node *parse_primary(th_jinja_parser *p)
{
    if (p->token.kind == TH_JINJA_WORD)
        return parse_word(p);
    if (p->token.kind == TH_JINJA_QUOTED)
        return parse_string(p);
    if (p->token.kind == TH_JINJA_INTEGER || p->token.kind == TH_JINJA_REAL)
        return parse_number(p);
    if (th_jinja_at_operator(p, "("))
        return parse_parentheses(p);
    if (th_jinja_at_operator(p, "["))
        return parse_list(p);
    if (th_jinja_at_operator(p, "{"))
        return parse_dict(p);
    if (p->token.kind == TH_JINJA_END_OF_TEXT)
        th_jinja_refuse(p, "the template ends in an expression");
    else
        th_jinja_refuse(p, "an expression cannot begin with '%.*s'", (int)th_smaller((int64_t)p->token.count, 60),
                        p->token.bytes);
    return constant(p, th_jinja_none());
}

/* -- calls, attributes, items -- */

static th_jinja_node *parse_argument(th_jinja_parser *p, bool *named)
{
    th_jinja_node *node;
    const bool star = th_jinja_at_operator(p, "*"), stars = th_jinja_at_operator(p, "**");
    if (star || stars) {
        node = th_jinja_make(p, TH_JINJA_SPREAD);
        node->op = star ? '*' : 'p';
        th_jinja_advance(p);
        node->first = parse_choice(p);
        *named |= stars;
        return node;
    }
    if (p->token.kind == TH_JINJA_WORD && p->ahead.kind == TH_JINJA_OPERATOR && p->ahead.count == 1 &&
        p->ahead.bytes[0] == '=') {
        node = th_jinja_make(p, TH_JINJA_NAMED);
        node->name = th_jinja_take_name(p);
        th_jinja_advance(p);
        node->first = parse_choice(p);
        *named = true;
        return node;
    }
    if (*named)
        th_jinja_refuse(p, "an argument without a name follows one with a name");
    return parse_choice(p);
}

/* Reads "(...)". */
static th_jinja_node *parse_arguments(th_jinja_parser *p)
{
    th_jinja_node *first = NULL, **link = &first;
    bool named = false;
    th_jinja_expect(p, "(");
    while (!p->failed && !th_jinja_at_operator(p, ")")) {
        if (first)
            th_jinja_expect(p, ",");
        if (first && th_jinja_at_operator(p, ")"))
            break;
        *link = parse_argument(p, &named);
        link = &(*link)->next;
    }
    th_jinja_expect(p, ")");
    return first;
}

static th_jinja_node *parse_call(th_jinja_parser *p, th_jinja_node *function)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_CALL);
    node->first = function;
    node->second = parse_arguments(p);
    return node;
}

/* Reads ".name" or ".0". */
static th_jinja_node *parse_attribute(th_jinja_parser *p, th_jinja_node *object)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_ATTRIBUTE);
    node->first = object;
    th_jinja_advance(p);
    if (p->token.kind == TH_JINJA_INTEGER) {
        node->kind = TH_JINJA_ITEM;
        node->second = parse_number(p);
    } else
        node->name = th_jinja_take_name(p);
    return node;
}

/* Reads "[...]": a key, several keys, or a slice. */
static th_jinja_node *parse_item(th_jinja_parser *p, th_jinja_node *object)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_ITEM), **part[] = {&node->second, &node->third, &node->other};
    node->first = object;
    th_jinja_advance(p);
    if (th_jinja_at_operator(p, "]"))
        th_jinja_refuse(p, "a key is expected");
    for (int i = 0; i < 3 && !p->failed; i++) {
        if (!th_jinja_at_operator(p, ":") && !th_jinja_at_operator(p, "]"))
            *part[i] = parse_choice(p);
        if (i == 2 || !th_jinja_skip_operator(p, ":"))
            break;
        node->kind = TH_JINJA_SLICE;
    }
    if (node->kind == TH_JINJA_ITEM && th_jinja_at_operator(p, ",")) {
        th_jinja_node *tuple = th_jinja_make(p, TH_JINJA_TUPLE_OF);
        tuple->first = node->second;
        node->second = tuple;
        for (th_jinja_node *last = tuple->first; !p->failed && th_jinja_skip_operator(p, ","); last = last->next)
            last->next = parse_choice(p);
    }
    th_jinja_expect(p, "]");
    return node;
}

static th_jinja_node *parse_postfix(th_jinja_parser *p, th_jinja_node *node)
{
    for (; !p->failed;)
        if (th_jinja_at_operator(p, "."))
            node = parse_attribute(p, node);
        else if (th_jinja_at_operator(p, "["))
            node = parse_item(p, node);
        else if (th_jinja_at_operator(p, "("))
            node = parse_call(p, node);
        else
            break;
    return node;
}

/* -- filters and tests -- */

th_jinja_node *th_jinja_parse_filters(th_jinja_parser *p, th_jinja_node *value)
{
    bool first = value == NULL && !th_jinja_at_operator(p, "|");
    while (!p->failed && (first || th_jinja_skip_operator(p, "|"))) {
        th_jinja_node *node = th_jinja_make(p, TH_JINJA_FILTER);
        first = false;
        node->first = value;
        node->name = th_jinja_take_name(p);
        if (th_jinja_at_operator(p, "("))
            node->second = parse_arguments(p);
        value = node;
    }
    return value ? value : th_jinja_make(p, TH_JINJA_FILTER);
}

/* Whether the token begins the argument of a test that has no parentheses. */
static bool at_argument(const th_jinja_parser *p)
{
    if (p->token.kind == TH_JINJA_WORD)
        return !th_jinja_at_word(p, "else") && !th_jinja_at_word(p, "or") && !th_jinja_at_word(p, "and");
    return p->token.kind == TH_JINJA_QUOTED || p->token.kind == TH_JINJA_INTEGER || p->token.kind == TH_JINJA_REAL ||
           th_jinja_at_operator(p, "[") || th_jinja_at_operator(p, "{");
}

static th_jinja_node *parse_test(th_jinja_parser *p, th_jinja_node *value)
{
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_TEST), *negated = NULL;
    th_jinja_advance(p);
    if (th_jinja_at_word(p, "not")) {
        negated = th_jinja_make(p, TH_JINJA_NOT);
        th_jinja_advance(p);
    }
    node->first = value;
    node->name = th_jinja_take_name(p);
    if (th_jinja_at_operator(p, "("))
        node->second = parse_arguments(p);
    else if (at_argument(p)) {
        if (th_jinja_at_word(p, "is"))
            th_jinja_refuse(p, "tests cannot be chained with 'is'");
        node->second = parse_postfix(p, parse_primary(p));
    }
    if (negated)
        negated->first = node;
    return negated ? negated : node;
}

/* -- operators -- */

static th_jinja_node *parse_unary(th_jinja_parser *p, bool filters)
{
    th_jinja_node *node;
    if (!th_jinja_enter(p))
        return constant(p, th_jinja_none());
    if (th_jinja_at_operator(p, "-") || th_jinja_at_operator(p, "+")) {
        node = th_jinja_make(p, th_jinja_at_operator(p, "-") ? TH_JINJA_NEGATIVE : TH_JINJA_POSITIVE);
        th_jinja_advance(p);
        node->first = parse_unary(p, false);
    } else
        node = parse_primary(p);
    node = parse_postfix(p, node);
    for (; filters && !p->failed;)
        if (th_jinja_at_operator(p, "|"))
            node = th_jinja_parse_filters(p, node);
        else if (th_jinja_at_word(p, "is"))
            node = parse_test(p, node);
        else if (th_jinja_at_operator(p, "("))
            node = parse_call(p, node);
        else
            break;
    p->depth--;
    return node;
}

/* Levels of binary operators, from the weakest. */
static const struct {
    const char *text;
    char op;
    int level;
} binary[] = {{"+", '+', 0}, {"-", '-', 0},  {"~", '~', 1}, {"*", '*', 2},
              {"/", '/', 2}, {"//", 'i', 2}, {"%", '%', 2}, {"**", 'p', 3}};
enum { LEVELS = 4 };

static th_jinja_node *parse_binary(th_jinja_parser *p, int level)
{
    if (level == LEVELS)
        return parse_unary(p, true);
    th_jinja_node *left = parse_binary(p, level + 1);
    for (bool found = true; found && !p->failed;) {
        found = false;
        for (size_t i = 0; i < sizeof binary / sizeof *binary && !found; i++)
            if (binary[i].level == level && th_jinja_at_operator(p, binary[i].text)) {
                th_jinja_node *node = th_jinja_make(p, TH_JINJA_OPERATION);
                th_jinja_advance(p);
                node->op = binary[i].op;
                node->first = left;
                node->second = parse_binary(p, level + 1);
                left = node;
                found = true;
            }
    }
    return left;
}

/* Returns the comparison operator here, which is read; 0 if there is none. */
static char take_comparison(th_jinja_parser *p)
{
    static const struct {
        const char *text;
        char op;
    } operators[] = {{"==", '='}, {"!=", '!'}, {"<", '<'}, {"<=", 'l'}, {">", '>'}, {">=", 'g'}};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (th_jinja_skip_operator(p, operators[i].text))
            return operators[i].op;
    if (th_jinja_skip_word(p, "in"))
        return 'n';
    if (!th_jinja_at_word(p, "not") || p->ahead.kind != TH_JINJA_WORD || p->ahead.count != 2 ||
        memcmp(p->ahead.bytes, "in", 2) != 0)
        return 0;
    th_jinja_advance(p);
    th_jinja_advance(p);
    return 'o';
}

static th_jinja_node *parse_comparison(th_jinja_parser *p)
{
    th_jinja_node *left = parse_binary(p, 0), *all = NULL, **link = NULL;
    for (char op; !p->failed;) {
        th_jinja_node *comparand = th_jinja_make(p, TH_JINJA_COMPARAND);
        if ((op = take_comparison(p)) == 0)
            break;
        if (all == NULL) {
            all = th_jinja_make(p, TH_JINJA_COMPARE);
            all->first = left;
            link = &all->second;
        }
        comparand->op = op;
        comparand->first = parse_binary(p, 0);
        *link = comparand;
        link = &comparand->next;
    }
    return all ? all : left;
}

static th_jinja_node *parse_not(th_jinja_parser *p)
{
    if (!th_jinja_at_word(p, "not"))
        return parse_comparison(p);
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_NOT);
    if (!th_jinja_enter(p))
        return node;
    th_jinja_advance(p);
    node->first = parse_not(p);
    p->depth--;
    return node;
}

static th_jinja_node *parse_and(th_jinja_parser *p)
{
    th_jinja_node *left = parse_not(p);
    while (!p->failed && th_jinja_at_word(p, "and")) {
        th_jinja_node *node = th_jinja_make(p, TH_JINJA_AND);
        th_jinja_advance(p);
        node->first = left;
        node->second = parse_not(p);
        left = node;
    }
    return left;
}

static th_jinja_node *parse_or(th_jinja_parser *p)
{
    th_jinja_node *left = parse_and(p);
    while (!p->failed && th_jinja_at_word(p, "or")) {
        th_jinja_node *node = th_jinja_make(p, TH_JINJA_OR);
        th_jinja_advance(p);
        node->first = left;
        node->second = parse_and(p);
        left = node;
    }
    return left;
}

/* Reads "a if b else c". */
static th_jinja_node *parse_choice(th_jinja_parser *p)
{
    if (!th_jinja_enter(p))
        return constant(p, th_jinja_none());
    th_jinja_node *value = parse_or(p);
    while (!p->failed && th_jinja_at_word(p, "if")) {
        th_jinja_node *node = th_jinja_make(p, TH_JINJA_CHOICE);
        th_jinja_advance(p);
        node->second = value;
        node->first = parse_or(p);
        if (th_jinja_skip_word(p, "else"))
            node->third = parse_choice(p);
        value = node;
    }
    p->depth--;
    return value;
}

th_jinja_node *th_jinja_parse_expression(th_jinja_parser *p)
{
    return parse_choice(p);
}

/* -- tuples and targets -- */

/* Whether the token ends a tuple without parentheses. */
static bool at_end(const th_jinja_parser *p)
{
    return p->token.kind == TH_JINJA_BLOCK_END || p->token.kind == TH_JINJA_VARIABLE_END || th_jinja_at_word(p, "if") ||
           th_jinja_at_word(p, "recursive");
}

th_jinja_node *th_jinja_parse_tuple(th_jinja_parser *p, bool simple)
{
    th_jinja_node *first = simple ? parse_or(p) : parse_choice(p);
    if (!th_jinja_at_operator(p, ","))
        return first;
    th_jinja_node *tuple = th_jinja_make(p, TH_JINJA_TUPLE_OF), *last = first;
    tuple->first = first;
    while (!p->failed && th_jinja_skip_operator(p, ",") && !at_end(p)) {
        last->next = simple ? parse_or(p) : parse_choice(p);
        last = last->next;
    }
    return tuple;
}

static th_jinja_node *parse_one_target(th_jinja_parser *p, bool attributes)
{
    static const char *const reserved[] = {"true", "false", "none", "True", "False", "None"};
    if (th_jinja_skip_operator(p, "(")) {
        th_jinja_node *inner = th_jinja_parse_target(p, attributes);
        th_jinja_expect(p, ")");
        return inner;
    }
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (th_jinja_at_word(p, reserved[i]))
            th_jinja_refuse(p, "a value cannot be assigned to %s", reserved[i]);
    th_jinja_node *node = th_jinja_make(p, TH_JINJA_NAME);
    node->name = th_jinja_take_name(p);
    if (attributes && th_jinja_at_operator(p, ".")) {
        th_jinja_node *attribute = th_jinja_make(p, TH_JINJA_ATTRIBUTE);
        th_jinja_advance(p);
        attribute->first = node;
        attribute->name = th_jinja_take_name(p);
        return attribute;
    }
    return node;
}

th_jinja_node *th_jinja_parse_target(th_jinja_parser *p, bool attributes)
{
    if (!th_jinja_enter(p))
        return constant(p, th_jinja_none());
    th_jinja_node *first = parse_one_target(p, attributes), *result = first;
    if (th_jinja_at_operator(p, ",")) {
        result = th_jinja_make(p, TH_JINJA_TUPLE_OF);
        result->first = first;
        for (th_jinja_node *last = first; !p->failed && th_jinja_skip_operator(p, ",") &&
                                          p->token.kind == TH_JINJA_WORD && !th_jinja_at_word(p, "in");
             last = last->next)
            last->next = parse_one_target(p, attributes);
    }
    p->depth--;
    return result;
}

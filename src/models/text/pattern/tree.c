/* Reads regular expressions as trees: see tree.h. */
#include "models/text/pattern/tree.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/text/characters.h"
#include "models/text/grow.h"
#include "models/text/pattern/expression.h"
#include "models/text/unicode.h"

enum { MAX_GROUPS = 63, MAX_COUNT = 9999 };

typedef struct reader {
    th_expression in;
    const char *item_begin; /* where the item that messages show begins */
    th_pattern_tree *tree;
    char *reason;       /* "" without an error */
    bool out_of_memory; /* then reason is "" */
    bool ignores_case;
    int groups; /* open */
} reader;

static void set_reason(reader *r, const char *format, ...) TH_FORMAT(2, 3);
static void set_reason(reader *r, const char *format, ...)
{
    if (r->reason[0] || r->out_of_memory)
        return;
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(r->reason, TH_PATTERN_REASON, format, arguments);
    va_end(arguments);
}

static bool is_valid(const reader *r)
{
    return r->reason[0] == 0 && !r->out_of_memory;
}

static void require_memory(reader *r, bool allocated)
{
    r->out_of_memory = r->out_of_memory || (!allocated && is_valid(r));
}

/* Whether one of these characters is next. */
static bool next_is_one_of(const reader *r, const char *characters)
{
    return r->in.at < r->in.end && *r->in.at && strchr(characters, *r->in.at);
}

/* -- costs -- */

static int limit_steps(int64_t number)
{
    return number > TH_MAX_PATTERN_STEPS ? TH_MAX_PATTERN_STEPS + 1 : (int)number;
}

/* Returns the sum of both, and of some steps. */
static th_tree_cost add_costs(th_tree_cost a, th_tree_cost b, int steps)
{
    return (th_tree_cost){limit_steps((int64_t)a.steps + b.steps + steps), limit_steps((int64_t)a.kept + b.kept)};
}

static th_tree_cost multiply_cost(th_tree_cost cost, int count)
{
    return (th_tree_cost){limit_steps((int64_t)cost.steps * count), limit_steps((int64_t)cost.kept * count)};
}

/* Sets the costs of a repetition. A body that can match the empty string has different steps before and after the first
 * character that it matches (program.c). */
static void set_cost_of_repeat(th_tree_node *node, const th_tree_node *body)
{
    const bool any = node->most == TH_ANY_COUNT;
    const int certain = any ? (node->least > 0 ? node->least - 1 : 0) : node->least;
    const int perhaps = any ? 0 : node->most - node->least;
    const th_tree_cost one = {1, 0}, loop = add_costs(body->empty ? body->repeated : body->cost, one, 0);
    const th_tree_cost plain =
        add_costs(multiply_cost(body->cost, certain), multiply_cost(add_costs(body->cost, one, 0), perhaps), 0);
    const th_tree_cost again =
        add_costs(multiply_cost(body->repeated, certain), multiply_cost(add_costs(body->repeated, one, 0), perhaps), 0);
    node->cost = any ? add_costs(plain, loop, 0) : plain;
    node->repeated = add_costs(plain, again, 0);
    if (any)
        node->repeated = add_costs(node->repeated, multiply_cost(loop, 3), 0);
}

/* Sets what a node has because of its parts. */
static void set_properties(const reader *r, th_tree_node *node)
{
    const th_tree_node *first = &r->tree->node[node->first], *second = &r->tree->node[node->second];
    switch (node->kind) {
    case TH_TREE_EMPTY:
        node->empty = true;
        break;
    case TH_TREE_SET:
        node->length = 1;
        node->cost.steps = 1;
        break;
    case TH_TREE_SEQUENCE:
        node->empty = first->empty && second->empty;
        node->length = first->length < 0 || second->length < 0 ? -1 : limit_steps(first->length + second->length);
        node->cost = add_costs(first->cost, second->cost, 0);
        node->repeated = add_costs(first->repeated, add_costs(second->cost, second->repeated, 0), 0);
        if (first->kind != TH_TREE_SEQUENCE)
            node->repeated = add_costs(node->repeated, first->cost, 0);
        break;
    case TH_TREE_EITHER:
        node->empty = first->empty || second->empty;
        node->length = first->length == second->length ? first->length : -1;
        node->cost = add_costs(first->cost, second->cost, 1);
        node->repeated = add_costs(first->repeated, second->repeated, 1);
        break;
    case TH_TREE_REPEAT:
        node->empty = node->least == 0 || first->empty;
        node->length =
            node->least == node->most && first->length >= 0 ? limit_steps((int64_t)first->length * node->least) : -1;
        set_cost_of_repeat(node, first);
        break;
    case TH_TREE_ATOMIC:
        node->empty = first->empty;
        node->length = first->length;
        node->cost = node->repeated = add_costs(first->cost, (th_tree_cost){2, 1}, 0);
        break;
    case TH_TREE_AHEAD:
    case TH_TREE_NOT_AHEAD: /* at one character: one step */
        node->empty = true;
        node->cost = node->repeated = add_costs(first->cost, (th_tree_cost){0, 0}, first->kind == TH_TREE_SET ? 0 : 2);
        break;
    case TH_TREE_BEHIND:
    case TH_TREE_NOT_BEHIND:
        node->empty = true;
        node->cost = node->repeated = add_costs(first->cost, (th_tree_cost){2, 1}, 0);
        break;
    }
    if (!node->empty)
        node->repeated = node->cost;
}

/* Returns how many bytes of the item a message shows. */
static int shown_bytes(const reader *r)
{
    return r->in.at - r->item_begin > 60 ? 60 : (int)(r->in.at - r->item_begin);
}

/* Returns the number of a new node; 0 after a failure. */
static int add_node(reader *r, th_tree_node node)
{
    require_memory(r, TH_GROW(r->tree->node, r->tree->capacity, r->tree->nodes + 1));
    if (!is_valid(r))
        return 0;
    set_properties(r, &node);
    if (node.cost.steps > TH_MAX_PATTERN_STEPS)
        set_reason(r, "at '%.*s' it becomes longer than %d steps: characters, | and repetitions, times their counts",
                   shown_bytes(r), r->item_begin, TH_MAX_PATTERN_STEPS);
    if (node.cost.kept > TH_MAX_PATTERN_KEPT)
        set_reason(r, "at '%.*s' it has more than %d possessive or atomic groups and lookbehinds, times their counts",
                   shown_bytes(r), r->item_begin, TH_MAX_PATTERN_KEPT);
    r->tree->node[r->tree->nodes] = node;
    return (int)r->tree->nodes++;
}

static int add_pair(reader *r, th_tree_kind kind, int first, int second)
{
    return add_node(r, (th_tree_node){.kind = kind, .first = first, .second = second});
}

static th_tree_node node_of(const reader *r, int node)
{
    return is_valid(r) ? r->tree->node[node] : (th_tree_node){.kind = TH_TREE_EMPTY};
}

/* -- characters -- */

/* Reads at least `least` and at most `most` hexadecimal digits. */
static bool read_hexadecimal(reader *r, int least, int most, uint32_t *code)
{
    static const char digits[] = "0123456789abcdef";
    int count = 0;
    const char *digit;
    for (*code = 0;
         count < most && r->in.at < r->in.end && *r->in.at && (digit = strchr(digits, *r->in.at | 32)) && *digit;
         count++) {
        *code = *code << 4 | (uint32_t)(digit - digits);
        r->in.at++;
    }
    return count >= least;
}

/* Reads a character that follows a backslash. */
static uint32_t read_escape(reader *r)
{
    static const char letters[] = "tnrfvae", codes[] = "\t\n\r\f\v\a\x1b";
    const char c = r->in.at < r->in.end ? *r->in.at++ : 0;
    const char *letter = c ? strchr(letters, c) : NULL;
    uint32_t code = (uint32_t)(unsigned char)c;
    bool succeeded = true;
    if (letter)
        code = (uint32_t)codes[letter - letters];
    else if (c == 'x' && th_accept(&r->in, "{"))
        succeeded = read_hexadecimal(r, 1, 6, &code) && th_accept(&r->in, "}");
    else if (c == 'x')
        succeeded = read_hexadecimal(r, 2, 2, &code) && code < 0x80;
    else if (c == 'u')
        succeeded = read_hexadecimal(r, 4, 4, &code);
    else if (c <= ' ' || c >= 127)
        set_reason(r, "a backslash precedes a character that cannot be escaped");
    else if (((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9'))
        set_reason(r, "\\%c is not supported", c);
    if (!succeeded || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        set_reason(r, "\\%c is not followed by a code point", c);
    if (r->ignores_case && code >= 0x80)
        set_reason(r, "within (?i:) only ASCII is supported");
    return code;
}

/* Reads a character that stands for itself. */
static uint32_t read_literal(reader *r)
{
    static const char *const pairs[] = {"ss", "ff", "fi", "fl", "st"};
    const char *at = r->in.at;
    const size_t left = (size_t)(r->in.end - at);
    for (size_t i = 0; r->ignores_case && left >= 2 && i < sizeof pairs / sizeof *pairs; i++)
        if ((at[0] | 32) == pairs[i][0] && (at[1] | 32) == pairs[i][1])
            set_reason(r, "\"%s\" within (?i:) is not supported", pairs[i]);
    const int length = th_character_length(at, left);
    if (length == 0)
        set_reason(r, "it is not UTF-8");
    if (r->ignores_case && length > 1)
        set_reason(r, "within (?i:) only ASCII is supported");
    r->in.at += length > 0 ? length : 1;
    return length > 0 ? th_character_code(at, length) : 0;
}

/* -- sets -- */

static void add_range(reader *r, th_character_set *set, uint32_t first, uint32_t last)
{
    if (last < first)
        set_reason(r, "a range of a [] ends before it begins");
    require_memory(r, !is_valid(r) || th_character_set_add(&r->tree->sets, set, first, last));
}

/* Adds a category or Han. */
static void add_property(reader *r, th_character_set *set, char kind, const char *name)
{
    static const char *const known[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "N",  "Nd",
                                        "Nl", "No", "P",  "S",  "Z",  "Zs", "Zl", "Zp", "Han"};
    size_t i = 0;
    while (i < sizeof known / sizeof known[0] && strcmp(known[i], name) != 0)
        i++;
    if (i == sizeof known / sizeof known[0])
        set_reason(r, "\\%c{%s} is not supported: general categories such as \\p{L} and \\p{Lu}, and \\p{Han} are",
                   kind, name);
    else
        set->properties |= strcmp(name, "Han") == 0 ? TH_HAN : th_unicode_categories(name);
}

/* Adds the characters of words: letters, marks, decimal digits, numbers that are letters, letters in a circle or a
 * square, and punctuation that connects, such as _. Outside of [] also the numbers of Latin-1, as in Oniguruma, the
 * regex engine of tokenizers. */
static void add_word(reader *r, th_character_set *set, bool within)
{
    static const uint32_t numbers[] = {0xb2, 0xb3, 0xb9, 0xbc, 0xbd, 0xbe};
    static const uint32_t others[][2] = {{'_', '_'},         {0x203f, 0x2040},  {0x2054, 0x2054}, {0x24b6, 0x24e9},
                                         {0xfe33, 0xfe34},   {0xfe4d, 0xfe4f},  {0xff3f, 0xff3f}, {0x1f130, 0x1f149},
                                         {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
    static const char *const categories[] = {"L", "M", "Nd", "Nl"};
    for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
        set->properties |= th_unicode_categories(categories[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        add_range(r, set, others[i][0], others[i][1]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !within; i++)
        add_range(r, set, numbers[i], numbers[i]);
}

/* Reads \s, \d, \w, \p{..} and their opposites, if one is next. Within [..], opposites are not allowed. */
static bool read_class(reader *r, th_character_set *set, bool within)
{
    if (r->in.end - r->in.at < 2 || *r->in.at != '\\' || r->in.at[1] == 0 || !strchr("sSdDwWpP", r->in.at[1]))
        return false;
    const char kind = r->in.at[1];
    r->in.at += 2;
    if (kind < 'a' && within)
        set_reason(r, "\\%c within [] is not supported", kind);
    if (r->ignores_case)
        set_reason(r, "\\%c within (?i:) is not supported", kind);
    char name[8] = "Nd";
    if (kind == 'p' || kind == 'P') {
        const char *close = th_next_is(&r->in, "{") ? memchr(r->in.at, '}', (size_t)(r->in.end - r->in.at)) : NULL;
        const size_t count = close ? (size_t)(close - r->in.at) - 1 : 0;
        const bool fits = count > 0 && count < sizeof name;
        memcpy(name, fits ? r->in.at + 1 : "", fits ? count : 0);
        name[fits ? count : 0] = 0;
        r->in.at = fits ? close + 1 : r->in.at;
    }
    if (kind == 's' || kind == 'S')
        set->properties |= TH_SPACE;
    else if (kind == 'w' || kind == 'W')
        add_word(r, set, within);
    else
        add_property(r, set, kind, name);
    set->inverted = kind < 'a';
    return true;
}

/* Reads a character of [..]. */
static uint32_t read_member(reader *r)
{
    if (r->in.at == r->in.end)
        set_reason(r, "a [ is not closed");
    else if (th_next_is(&r->in, "[") || th_next_is(&r->in, "&&"))
        set_reason(r, "sets within sets are not supported; write \\[ and \\& for the characters");
    if (!is_valid(r))
        return 0;
    return th_accept(&r->in, "\\") ? read_escape(r) : read_literal(r);
}

/* Whether a hyphen is next that is not the last character of a set. */
static bool next_is_range(const reader *r)
{
    return th_next_is(&r->in, "-") && !th_next_is(&r->in, "-]");
}

/* Reads [..], after the bracket. */
static void read_members(reader *r, th_character_set *set)
{
    if (r->ignores_case)
        set_reason(r, "[] within (?i:) is not supported");
    const bool inverted = th_accept(&r->in, "^");
    if (th_next_is(&r->in, "]"))
        set_reason(r, "a [] is empty");
    while (is_valid(r) && !th_accept(&r->in, "]")) {
        th_character_set unused = {0};
        if (read_class(r, set, true)) {
            if (next_is_range(r))
                set_reason(r, "a range begins with a class");
            continue;
        }
        const uint32_t low = read_member(r);
        const bool range = next_is_range(r) && th_accept(&r->in, "-");
        if (range && read_class(r, &unused, true))
            set_reason(r, "a range ends with a class");
        add_range(r, set, low, range ? read_member(r) : low);
    }
    set->inverted = inverted;
}

/* Adds a character, and the characters that differ from it in case only. */
static void add_character(reader *r, th_character_set *set, uint32_t code)
{
    add_range(r, set, code, code);
    if (!r->ignores_case || (code | 32) < 'a' || (code | 32) > 'z')
        return;
    add_range(r, set, code ^ 32, code ^ 32);
    if ((code | 32) == 's')
        add_range(r, set, 0x17f, 0x17f); /* the long s */
    if ((code | 32) == 'k')
        add_range(r, set, 0x212a, 0x212a); /* the sign of Kelvin */
}

/* Reads a set or a character. */
static int read_set(reader *r)
{
    th_character_set set = th_character_set_begin(&r->tree->sets);
    int index = 0;
    if (th_accept(&r->in, "[")) {
        read_members(r, &set);
    } else if (th_accept(&r->in, ".")) {
        add_range(r, &set, '\n', '\n');
        set.inverted = true;
    } else if (!read_class(r, &set, false)) {
        add_character(r, &set, th_accept(&r->in, "\\") ? read_escape(r) : read_literal(r));
    }
    require_memory(r, !is_valid(r) || th_character_sets_add(&r->tree->sets, &set, &index));
    return add_node(r, (th_tree_node){.kind = TH_TREE_SET, .set = index});
}

/* -- groups and repetitions -- */

static int read_alternatives(reader *r);

/* Returns an atomic group. After a greedy repetition of a set, the next character may not be in the set: this needs no
 * group. */
static int add_atomic(reader *r, int body)
{
    const th_tree_node node = node_of(r, body);
    const bool repeats_set = node.kind == TH_TREE_REPEAT && !node.lazy && node_of(r, node.first).kind == TH_TREE_SET;
    if (node.kind == TH_TREE_SET)
        return body;
    if (repeats_set && node.least == 0 && node.most == 1)
        return add_pair(r, TH_TREE_EITHER, node.first, add_pair(r, TH_TREE_NOT_AHEAD, node.first, 0));
    if (repeats_set && node.most == TH_ANY_COUNT)
        return add_pair(r, TH_TREE_SEQUENCE, body, add_pair(r, TH_TREE_NOT_AHEAD, node.first, 0));
    return add_pair(r, TH_TREE_ATOMIC, body, 0);
}

/* Returns a lookbehind. Its alternatives may have different lengths: each one becomes a lookbehind. */
static int add_behind(reader *r, th_tree_kind kind, int body)
{
    const th_tree_kind join_kind = kind == TH_TREE_BEHIND ? TH_TREE_EITHER : TH_TREE_SEQUENCE;
    int joined = -1;
    for (bool has_more = true; has_more && is_valid(r);) {
        const th_tree_node node = node_of(r, body);
        has_more = node.kind == TH_TREE_EITHER && node.length < 0;
        const int alternative = has_more ? node.second : body;
        if (node_of(r, alternative).length < 0)
            set_reason(r, "'%.*s' looks behind for a part without a fixed length", shown_bytes(r), r->item_begin);
        const int lookbehind = add_pair(r, kind, alternative, 0);
        joined = joined < 0 ? lookbehind : add_pair(r, join_kind, joined, lookbehind);
        body = node.first;
    }
    return joined < 0 ? 0 : joined;
}

/* Reads a group, after the parenthesis. */
static int read_group(reader *r, const char *begin)
{
    static const char *const kinds[] = {"?:", "?i:", "?=", "?!", "?<=", "?<!", "?>"};
    size_t kind = 0;
    while (kind < sizeof kinds / sizeof *kinds && !th_accept(&r->in, kinds[kind]))
        kind++;
    if (kind == sizeof kinds / sizeof *kinds && th_next_is(&r->in, "?"))
        set_reason(r, "a group begins with (? and something other than : i: = ! <= <! >");
    if (th_next_is(&r->in, "*"))
        set_reason(r, "a group begins with (*");
    if (r->groups == MAX_GROUPS)
        set_reason(r, "groups are nested deeper than %d", MAX_GROUPS);
    const bool outer_ignores_case = r->ignores_case;
    r->ignores_case = outer_ignores_case || kind == 1;
    r->groups++;
    const int body = is_valid(r) ? read_alternatives(r) : 0;
    r->groups--;
    r->ignores_case = outer_ignores_case;
    r->item_begin = begin;
    if (!th_accept(&r->in, ")"))
        set_reason(r, "a ( is not closed");
    if (kind >= 2 && kind <= 5 && next_is_one_of(r, "*+?{"))
        set_reason(r, "a lookaround group is repeated, which is not supported");
    switch (kind) {
    case 2:
    case 3:
        return add_pair(r, kind == 2 ? TH_TREE_AHEAD : TH_TREE_NOT_AHEAD, body, 0);
    case 4:
    case 5:
        return add_behind(r, kind == 4 ? TH_TREE_BEHIND : TH_TREE_NOT_BEHIND, body);
    case 6:
        return add_atomic(r, body);
    default:
        return body;
    }
}

static int read_item(reader *r)
{
    const char *begin = r->in.at;
    if (th_accept(&r->in, "("))
        return read_group(r, begin);
    if (next_is_one_of(r, "^$"))
        set_reason(r, "%c is not supported", *r->in.at);
    else if (next_is_one_of(r, "*+?{"))
        set_reason(r, "there is nothing before %c to repeat", *r->in.at);
    return is_valid(r) ? read_set(r) : 0;
}

/* Reads a number below 10000. Returns -1 without one. */
static int read_number(reader *r)
{
    const char *begin = r->in.at;
    int number = 0;
    while (next_is_one_of(r, "0123456789") && number <= MAX_COUNT)
        number = 10 * number + (*r->in.at++ - '0');
    return r->in.at > begin && r->in.at - begin < 5 ? number : -1;
}

/* Reads {n}, {n,} or {n,m}, after the brace. Returns whether it is {n}. */
static bool read_counts(reader *r, th_tree_node *node)
{
    node->least = node->most = read_number(r);
    bool succeeded = node->least >= 0;
    const bool exact = !th_accept(&r->in, ",");
    if (!exact) {
        const bool any = th_next_is(&r->in, "}");
        node->most = any ? TH_ANY_COUNT : read_number(r);
        succeeded = succeeded && (any || node->most >= 0);
    }
    if (!succeeded || !th_accept(&r->in, "}"))
        set_reason(r, "a { does not begin {n}, {n,} or {n,m} with n and m below 10000; write \\{ for the character");
    else if (node->most != TH_ANY_COUNT && node->most < node->least)
        set_reason(r, "a {%d,%d} has the larger number first", node->least, node->most);
    return exact;
}

/* Reads the repetition of an item that starts at `begin`, if there is one. */
static int read_repetition(reader *r, int item, const char *begin)
{
    th_tree_node node = {.kind = TH_TREE_REPEAT, .first = item, .most = TH_ANY_COUNT};
    const bool counted = th_accept(&r->in, "{");
    bool exact = false;
    if (counted)
        exact = read_counts(r, &node);
    else if (th_accept(&r->in, "+"))
        node.least = 1;
    else if (th_accept(&r->in, "?"))
        node.most = 1;
    else if (!th_accept(&r->in, "*"))
        return item;
    if (th_next_is(&r->in, "+") && counted)
        set_reason(r, "{}+ is ambiguous; put the repeated part in (?:)");
    if (th_next_is(&r->in, "?") && exact)
        set_reason(r, "{n}? is ambiguous; put the repeated part in (?:)");
    node.lazy = th_accept(&r->in, "?");
    const bool possessive = !node.lazy && th_accept(&r->in, "+");
    if (next_is_one_of(r, "*+?{"))
        set_reason(r, "a repetition is repeated; put the repeated part in (?:)");
    r->item_begin = begin;
    const int repeated = is_valid(r) ? add_node(r, node) : 0;
    return possessive ? add_atomic(r, repeated) : repeated;
}

static int read_sequence(reader *r)
{
    int sequence = -1;
    while (is_valid(r) && r->in.at < r->in.end && !next_is_one_of(r, "|)")) {
        const char *begin = r->in.at;
        const int item = read_item(r), repeated = is_valid(r) ? read_repetition(r, item, begin) : 0;
        r->item_begin = begin;
        sequence = sequence < 0 ? repeated : add_pair(r, TH_TREE_SEQUENCE, sequence, repeated);
    }
    return sequence < 0 ? add_node(r, (th_tree_node){.kind = TH_TREE_EMPTY}) : sequence;
}

static int read_alternatives(reader *r)
{
    int either = read_sequence(r);
    while (is_valid(r) && th_accept(&r->in, "|")) {
        const int next = read_sequence(r);
        either = add_pair(r, TH_TREE_EITHER, either, next);
    }
    return either;
}

bool th_pattern_tree_read(const char *expression, size_t count, th_pattern_tree *tree, char reason[TH_PATTERN_REASON])
{
    reason[0] = 0;
    reader r = {.in = {expression, expression + count}, .item_begin = expression, .tree = tree, .reason = reason};
    if (count > TH_MAX_PATTERN)
        set_reason(&r, "it has %zu bytes, more than %d", count, TH_MAX_PATTERN);
    else if (memchr(expression, 0, count))
        set_reason(&r, "it contains a NUL");
    tree->root = is_valid(&r) ? read_alternatives(&r) : 0;
    if (is_valid(&r) && r.in.at < r.in.end)
        set_reason(&r, "a ) has no matching (");
    if (is_valid(&r) && tree->node[tree->root].empty)
        set_reason(&r, "it can match the empty string");
    return is_valid(&r);
}

void th_pattern_tree_release(th_pattern_tree *tree)
{
    free(tree->node);
    th_character_sets_release(&tree->sets);
    *tree = (th_pattern_tree){0};
}

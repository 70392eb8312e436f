/* Reads regular expressions as trees: see pattern_tree.h. The expression is known to be valid. The reader stops at
 * everything that it does not know; the expression is then matched by PCRE2. */
#include "models/text/pattern_tree.h"

#include <string.h>

#include "models/text/expression.h"
#include "models/text/split.h"
#include "models/text/unicode.h"

typedef struct reader {
    th_expression in;
    th_pattern_tree *tree;
    bool known; /* so far */
    bool ignores_case;
} reader;

static void require(reader *r, bool condition)
{
    r->known = r->known && condition;
}

/* -- nodes -- */

static bool is_empty(const reader *r, const th_tree_node *node)
{
    const th_tree_node *first = &r->tree->node[node->first], *second = &r->tree->node[node->second];
    switch (node->kind) {
    case TH_TREE_SET:
        return false;
    case TH_TREE_SEQUENCE:
        return first->empty && second->empty;
    case TH_TREE_EITHER:
        return first->empty || second->empty;
    case TH_TREE_REPEAT:
        return node->least == 0 || first->empty;
    default:
        return true;
    }
}

/* Returns the index of a new node; 0 after a failure. */
static int add(reader *r, th_tree_node node)
{
    require(r, r->tree->nodes < TH_MAX_TREE_NODES);
    if (!r->known)
        return 0;
    node.empty = is_empty(r, &node);
    r->tree->node[r->tree->nodes] = node;
    return r->tree->nodes++;
}

static int add_set(reader *r, th_tree_kind kind, const th_character_set *set)
{
    th_pattern_tree *tree = r->tree;
    int i = 0;
    while (i < tree->sets && memcmp(&tree->set[i], set, sizeof *set) != 0)
        i++;
    require(r, i < TH_MAX_TREE_SETS);
    if (!r->known)
        return 0;
    if (i == tree->sets)
        tree->set[tree->sets++] = *set;
    return add(r, (th_tree_node){.kind = kind, .set = i});
}

/* -- characters -- */

static uint32_t read_hexadecimal(reader *r, int most)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t code = 0;
    for (const char *digit; most > 0 && r->in.at < r->in.end && *r->in.at && (digit = strchr(digits, *r->in.at | 32));
         most--) {
        code = code << 4 | (uint32_t)(digit - digits);
        r->in.at++;
    }
    return code;
}

/* Reads a character that follows a backslash. */
static uint32_t read_escape(reader *r)
{
    static const char letters[] = "tnrfvae", codes[] = "\t\n\r\f\v\a\x1b";
    const char c = r->in.at < r->in.end ? *r->in.at++ : 0;
    const char *letter = c ? strchr(letters, c) : NULL;
    if (letter)
        return (uint32_t)codes[letter - letters];
    if (c == 'x' && th_accept(&r->in, "{")) {
        const uint32_t code = read_hexadecimal(r, 6);
        require(r, th_accept(&r->in, "}"));
        return code;
    }
    if (c == 'x' || c == 'u')
        return read_hexadecimal(r, c == 'x' ? 2 : 4);
    require(r, c > ' ' && c < 127 && !((c | 32) >= 'a' && (c | 32) <= 'z') && !(c >= '0' && c <= '9'));
    return (uint32_t)c;
}

/* Reads a character that stands for itself. */
static uint32_t read_literal(reader *r)
{
    const int length = th_character_length(r->in.at, (size_t)(r->in.end - r->in.at));
    require(r, length > 0);
    const uint32_t code = length > 0 ? th_code_of(r->in.at, length) : 0;
    r->in.at += length > 0 ? length : 1;
    return code;
}

static bool next_is_class(const reader *r)
{
    return r->in.end - r->in.at >= 2 && r->in.at[0] == '\\' && strchr("sSdDpP", r->in.at[1]);
}

/* Reads \s, \S, \d, \D, \p{..} or \P{..}. */
static void read_class(reader *r, th_character_set *set)
{
    const char kind = r->in.at[1];
    r->in.at += 2;
    char name[4] = "Nd";
    if (kind == 'p' || kind == 'P') {
        size_t count = 0;
        require(r, th_accept(&r->in, "{"));
        for (; r->in.at < r->in.end && *r->in.at != '}' && count + 1 < sizeof name; r->in.at++)
            name[count++] = *r->in.at;
        name[count] = 0;
        require(r, th_accept(&r->in, "}"));
    }
    /* Han is a script, not a category */
    require(r, kind == 's' || kind == 'S'
                   ? th_character_set_add_spaces(set)
                   : name[0] && strcmp(name, "Han") != 0 && th_character_set_add_category(set, name));
    set->inverted = kind < 'a';
}

/* Adds a character to an empty set, and the characters that differ from it in case only. */
static void add_character(const reader *r, th_character_set *set, uint32_t code)
{
    th_character_set_add(set, code, code);
    const bool letter = code < 0x80 && ((code | 32) >= 'a' && (code | 32) <= 'z');
    if (r->ignores_case && letter) {
        th_character_set_add(set, code ^ 32, code ^ 32);
        if ((code | 32) == 's')
            th_character_set_add(set, 0x17f, 0x17f); /* the long s */
        if ((code | 32) == 'k')
            th_character_set_add(set, 0x212a, 0x212a); /* the sign of Kelvin */
    }
}

/* Reads one character of [..], or the end of a range. */
static uint32_t read_member(reader *r)
{
    require(r, !next_is_class(r));
    return th_accept(&r->in, "\\") ? read_escape(r) : read_literal(r);
}

/* Reads [..], after the bracket. A hyphen must be first, last, escaped or in a range. */
static void read_members(reader *r, th_character_set *set)
{
    const bool inverted = th_accept(&r->in, "^");
    for (bool first = true; r->known && !th_accept(&r->in, "]"); first = false) {
        if (next_is_class(r)) {
            read_class(r, set);
            continue;
        }
        const bool hyphen = th_next_is(&r->in, "-");
        const uint32_t low = read_member(r);
        require(r, !hyphen || first || th_next_is(&r->in, "]"));
        const bool range = th_next_is(&r->in, "-") && !th_next_is(&r->in, "-]") && th_accept(&r->in, "-");
        require(r, th_character_set_add(set, low, range ? read_member(r) : low));
    }
    set->inverted = inverted;
}

/* -- groups and repetitions -- */

static int read_alternatives(reader *r);

/* Reads a set or a character. A set takes 500 bytes of stack, which groups within groups must not repeat. */
static __attribute__((noinline)) int read_set(reader *r, th_tree_kind kind)
{
    th_character_set set = {0};
    if (th_accept(&r->in, "["))
        read_members(r, &set);
    else if (th_accept(&r->in, "."))
        set.inverted = th_character_set_add(&set, '\n', '\n');
    else if (next_is_class(r))
        read_class(r, &set);
    else
        add_character(r, &set, th_accept(&r->in, "\\") ? read_escape(r) : read_literal(r));
    return add_set(r, kind, &set);
}

/* Reads a group, after the parenthesis. */
static int read_group(reader *r)
{
    const bool ahead = th_accept(&r->in, "?="), not_ahead = !ahead && th_accept(&r->in, "?!");
    int node;
    if (ahead || not_ahead) {
        require(r, !th_next_is(&r->in, "|") && !th_next_is(&r->in, "(") && !th_next_is(&r->in, ")"));
        node = read_set(r, ahead ? TH_TREE_AHEAD : TH_TREE_NOT_AHEAD);
    } else {
        const bool before = r->ignores_case;
        r->ignores_case = th_accept(&r->in, "?i:") || before;
        (void)th_accept(&r->in, "?:");
        require(r, !th_next_is(&r->in, "?"));
        node = r->known ? read_alternatives(r) : 0;
        r->ignores_case = before;
    }
    require(r, th_accept(&r->in, ")"));
    return node;
}

static int read_item(reader *r)
{
    return th_accept(&r->in, "(") ? read_group(r) : read_set(r, TH_TREE_SET);
}

/* Reads a number; `missing` if there is none. */
static int read_number(reader *r, int missing)
{
    const char *begin = r->in.at;
    int number = 0;
    for (; r->in.at < r->in.end && *r->in.at >= '0' && *r->in.at <= '9' && number < 10000; r->in.at++)
        number = 10 * number + (*r->in.at - '0');
    return r->in.at > begin ? number : missing;
}

static int read_repetition(reader *r, int item)
{
    th_tree_node node = {.kind = TH_TREE_REPEAT, .first = item, .most = TH_ANY_COUNT};
    if (th_accept(&r->in, "{")) {
        node.least = node.most = read_number(r, 0);
        if (th_accept(&r->in, ","))
            node.most = read_number(r, TH_ANY_COUNT);
        require(r, th_accept(&r->in, "}"));
    } else if (th_accept(&r->in, "+")) {
        node.least = 1;
    } else if (th_accept(&r->in, "?")) {
        node.most = 1;
    } else if (!th_accept(&r->in, "*")) {
        return item;
    }
    node.lazy = th_accept(&r->in, "?");
    /* engines have special rules for repetitions of the empty string */
    require(r, !th_next_is(&r->in, "+") && !(r->tree->node[item].empty && node.most == TH_ANY_COUNT));
    return add(r, node);
}

static int read_sequence(reader *r)
{
    int sequence = add(r, (th_tree_node){.kind = TH_TREE_EMPTY});
    while (r->known && r->in.at < r->in.end && !th_next_is(&r->in, "|") && !th_next_is(&r->in, ")")) {
        const int item = read_item(r), repeated = read_repetition(r, item);
        sequence = add(r, (th_tree_node){.kind = TH_TREE_SEQUENCE, .first = sequence, .second = repeated});
    }
    return sequence;
}

static int read_alternatives(reader *r)
{
    int either = read_sequence(r);
    while (r->known && th_accept(&r->in, "|")) {
        const int next = read_sequence(r);
        either = add(r, (th_tree_node){.kind = TH_TREE_EITHER, .first = either, .second = next});
    }
    return either;
}

bool th_pattern_tree_read(const char *expression, size_t count, th_pattern_tree *tree)
{
    *tree = (th_pattern_tree){0};
    reader r = {.in = {expression, expression + count}, .tree = tree, .known = true};
    tree->root = read_alternatives(&r);
    return r.known && r.in.at == r.in.end;
}

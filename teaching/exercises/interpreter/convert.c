/* Types of expressions: conversions, as C has them, and the checks of operands (language.h). */
#include "language.h"

type number_type(base b)
{
    return (type){.base = b};
}

bool is_number(type t)
{
    return t.level == 0 && t.base <= BASE_DOUBLE;
}

int element_size(base b)
{
    static const int sizes[] = {sizeof(bool), 4, 8, 8, 4, 8, 1, sizeof(th_array), sizeof(th_call)};
    return sizes[b];
}

int size_of(type t)
{
    return t.level ? (int)sizeof(void *) : element_size(t.base);
}

base common_base(base a, base b)
{
    const base larger = a > b ? a : b;
    return larger < BASE_INT ? BASE_INT : larger;
}

static const char *text_of(const node *n)
{
    return n->text ? n->text : "an operand";
}

const char *advice(const node *n)
{
    if (n->type.base == BASE_ARRAY)
        return ". An array is not a number: element i of a is at(a, i), not a[i]";
    return n->type.level ? ". Write an index in [ ] after it" : "";
}

node *require_number(interpreter *in, node *n, const char *operator_)
{
    if (!is_number(n->type) && n->type.base == BASE_VOID && n->type.level == 0)
        fail_at(in, n->line, "%s needs a number, but this function returns nothing", operator_);
    else if (!is_number(n->type))
        fail_at(in, n->line, "%s needs a number, but %s is %s%s%s", operator_, text_of(n),
                n->type.level == 0 ? "a "
                : n->type.array    ? "an array: "
                                   : "a pointer, ",
                type_text(n->type), advice(n));
    return n;
}

node *convert(interpreter *in, node *n, type to, const char *where)
{
    to.array = to.constant = false;
    if (to.level == 0 && to.base == BASE_VOID) {
        node *c = new_node(in, NODE_CONVERT, to, n, NULL);
        c->operation = BASE_VOID;
        return c;
    }
    if (to.level == 0) {
        if (n->type.level && to.base == BASE_BOOL) {
            fail_at(in, n->line, "a pointer %s: compare it with NULL is not needed, test .given", where);
            return n;
        }
        require_number(in, n, where);
        if (n->type.base == to.base && !n->type.constant)
            return n;
        node *c = new_node(in, NODE_CONVERT, to, n, NULL);
        c->operation = n->type.base;
        c->text = n->text;
        return c;
    }
    if (n->type.level == 0)
        fail_at(in, n->line, "a pointer is needed %s, but %s is a %s", where, text_of(n), type_text(n->type));
    else if (n->type.level != to.level ||
             (n->type.base != to.base && n->type.base != BASE_VOID && to.base != BASE_VOID))
        fail_at(in, n->line, "%s is needed %s, but %s is %s", type_text(to), where, text_of(n), type_text(n->type));
    node *c = new_node(in, NODE_CONVERT, to, n, NULL);
    c->text = n->text;
    return c;
}

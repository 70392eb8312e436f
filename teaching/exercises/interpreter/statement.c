/* Parses statements (language.h). */
#include "language.h"

static node *new_statement(interpreter *in, node_kind kind)
{
    return new_node(in, kind, number_type(BASE_VOID), NULL, NULL);
}

/* Reads one statement with variables of its own. `loop`: break and continue are allowed in it. */
static node *read_body(interpreter *in, int loop)
{
    const int variables = in->n_variables;
    in->depth++;
    in->loops += loop;
    node *n = read_statement(in);
    in->loops -= loop;
    in->depth--;
    in->n_variables = variables;
    return n;
}

static node *read_if(interpreter *in)
{
    node *n = new_statement(in, NODE_IF);
    advance(in);
    n->a = read_condition(in);
    n->b = read_body(in, 0);
    if (accept(in, "else"))
        n->c = read_body(in, 0);
    return n;
}

static node *read_for(interpreter *in)
{
    node *n = new_statement(in, NODE_LOOP);
    const int variables = in->n_variables;
    in->depth++;
    advance(in);
    require(in, "(", "after for");
    if (at_type(in))
        n->a = read_declaration(in);
    else if (!accept(in, ";")) {
        n->a = read_expression(in);
        require(in, ";", "after the first part of for");
    }
    if (!next_is(in, ";"))
        n->b = require_number(in, read_expression(in), "the condition of for");
    require(in, ";", "after the condition of for");
    if (!next_is(in, ")"))
        n->c = read_expression(in);
    require(in, ")", "after the parts of for");
    n->body = read_body(in, 1);
    in->depth--;
    in->n_variables = variables;
    return n;
}

static node *read_while(interpreter *in)
{
    node *n = new_statement(in, NODE_LOOP);
    advance(in);
    n->b = read_condition(in);
    n->body = read_body(in, 1);
    return n;
}

static node *read_do(interpreter *in)
{
    node *n = new_statement(in, NODE_LOOP);
    advance(in);
    n->after = true;
    n->body = read_body(in, 1);
    require(in, "while", "after the body of do");
    n->b = read_condition(in);
    require(in, ";", "after do ... while");
    return n;
}

static node *read_jump(interpreter *in, node_kind kind, const char *word)
{
    node *n = new_statement(in, kind);
    if (in->loops == 0)
        fail(in, "%s is not in a loop", word);
    advance(in);
    require(in, ";", "after this word");
    return n;
}

static node *read_return(interpreter *in)
{
    node *n = new_statement(in, NODE_RETURN);
    const type result = in->current->result;
    advance(in);
    if (!next_is(in, ";")) {
        n->a = read_expression(in);
        if (result.base == BASE_VOID)
            fail(in, "this function returns nothing: write return;");
        else
            n->a = convert(in, n->a, number_type(result.base), "as the result of this function");
    } else if (result.base != BASE_VOID) {
        fail(in, "this function returns %s: write the value after return", type_text(result));
    }
    require(in, ";", "after return");
    return n;
}

node *read_block(interpreter *in)
{
    node *block = new_statement(in, NODE_BLOCK), **list = NULL;
    const int variables = in->n_variables, line = peek(in)->line;
    int space = 0;
    require(in, "{", "at the beginning of this block");
    in->depth++;
    while (!next_is(in, "}") && peek(in)->kind != TOKEN_END) {
        if (block->count == space) {
            node **more = keep(in, NULL, sizeof *more * (size_t)(space = 2 * space + 8));
            for (int i = 0; i < block->count; i++)
                more[i] = list[i];
            list = more;
        }
        if (in->no_memory)
            break;
        list[block->count++] = read_statement(in);
    }
    block->list = list;
    if (!accept(in, "}"))
        fail_at(in, line, "the { in this line has no }");
    in->depth--;
    in->n_variables = variables;
    return block;
}

node *read_statement(interpreter *in)
{
    static const struct {
        const char *word, *instead;
    } others[] = {{"switch", "use if and else"},
                  {"goto", "use break, continue or return"},
                  {"asm", "write C"},
                  {"_Static_assert", "leave it out"}};
    for (int i = 0; i < (int)(sizeof others / sizeof *others); i++)
        if (next_is(in, others[i].word))
            unsupported(in, others[i].word, others[i].instead);
    if (accept(in, ";"))
        return new_statement(in, NODE_EMPTY);
    if (next_is(in, "{"))
        return read_block(in);
    if (next_is(in, "if"))
        return read_if(in);
    if (next_is(in, "for"))
        return read_for(in);
    if (next_is(in, "while"))
        return read_while(in);
    if (next_is(in, "do"))
        return read_do(in);
    if (next_is(in, "break"))
        return read_jump(in, NODE_BREAK, "break");
    if (next_is(in, "continue"))
        return read_jump(in, NODE_CONTINUE, "continue");
    if (next_is(in, "return"))
        return read_return(in);
    if (next_is(in, "enum")) {
        read_enum(in);
        return new_statement(in, NODE_EMPTY);
    }
    if (at_type(in))
        return read_declaration(in);
    if (next_is(in, "else"))
        fail(in, "this else belongs to no if");
    node *n = read_expression(in);
    require(in, ";", "after this statement");
    return n;
}

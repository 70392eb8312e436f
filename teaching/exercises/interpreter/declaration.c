/* Parses types and declarations, and keeps the names of a function's variables (language.h). */
#include <string.h>

#include "language.h"

static const struct {
    const char *name;
    base base;
} words[] = {
    {"bool", BASE_BOOL},      {"_Bool", BASE_BOOL},   {"int", BASE_INT},        {"int32_t", BASE_INT},
    {"int64_t", BASE_LONG},   {"long", BASE_LONG},    {"ptrdiff_t", BASE_LONG}, {"size_t", BASE_SIZE},
    {"uint64_t", BASE_SIZE},  {"float", BASE_FLOAT},  {"double", BASE_DOUBLE},  {"void", BASE_VOID},
    {"th_array", BASE_ARRAY}, {"th_call", BASE_CALL},
};
enum { WORDS = sizeof words / sizeof *words };

static const char *const qualifiers[] = {"const", "volatile", "register", "inline"};

/* Words that begin a declaration in C, but not here. */
static const struct {
    const char *name, *instead;
} others[] = {
    {"char", "use int for whole numbers"},
    {"short", "use int"},
    {"signed", "use int or int64_t"},
    {"unsigned", "use int64_t"},
    {"uint32_t", "use int64_t"},
    {"int8_t", "use int"},
    {"uint8_t", "use int"},
    {"struct", "use an array or a variable for each member"},
    {"union", "use a variable for each member"},
    {"typedef", "write the type itself"},
    {"static", "declare the variable without it, and give it a value before each use"},
    {"extern", "write the function in this file, above the first one that calls it"},
    {"auto", "write the type itself"},
    {"_Thread_local", "declare the variable without it"},
    {"th_tensor", "use at(), which reads and writes the elements of a th_array"},
};
enum { OTHERS = sizeof others / sizeof *others };

static bool is_qualifier(const token *t)
{
    for (size_t i = 0; i < sizeof qualifiers / sizeof *qualifiers; i++)
        if (is_text(t, qualifiers[i]))
            return true;
    return false;
}

bool at_type(const interpreter *in)
{
    const token *t = peek(in);
    for (int i = 0; i < WORDS; i++)
        if (is_text(t, words[i].name))
            return true;
    for (int i = 0; i < OTHERS; i++)
        if (is_text(t, others[i].name))
            return true;
    return is_qualifier(t);
}

type read_base_type(interpreter *in)
{
    type t = {.base = BASE_INT};
    bool found = false;
    for (;;) {
        const token *word = peek(in);
        if (is_qualifier(word)) {
            t.constant = t.constant || is_text(word, "const");
            advance(in);
            continue;
        }
        for (int i = 0; i < OTHERS; i++)
            if (is_text(word, others[i].name))
                unsupported(in, others[i].name, others[i].instead);
        int i = 0;
        while (i < WORDS && !is_text(word, words[i].name))
            i++;
        if (i == WORDS)
            break;
        if (found && t.base == BASE_LONG && words[i].base == BASE_DOUBLE)
            unsupported(in, "long double", "use double");
        else if (found && (t.base != BASE_LONG || (words[i].base != BASE_LONG && words[i].base != BASE_INT)))
            fail(in, "two types in one declaration: %s and %s", type_text(t), words[i].name);
        if (!found)
            t.base = words[i].base;
        found = true;
        advance(in);
    }
    if (!found)
        fail(in, "a type is missing before %.*s", peek(in)->length, peek(in)->text);
    return t;
}

type read_stars(interpreter *in, type t)
{
    while (accept(in, "*")) {
        if (t.level == 1)
            unsupported(in, "a pointer to a pointer", "use an array and an index");
        t.level = 1;
        t.constant_target = t.constant;
        t.constant = false;
        while (is_qualifier(peek(in)) || next_is(in, "restrict"))
            t.constant = accept(in, "const") || (advance(in), t.constant);
    }
    return t;
}

type read_type(interpreter *in)
{
    return read_stars(in, read_base_type(in));
}

/* -- names -- */

const variable *find_variable(const interpreter *in, const token *name)
{
    for (int i = in->n_variables - 1; i >= 0; i--)
        if (in->variables[i].length == name->length &&
            strncmp(in->variables[i].name, name->text, (size_t)name->length) == 0)
            return &in->variables[i];
    return NULL;
}

int add_variable(interpreter *in, const token *name, type t)
{
    const variable *same = find_variable(in, name);
    if (same && same->depth == in->depth)
        fail_at(in, name->line, "%.*s is declared twice in this block", name->length, name->text);
    if (in->n_variables == VARIABLES) {
        fail_at(in, name->line, "a function can have %d variables here: split it", VARIABLES);
        return 0;
    }
    const int slot = in->current->frame;
    in->current->frame += t.level ? (int)sizeof(pointer) : (int)sizeof(number);
    in->variables[in->n_variables++] =
        (variable){.name = name->text, .length = name->length, .depth = in->depth, .slot = slot, .type = t};
    return slot;
}

/* -- declarations -- */

static bool is_object(type t)
{
    return t.level > 0 || t.base < BASE_VOID;
}

/* Reads the sizes of an array: [8][T]. */
static void read_sizes(interpreter *in, node *n, type *t)
{
    node *size[MAX_LEVEL];
    int count = 0;
    if (t->level) {
        unsupported(in, "an array of pointers", "use one array, and compute the index");
        return;
    }
    while (accept(in, "[")) {
        if (count == MAX_LEVEL) {
            unsupported(in, "an array with four indices", "use one array, and compute the index");
            return;
        }
        if (next_is(in, "]"))
            size[count] =
                new_node(in, NODE_NUMBER, number_type(BASE_LONG), NULL, NULL); /* 0: as many as values follow */
        else
            size[count] = convert(in, read_expression(in), number_type(BASE_LONG), "as the size of an array");
        count++;
        require(in, "]", "after the size of an array");
    }
    n->list = keep(in, size, sizeof *size * (size_t)count);
    n->dimensions = n->count = count;
    t->level = count;
    t->array = true;
}

/* Reads {1, 2} after the = of an array: the sizes in the list are followed by these values. */
static void read_elements(interpreter *in, node *n, type element)
{
    enum { MOST = 64 };
    node *all[MAX_LEVEL + MOST];
    int64_t size = 0;
    for (int i = 0; i < n->dimensions; i++) {
        all[i] = n->list[i];
        if (!constant_value(n->list[i], &size))
            fail(in, "an array whose size is a variable cannot have values here: set its elements in a loop");
    }
    require(in, "{", "before the values of an array");
    int nested = 0;
    while (n->dimensions > 1 && accept(in, "{"))
        nested++;
    while (!next_is(in, "}") && n->count < MAX_LEVEL + MOST && peek(in)->kind != TOKEN_END) {
        all[n->count] = convert(in, read_assignment(in), element, "as an element of this array");
        n->count++;
        if (!accept(in, ","))
            break;
    }
    if (n->dimensions > 1 && n->count > n->dimensions + 1)
        unsupported(in, "a list of values for an array of arrays", "write {0}, and set its elements in a loop");
    else if (n->dimensions == 1 && n->list[0]->kind == NODE_NUMBER && size == 0)
        n->list[0]->value.i = n->count - 1;
    else if (n->dimensions == 1 && n->count - 1 > size)
        fail(in, "more values than the array has elements");
    for (; nested >= 0; nested--)
        require(in, "}", "after the values of an array");
    n->list = keep(in, all, sizeof *all * (size_t)n->count);
}

/* Reads a name with its array sizes and its value. */
static node *read_declarator(interpreter *in, type t)
{
    t = read_stars(in, t);
    const token *name = peek(in);
    if (name->kind != TOKEN_NAME) {
        fail(in, "a name is missing in this declaration, before %.*s", name->length, name->text);
        return new_node(in, NODE_EMPTY, t, NULL, NULL);
    }
    advance(in);
    node *n = new_node(in, NODE_DECLARE, t, NULL, NULL);
    n->text = source_text(in, in->at - 1, in->at);
    if (next_is(in, "("))
        unsupported(in, "the declaration of a function in a function", "write the function above this one");
    if (find_constant(in, name))
        fail_at(in, name->line, "%s is already the name of a constant", n->text);
    const type element = number_type(t.base);
    if (next_is(in, "["))
        read_sizes(in, n, &t);
    else if (!is_object(t))
        fail(in, "a variable of the type %s is not in the C of the exercises: use a pointer, const %s *%s",
             type_text(t), type_text(t), n->text);
    n->type = t;
    if (t.array) {
        n->slot = add_variable(in, name, t);
        if (accept(in, "="))
            read_elements(in, n, element);
        return n;
    }
    n->slot = add_variable(in, name, t); /* as in C, the name is known in its own value */
    if (accept(in, "="))
        n->a = convert(in, read_assignment(in), t, "as the value of this variable");
    else if (t.constant)
        fail_at(in, name->line, "%s is const and has no value: it can never get one", n->text);
    return n;
}

node *read_declaration(interpreter *in)
{
    enum { MOST = 32 };
    node *list[MOST];
    node *all = new_node(in, NODE_BLOCK, number_type(BASE_VOID), NULL, NULL);
    const type t = read_base_type(in);
    if (t.base == BASE_VOID && !next_is(in, "*"))
        fail(in, "void is no type of a variable");
    do {
        if (all->count == MOST)
            fail(in, "more than %d variables in one declaration: write two", MOST);
        else
            list[all->count++] = read_declarator(in, t);
    } while (accept(in, ","));
    require(in, ";", "after this declaration");
    all->list = keep(in, list, sizeof *list * (size_t)all->count);
    all->after = true; /* its variables belong to the block around it */
    return all;
}

void read_signature(interpreter *in, function *f)
{
    const int at = in->at;
    in->at = f->at;
    while (accept(in, "static") || accept(in, "inline"))
        continue;
    f->result = read_type(in);
    if (f->result.level || f->result.base > BASE_VOID)
        fail_at(in, f->line, "%.*s returns %s: a function of the exercises returns a number or void", f->length,
                f->name, type_text(f->result));
    advance(in);
    require(in, "(", "after the name of this function");
    f->count = 0;
    if (next_is(in, "void") && second_is(in, ")"))
        advance(in);
    while (!next_is(in, ")") && peek(in)->kind != TOKEN_END) {
        type t = read_type(in);
        const token *name = peek(in);
        if (name->kind != TOKEN_NAME) {
            fail(in, "a parameter has no name");
            break;
        }
        advance(in);
        if (accept(in, "[")) {
            while (!next_is(in, "]") && peek(in)->kind != TOKEN_END)
                advance(in);
            require(in, "]", "after this parameter");
            t.constant_target = t.constant;
            t.constant = false;
            t.level++;
            if (next_is(in, "["))
                unsupported(in, "an array of arrays as a parameter",
                            "pass one row, or compute in the function that has it");
        }
        if (!is_object(t) || t.level > 1)
            fail(in, "a parameter of the type %s is not in the C of the exercises: pass a pointer", type_text(t));
        if (f->count == MAX_PARAMETERS) {
            fail(in, "a function can have %d parameters here", MAX_PARAMETERS);
            break;
        }
        if (in->current == f)
            f->slot[f->count] = add_variable(in, name, t);
        f->parameter[f->count++] = t;
        if (!accept(in, ","))
            break;
    }
    require(in, ")", "after the parameters");
    f->signature = true;
    if (in->current != f && in->error[0] == '\0')
        in->at = at;
}

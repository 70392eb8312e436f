/* Parses calls: functions of the file, of mathematics and of exercise.h, and printf (language.h). */
#include <math.h>
#include <string.h>

#include "language.h"

static double is_nan(double x)
{
    return isnan(x) != 0;
}

static double is_infinite(double x)
{
    return isinf(x) != 0;
}

static double is_finite(double x)
{
    return isfinite(x) != 0;
}

#define SINGLE_ONE(name)                                                                                               \
    static double single_##name(double x)                                                                              \
    {                                                                                                                  \
        return (double)name##f((float)x);                                                                              \
    }
#define SINGLE_TWO(name)                                                                                               \
    static double single_##name(double x, double y)                                                                    \
    {                                                                                                                  \
        return (double)name##f((float)x, (float)y);                                                                    \
    }
SINGLE_ONE(exp)
SINGLE_ONE(log)
SINGLE_ONE(sqrt)
SINGLE_ONE(fabs)
SINGLE_ONE(sin)
SINGLE_ONE(cos)
SINGLE_ONE(tanh)
SINGLE_TWO(pow)
SINGLE_TWO(fmax)
SINGLE_TWO(fmin)

#define ONE(name)                                                                                                      \
    {                                                                                                                  \
#name, 1, BASE_DOUBLE, name, NULL                                                                              \
    }
#define TWO(name)                                                                                                      \
    {                                                                                                                  \
#name, 2, BASE_DOUBLE, NULL, name                                                                              \
    }
static const math_function functions[] = {
    ONE(exp),
    ONE(exp2),
    ONE(expm1),
    ONE(log),
    ONE(log2),
    ONE(log10),
    ONE(log1p),
    ONE(sqrt),
    ONE(cbrt),
    ONE(fabs),
    ONE(sin),
    ONE(cos),
    ONE(tan),
    ONE(asin),
    ONE(acos),
    ONE(atan),
    ONE(sinh),
    ONE(cosh),
    ONE(tanh),
    ONE(erf),
    ONE(erfc),
    ONE(floor),
    ONE(ceil),
    ONE(round),
    ONE(trunc),
    TWO(pow),
    TWO(fmax),
    TWO(fmin),
    TWO(fmod),
    TWO(hypot),
    TWO(atan2),
    TWO(copysign),
    {"isnan", 1, BASE_INT, is_nan, NULL},
    {"isinf", 1, BASE_INT, is_infinite, NULL},
    {"isfinite", 1, BASE_INT, is_finite, NULL},
    {"expf", 1, BASE_FLOAT, single_exp, NULL},
    {"logf", 1, BASE_FLOAT, single_log, NULL},
    {"sqrtf", 1, BASE_FLOAT, single_sqrt, NULL},
    {"fabsf", 1, BASE_FLOAT, single_fabs, NULL},
    {"sinf", 1, BASE_FLOAT, single_sin, NULL},
    {"cosf", 1, BASE_FLOAT, single_cos, NULL},
    {"tanhf", 1, BASE_FLOAT, single_tanh, NULL},
    {"powf", 2, BASE_FLOAT, NULL, single_pow},
    {"fmaxf", 2, BASE_FLOAT, NULL, single_fmax},
    {"fminf", 2, BASE_FLOAT, NULL, single_fmin},
};

/* -- arguments -- */

enum { MOST = 12 };

/* Reads the arguments after a (, and the ) after them. Returns their number. */
static int read_arguments(interpreter *in, node **argument)
{
    int count = 0;
    while (!next_is(in, ")") && peek(in)->kind != TOKEN_END) {
        if (count == MOST) {
            fail(in, "more than %d arguments", MOST);
            return count;
        }
        argument[count++] = read_assignment(in);
        if (!accept(in, ","))
            break;
    }
    require(in, ")", "after the arguments");
    return count;
}

static void require_count(interpreter *in, const token *name, int count, int right)
{
    if (count != right)
        fail_at(in, name->line, "%.*s has %d argument%s, not %d", name->length, name->text, right,
                right == 1 ? "" : "s", count);
}

static node *call_node(interpreter *in, node_kind kind, type t, const token *name, node **argument, int count)
{
    node *n = new_node(in, kind, t, NULL, NULL);
    n->line = name->line;
    n->count = count;
    n->list = keep(in, argument, sizeof *argument * (size_t)count);
    n->text = in->error[0] ? NULL : source_text(in, (int)(name - in->tokens), in->at);
    return n;
}

/* -- functions of exercise.h -- */

/* at, integer_at, bool_at: the element's type is in op. */
static node *read_element(interpreter *in, const token *name, base b)
{
    node *argument[MOST];
    const int first = in->at;
    int comma = first, depth = 0; /* the token after the first argument */
    for (; in->tokens[comma].kind != TOKEN_END; comma++) {
        const token *t = &in->tokens[comma];
        depth += is_text(t, "(") || is_text(t, "[");
        if (depth == 0 && (is_text(t, ",") || is_text(t, ")")))
            break;
        depth -= is_text(t, ")") || is_text(t, "]");
    }
    const int count = read_arguments(in, argument);
    if (count < 2)
        fail_at(in, name->line, "%.*s has an array and its indices as arguments: at(x, i, j)", name->length,
                name->text);
    else if (argument[0]->type.base != BASE_ARRAY || argument[0]->type.level != 1)
        fail_at(in, name->line, "the first argument of %.*s must be a pointer to a th_array, but %s is %s",
                name->length, name->text, argument[0]->text ? argument[0]->text : "this", type_text(argument[0]->type));
    else if (count > 1 + TH_MAX_DIMS)
        fail_at(in, name->line, "an array has at most %d axes", TH_MAX_DIMS);
    for (int i = 1; i < count; i++)
        argument[i] = convert(in, argument[i], number_type(BASE_LONG), "as an index");
    node *n = call_node(in, NODE_ELEMENT, number_type(b), name, argument, count);
    n->op = (int)b;
    if (in->error[0])
        return n;
    /* as the macros of exercise.h write it */
    const char *array = source_text(in, first, comma), *index = source_text(in, comma + 1, in->at - 1);
    char *text = keep(in, NULL, (size_t)name->length + strlen(array) + strlen(index) + 5);
    memcpy(text, name->text, (size_t)name->length);
    strcat(text, "(");
    strcat(strcat(strcat(strcat(text, array), ", "), index), ")");
    n->text = text;
    return n;
}

static node *read_start_gradient(interpreter *in, const token *name)
{
    node *argument[MOST];
    const int count = read_arguments(in, argument);
    require_count(in, name, count, 2);
    if (count == 2) {
        argument[0] = convert(in, argument[0], (type){.base = BASE_CALL, .level = 1}, "as the first argument");
        argument[1] = convert(in, argument[1], number_type(BASE_INT), "as the second argument");
    }
    return call_node(in, NODE_START_GRADIENT, number_type(BASE_BOOL), name, argument, count);
}

/* -- printf -- */

/* Copies the text of a literal without its quotes. */
static const char *read_literal(interpreter *in)
{
    static const char letters[] = "ntr\\\"'%", meanings[] = "\n\t\r\\\"'%";
    const token *t = peek(in);
    if (t->kind != TOKEN_TEXT) {
        fail(in, "the first argument of printf must be a text, \"%%g\\n\"");
        return "";
    }
    advance(in);
    char *text = keep(in, NULL, (size_t)t->length), *to = text;
    for (int i = 1; i + 1 < t->length && !in->no_memory; i++) {
        const char *letter = t->text[i] == '\\' ? strchr(letters, t->text[++i]) : NULL;
        *to++ = letter && *letter ? meanings[letter - letters] : t->text[i];
    }
    return text;
}

/* Converts an argument to what its conversion in the format needs. */
static node *printed_argument(interpreter *in, node *argument, const char *from, size_t length)
{
    const char kind = from[length];
    const bool real = strchr("eEfFgGaA", kind) != NULL && kind;
    require_number(in, argument, "printf");
    if (!real && (kind == '\0' || strchr("diux", kind) == NULL))
        unsupported(in, "this conversion of printf", "use %d, %lld or %g");
    else if (is_number(argument->type) && (argument->type.base >= BASE_FLOAT) != real)
        fail(in, "%%%c of printf needs %s", kind,
             real ? "a double: write (double) before an integer" : "an integer: use %g");
    else if (is_number(argument->type))
        return convert(in, argument, number_type(real ? BASE_DOUBLE : BASE_LONG), "printf");
    return argument;
}

static node *read_printf(interpreter *in, const token *name)
{
    node *argument[MOST];
    const char *format = read_literal(in);
    int count = 0, wanted = 0;
    if (accept(in, ","))
        count = read_arguments(in, argument);
    else
        require(in, ")", "after the text");
    for (const char *s = strchr(format, '%'); s && in->error[0] == '\0'; s = strchr(s, '%')) {
        const size_t length = strspn(s + 1, "-+ #0123456789.lzh") + 1;
        if (s[length] == '%' && length == 1) {
            s += 2;
            continue;
        }
        if (wanted < count)
            argument[wanted] = printed_argument(in, argument[wanted], s, length);
        wanted++;
        s += length;
    }
    if (wanted != count)
        fail_at(in, name->line, "the text of printf asks for %d value%s, but %d follow", wanted, wanted == 1 ? "" : "s",
                count);
    node *n = call_node(in, NODE_PRINT, number_type(BASE_INT), name, argument, count);
    n->text = format;
    return n;
}

/* -- all calls -- */

static node *read_own_call(interpreter *in, const token *name, function *f)
{
    node *argument[MOST];
    if (!f->signature)
        read_signature(in, f);
    f->wanted = true;
    const int count = read_arguments(in, argument);
    require_count(in, name, count, f->count);
    for (int i = 0; i < count && in->error[0] == '\0'; i++)
        argument[i] = convert(in, argument[i], f->parameter[i], "as an argument");
    node *n = call_node(in, NODE_CALL, number_type(f->result.base), name, argument, count);
    n->called = f;
    return n;
}

static node *read_math_call(interpreter *in, const token *name, const math_function *f)
{
    node *argument[MOST];
    const int count = read_arguments(in, argument);
    require_count(in, name, count, f->count);
    for (int i = 0; i < count; i++)
        argument[i] =
            convert(in, argument[i], number_type(f->result == BASE_FLOAT ? BASE_FLOAT : BASE_DOUBLE), "as an argument");
    node *n = call_node(in, NODE_MATH, number_type(f->result), name, argument, count);
    n->math = f;
    return n;
}

node *read_call(interpreter *in, const token *name)
{
    require(in, "(", "after the name of a function");
    function *f = find_function(in, name);
    if (f)
        return read_own_call(in, name, f);
    if (is_text(name, "at"))
        return read_element(in, name, BASE_DOUBLE);
    if (is_text(name, "integer_at"))
        return read_element(in, name, BASE_LONG);
    if (is_text(name, "bool_at"))
        return read_element(in, name, BASE_BOOL);
    if (is_text(name, "start_gradient"))
        return read_start_gradient(in, name);
    if (is_text(name, "printf"))
        return read_printf(in, name);
    for (int i = 0; i < (int)(sizeof functions / sizeof *functions); i++)
        if (is_text(name, functions[i].name))
            return read_math_call(in, name, &functions[i]);
    fail_at(in, name->line,
            "%.*s is not a function of the exercises: they have those of math.h, at, integer_at, bool_at, "
            "start_gradient and printf, and those of this file",
            name->length, name->text);
    return new_node(in, NODE_EMPTY, number_type(BASE_INT), NULL, NULL);
}

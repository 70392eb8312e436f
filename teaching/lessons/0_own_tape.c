/* Lesson 0, your own tape: a neuron, recorded and differentiated by 40 lines of C. teaching/lessons/0-own-tape.md explains it. */
#include "lesson.h"

enum { LEAF, ADD, MULTIPLY, TANH, MOST = 64 };

typedef struct entry {     /* of the tape: a value, and the operation that computed it */
    int kind, left, right; /* left and right: the numbers of the operands' entries */
    double value, gradient;
} entry;
static entry tape[MOST];
static int length;

static int record(int kind, int left, int right, double value)
{
    tape[length] = (entry){kind, left, right, value, 0};
    return length++;
}

static int leaf_of(double value)
{
    return record(LEAF, 0, 0, value);
}

static int add(int a, int b)
{
    return record(ADD, a, b, tape[a].value + tape[b].value);
}

static int multiply(int a, int b)
{
    return record(MULTIPLY, a, b, tape[a].value * tape[b].value);
}

static int tangent(int a)
{
    return record(TANH, a, a, tanh(tape[a].value));
}

static void backward(int last)
{
    tape[last].gradient = 1;
    for (int n = last; n >= 0; n--) {
        const double g = tape[n].gradient, result = tape[n].value;
        entry *a = &tape[tape[n].left], *b = &tape[tape[n].right];
        if (tape[n].kind == ADD) {
            a->gradient += g;
            b->gradient += g;
        } else if (tape[n].kind == MULTIPLY) {
            a->gradient += g * b->value;
            b->gradient += g * a->value;
        } else if (tape[n].kind == TANH) {
            a->gradient += g * (1 - result * result);
        }
    }
}

enum { W, X, B, MINUS_TARGET, U, S, Y, E, L };             /* the numbers of the entries */
static double leaves[] = {2, 1.5, -2.306852819440055, -1}; /* b = log 2 - 3 */

static double loss(void)
{
    length = 0; /* an empty tape */
    for (int n = W; n <= MINUS_TARGET; n++)
        leaf_of(leaves[n]);
    multiply(W, X);       /* U */
    add(U, B);            /* S */
    tangent(S);           /* Y */
    add(Y, MINUS_TARGET); /* E */
    multiply(E, E);       /* L */
    return tape[L].value;
}

int main(int argc, char **argv)
{
    th_context *ctx = begin_lesson(argc, argv, "Lesson 0, your own tape: a neuron, recorded and differentiated");
    static const char *const value[] = {"w",         "x",           "b",         "m",      "u = w x",
                                        "s = u + b", "y = tanh(s)", "e = y + m", "L = e e"};
    static const char *const gradient[] = {"dw = du x", "dx = du w",         "db = ds", "dm = de",
                                           "du = ds",   "ds = dy (1 - y y)", "dy = de", "de = dL e + dL e"};
    loss();
    backward(L);

    th_tensor *t[L + 1]; /* the same on the library's tape */
    for (int n = W; n <= MINUS_TARGET; n++)
        t[n] = leaf(ctx, value[n], TH_SCALAR, &leaves[n]);
    t[U] = th_mul(t[W], t[X]), t[S] = th_add(t[U], t[B]), t[Y] = th_tanh(t[S]), t[E] = th_add(t[Y], t[MINUS_TARGET]);
    t[L] = th_mul(t[E], t[E]);
    for (int n = U; n < L; n++)
        th_keep_gradient(t[n]);
    if (th_backward(t[L], NULL))
        return end_lesson(ctx);

    entry plain[L + 1]; /* central differences record on the tape again */
    memcpy(plain, tape, sizeof plain);
    for (int n = U; n <= L; n++)
        show(value[n], 1, 1, &plain[n].value, t[n]);
    for (int n = E; n >= W; n--)
        show_gradient(gradient[n], 1, 1, &plain[n].gradient, th_gradient(t[n]), n < U ? &leaves[n] : NULL, loss);
    return end_lesson(ctx);
}

/* Compiles trees: see program.h.
 *
 * A repetition without a limit ends after an iteration that matches the empty string, as in PCRE2 and Oniguruma.
 * Otherwise it would never end. So the steps of its body continue at one step if they have read a character, and at
 * another one if not. A part that is reached in both ways has its steps twice. */
#include "models/text/pattern/program.h"

#include <stdlib.h>

/* Where a part continues: after it has read a character, and if it has not. */
typedef struct paths {
    int read, empty;
} paths;

typedef struct compiler {
    const th_pattern_tree *tree;
    th_program *program;
} compiler;

static paths same_paths(int step)
{
    return (paths){step, step};
}

static int add_step(compiler *c, th_program_step step)
{
    c->program->step[c->program->steps] = step;
    return c->program->steps++;
}

/* Returns the row of a step, which is perhaps new. */
static int row_of(th_program *p, int step)
{
    int row = 0;
    while (row < p->rows && p->row[row] != step)
        row++;
    if (row == p->rows)
        p->row[p->rows++] = step;
    return row;
}

/* Adds the steps of a node. Returns the first of them. */
static int compile_node(compiler *c, int node, paths next);

/* -- repetitions -- */

/* Returns a branch that repeats a node, or else ends the repetition. */
static th_program_step repeat_branch(const th_tree_node *node, int repeated, int next)
{
    return node->lazy ? (th_program_step){.kind = TH_STEP_BRANCH, .next = next, .other = repeated}
                      : (th_program_step){.kind = TH_STEP_BRANCH, .next = repeated, .other = next};
}

/* Adds a repetition without a limit, which is the last of `least` iterations. */
static int compile_loop(compiler *c, const th_tree_node *node, paths next)
{
    const int loop = add_step(c, repeat_branch(node, 0, next.read));
    const int body = compile_node(c, node->first, (paths){loop, next.read});
    *(node->lazy ? &c->program->step[loop].other : &c->program->step[loop].next) = body;
    if (next.read == next.empty)
        return node->least > 0 ? body : loop;
    const int first = c->tree->node[node->first].empty ? compile_node(c, node->first, (paths){loop, next.empty}) : body;
    return node->least > 0 ? first : add_step(c, repeat_branch(node, first, next.empty));
}

/* Returns the paths to one more iteration before others; an optional one may end the repetition. */
static paths compile_iteration(compiler *c, const th_tree_node *node, paths iterations, paths end, bool optional)
{
    paths before;
    const bool same = iterations.read == iterations.empty;
    before.read = compile_node(c, node->first, same_paths(iterations.read));
    if (optional)
        before.read = add_step(c, repeat_branch(node, before.read, end.read));
    if (same && (!optional || end.read == end.empty))
        return same_paths(before.read);
    before.empty = compile_node(c, node->first, iterations);
    if (optional)
        before.empty = add_step(c, repeat_branch(node, before.empty, end.empty));
    return before;
}

static int compile_repeat(compiler *c, const th_tree_node *node, paths next)
{
    const bool any = node->most == TH_ANY_COUNT;
    paths entry = next;
    if (any) {
        entry.empty = compile_loop(c, node, next);
        entry.read = entry.empty;
        if (next.read != next.empty && node->least > 1)
            entry.read = compile_loop(c, node, same_paths(next.read));
    }
    for (int i = node->least; i < node->most; i++)
        entry = compile_iteration(c, node, entry, next, true);
    for (int i = any ? 1 : 0; i < node->least; i++)
        entry = compile_iteration(c, node, entry, next, false);
    return entry.empty;
}

/* -- other nodes -- */

static int compile_sequence(compiler *c, int node, paths next)
{
    const th_tree_node *n = &c->tree->node[node];
    for (; n->kind == TH_TREE_SEQUENCE; node = n->first, n = &c->tree->node[node]) {
        if (!n->empty)
            next.empty = next.read;
        const int empty = compile_node(c, n->second, next);
        next.read = next.read == next.empty ? empty : compile_node(c, n->second, same_paths(next.read));
        next.empty = empty;
    }
    return compile_node(c, node, next);
}

static int compile_either(compiler *c, int node, paths next)
{
    const th_tree_node *n = &c->tree->node[node];
    int entry = -1;
    for (; n->kind == TH_TREE_EITHER; node = n->first, n = &c->tree->node[node]) {
        const int second = compile_node(c, n->second, next);
        entry =
            entry < 0 ? second : add_step(c, (th_program_step){.kind = TH_STEP_BRANCH, .next = second, .other = entry});
    }
    const int first = compile_node(c, node, next);
    return add_step(c, (th_program_step){.kind = TH_STEP_BRANCH, .next = first, .other = entry});
}

/* Adds the steps of a node that are a match alone. Returns the first of them. */
static int compile_inner(compiler *c, int node)
{
    return compile_node(c, node, same_paths(add_step(c, (th_program_step){.kind = TH_STEP_ACCEPT})));
}

static int compile_ahead(compiler *c, const th_tree_node *node, int next)
{
    const bool negated = node->kind == TH_TREE_NOT_AHEAD;
    const th_tree_node *body = &c->tree->node[node->first];
    if (body->kind == TH_TREE_SET)
        return add_step(
            c, (th_program_step){.kind = negated ? TH_STEP_NOT_AHEAD : TH_STEP_AHEAD, .set = body->set, .next = next});
    c->program->plain = false;
    const int inner = compile_inner(c, node->first);
    return add_step(c,
                    (th_program_step){.kind = negated ? TH_STEP_NOT_LOOK : TH_STEP_LOOK, .next = next, .inner = inner});
}

static int compile_behind(compiler *c, const th_tree_node *node, int next)
{
    th_program *p = c->program;
    const int begin = p->steps, inner = compile_inner(c, node->first), length = c->tree->node[node->first].length;
    p->plain = false;
    p->behind += (size_t)length;
    p->pass[p->passes++] = (th_program_pass){begin, p->steps};
    return add_step(c, (th_program_step){.kind = node->kind == TH_TREE_BEHIND ? TH_STEP_BEHIND : TH_STEP_NOT_BEHIND,
                                         .next = next,
                                         .inner = inner,
                                         .length = length,
                                         .row = row_of(p, inner)});
}

/* If the group matches at least one character, nothing continues at `other`. */
static int compile_atomic(compiler *c, const th_tree_node *node, paths next)
{
    c->program->plain = false;
    const int inner = compile_inner(c, node->first), row = row_of(c->program, next.read);
    return add_step(c, (th_program_step){.kind = TH_STEP_ATOMIC,
                                         .next = next.read,
                                         .other = node->empty ? next.empty : inner,
                                         .inner = inner,
                                         .row = row});
}

static int compile_node(compiler *c, int node, paths next)
{
    const th_tree_node *n = &c->tree->node[node];
    if (!n->empty)
        next.empty = next.read;
    switch (n->kind) {
    case TH_TREE_SET:
        return add_step(c, (th_program_step){.kind = TH_STEP_READ, .set = n->set, .next = next.read});
    case TH_TREE_SEQUENCE:
        return compile_sequence(c, node, next);
    case TH_TREE_EITHER:
        return compile_either(c, node, next);
    case TH_TREE_REPEAT:
        return compile_repeat(c, n, next);
    case TH_TREE_AHEAD:
    case TH_TREE_NOT_AHEAD:
        return compile_ahead(c, n, next.empty);
    case TH_TREE_BEHIND:
    case TH_TREE_NOT_BEHIND:
        return compile_behind(c, n, next.empty);
    case TH_TREE_ATOMIC:
        return compile_atomic(c, n, next);
    default:
        return next.empty;
    }
}

/* -- order -- */

/* Sets target[] to the steps at which a step continues without reading a character. Returns their number. */
static int targets_of(const th_program_step *step, int target[3])
{
    int count = 0;
    if (step->kind != TH_STEP_ACCEPT && step->kind != TH_STEP_READ && step->kind != TH_STEP_ATOMIC)
        target[count++] = step->next;
    if (step->kind == TH_STEP_BRANCH || step->kind == TH_STEP_ATOMIC)
        target[count++] = step->other;
    if (step->kind == TH_STEP_LOOK || step->kind == TH_STEP_NOT_LOOK || step->kind == TH_STEP_ATOMIC)
        target[count++] = step->inner;
    return count;
}

/* An order in progress. */
typedef struct ordering {
    th_program *program;
    int *waiting; /* steps that wait for the one above them */
    int *place;   /* of each step in the order; -1: none yet; -2: it waits */
    int ordered;
} ordering;

/* Puts a step in order, behind the steps at which it continues. */
static void put_in_order(ordering *o, int step)
{
    int depth = 0;
    o->waiting[depth++] = step;
    while (depth > 0) {
        const int top = o->waiting[depth - 1];
        int target[3], next = -1;
        for (int i = targets_of(&o->program->step[top], target); i-- > 0;)
            next = o->place[target[i]] == -1 ? target[i] : next;
        o->place[top] = next < 0 ? o->ordered : -2;
        if (next >= 0)
            o->waiting[depth++] = next;
        else
            o->program->order[o->ordered++] = o->waiting[--depth];
    }
}

/* Orders the steps of each pass. Returns false if out of memory. */
static bool order_steps(th_program *p)
{
    int *memory = malloc(2 * (size_t)p->steps * sizeof *memory);
    if (memory == NULL)
        return false;
    ordering o = {p, memory, memory + p->steps, 0};
    for (int i = 0; i < p->steps; i++)
        o.place[i] = -1;
    for (int i = 0; i < p->passes; i++) {
        const th_program_pass steps = p->pass[i];
        p->pass[i].begin = o.ordered;
        for (int step = steps.begin; step < steps.end; step++)
            if (o.place[step] == -1)
                put_in_order(&o, step);
        p->pass[i].end = o.ordered;
    }
    for (int i = 0; i < p->rows; i++)
        p->row[i] = o.place[p->row[i]];
    free(memory);
    return true;
}

th_program *th_program_new(th_pattern_tree *tree)
{
    const size_t most = (size_t)tree->node[tree->root].cost.steps + 1;
    th_program *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->step = malloc(most * sizeof *p->step);
    p->order = malloc(most * sizeof *p->order);
    if (p->step == NULL || p->order == NULL) {
        th_program_free(p);
        return NULL;
    }
    p->sets = tree->sets;
    tree->sets = (th_character_sets){0};
    p->plain = true;
    compiler c = {tree, p};
    p->entry = compile_inner(&c, tree->root);
    p->entry_row = row_of(p, p->entry);
    p->pass[p->passes++] = (th_program_pass){0, p->steps};
    if (order_steps(p))
        return p;
    th_program_free(p);
    return NULL;
}

void th_program_free(th_program *program)
{
    if (program == NULL)
        return;
    th_character_sets_release(&program->sets);
    free(program->step);
    free(program->order);
    free(program);
}

size_t th_program_memory(const th_program *program)
{
    return sizeof *program + (size_t)program->steps * (sizeof *program->step + sizeof *program->order) +
           th_character_sets_memory(&program->sets);
}

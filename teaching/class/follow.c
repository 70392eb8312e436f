/* Follows one number through the model, from the embedding to the loss and back (class_follow in engine.h). The path
 * goes through the values or past the attention through the residual connection. Each node leads to the number from
 * which the largest part of its gradient comes. */
#include <math.h>
#include <stdlib.h>

#include "call.h"
#include "model.h"
#include "sequence.h"

/* The tensors of the path, in the order of forward, and their gradients. */
enum { H, V, O, F, Y, LOGITS, TENSORS };

typedef struct run {
    class_engine *e;
    int64_t positions, width, head_width, symbols; /* T, E, D, V */
    float *value[TENSORS], *gradient[TENSORS];
    float *embedding, *in_proj, *out_proj, *output, *weights;
    double loss;
} run;

/* Returns a copy of a tensor's numbers, or NULL. */
static float *copy_of(th_tensor *t)
{
    const size_t bytes = t ? (size_t)th_numel(t) * sizeof(float) : 0;
    float *copy = bytes ? malloc(bytes) : NULL;
    if (copy && th_copy_out(t, copy, bytes) != TH_OK) {
        free(copy);
        copy = NULL;
    }
    return copy;
}

static float *parameter(const run *r, const char *name)
{
    return copy_of(th_module_find_parameter(&r->e->model->base, name));
}

static void release(run *r)
{
    float *all[] = {r->embedding, r->in_proj, r->out_proj, r->output, r->weights};
    for (int i = 0; i < 5; i++)
        free(all[i]);
    for (int i = 0; i < TENSORS; i++) {
        free(r->value[i]);
        free(r->gradient[i]);
    }
}

/* Runs forward and backward on x (1, n), and copies all numbers. */
static bool compute(run *r, th_tensor *x, th_tensor *tokens)
{
    class_engine *e = r->e;
    copy_model *m = e->model;
    const int64_t n = m->settings.length;
    th_tensor *t[TENSORS], *gradients[TENSORS] = {NULL};
    t[H] = embed(m, tokens);
    class_heads a = class_project(e, t[H]);
    class_mix_heads(e, &a);
    t[V] = a.v;
    t[O] = a.o;
    t[F] = th_module_forward(th_module_find(m->attention, "out_proj"), a.merged);
    t[Y] = th_add(t[H], t[F]);
    t[LOGITS] = th_module_forward(m->output, t[Y]);
    th_tensor *loss = th_cross_entropy(th_slice(t[LOGITS], 1, n, 2 * n, 1), x, NULL);
    r->loss = th_item(loss);
    if (th_backward(loss, &(th_backward_options){.wrt = t, .n_wrt = TENSORS, .gradients = gradients}))
        return false;
    bool complete = true;
    for (int i = 0; i < TENSORS; i++) {
        r->value[i] = copy_of(t[i]);
        r->gradient[i] = copy_of(gradients[i]);
        complete = complete && r->value[i] && r->gradient[i];
    }
    r->embedding = parameter(r, "embedding.weight");
    r->in_proj = parameter(r, "attention.in_proj_weight");
    r->out_proj = parameter(r, "attention.out_proj.weight");
    r->output = parameter(r, "output.weight");
    r->weights = copy_of(a.weights);
    return complete && r->embedding && r->in_proj && r->out_proj && r->output && r->weights;
}

/* -- the path as JSON -- */

/* One number: its tensor, its index there, and where it is in the copy of the tensor. */
typedef struct place {
    int tensor;
    int64_t index[4];
    int64_t at;
} place;

static const struct {
    const char *name, *axes, *formula;
} tensor_text[TENSORS] = {
    [H] = {"h", "TE", "H = embedding + position"},
    [V] = {"values", "HTD", "V = H Wvᵀ + b"},
    [O] = {"mixed", "HTD", "O = P V"},
    [F] = {"projected", "TE", "F = O Woᵀ + b"},
    [Y] = {"residual", "TE", "Y = H + F"},
    [LOGITS] = {"logits", "TV", "logits = Y Wᵀ + b"},
};

static void begin_node(class_text *text, const char *name, const char *formula, const char *axes, const int64_t *index,
                       double value, double gradient)
{
    text_add(text, "{\"name\":\"%s\",\"formula\":\"%s\",\"index\":[", name, formula);
    for (int d = 0; axes[d]; d++)
        text_add(text, "%s%lld", d ? "," : "", (long long)index[d]);
    text_add(text, "],\"axes\":\"%s\",\"value\":", axes);
    text_add_number(text, value);
    text_add(text, ",\"gradient\":");
    text_add_number(text, gradient);
}

static void end_node(class_text *text, double factor, double next_gradient)
{
    text_add(text, ",\"factor\":");
    text_add_number(text, factor);
    text_add(text, ",\"carried\":");
    text_add_number(text, factor * next_gradient);
    text_add(text, "},");
}

static double gradient_at(const run *r, const place *p)
{
    return (double)r->gradient[p->tensor][p->at];
}

static void begin_place(const run *r, const place *p)
{
    begin_node(&r->e->path, tensor_text[p->tensor].name, tensor_text[p->tensor].formula, tensor_text[p->tensor].axes,
               p->index, (double)r->value[p->tensor][p->at], gradient_at(r, p));
}

/* -- the path's choices: each sets *next and returns d next / d p -- */

/* Takes `candidate` with this factor if it carries more than *next does. */
static void consider(const run *r, place candidate, double factor, place *next, double *best)
{
    if (next->at >= 0 && !(fabs(factor * gradient_at(r, &candidate)) > fabs(*best * gradient_at(r, next))))
        return;
    *next = candidate;
    *best = factor;
}

static place in_rows(int tensor, int64_t row, int64_t column, int64_t columns)
{
    return (place){.tensor = tensor, .index = {row, column}, .at = row * columns + column};
}

static place in_heads(const run *r, int tensor, int64_t head, int64_t t, int64_t d)
{
    return (place){.tensor = tensor, .index = {head, t, d}, .at = (head * r->positions + t) * r->head_width + d};
}

/* h[t,e] -> y[t,e] through the residual connection, or a value of the same position. */
static double from_h(const run *r, const place *p, place *next)
{
    const int64_t t = p->index[0], e = p->index[1], E = r->width;
    double factor = 0;
    consider(r, in_rows(Y, t, e, E), 1, next, &factor);
    for (int64_t j = 0; j < E; j++)
        consider(r, in_heads(r, V, j / r->head_width, t, j % r->head_width), (double)r->in_proj[(2 * E + j) * E + e],
                 next, &factor);
    return factor;
}

/* v[h,s,d] -> o[h,t,d] of the query that attends to it. */
static double from_v(const run *r, const place *p, place *next)
{
    const int64_t head = p->index[0], s = p->index[1], T = r->positions;
    double factor = 0;
    for (int64_t t = 0; t < T; t++)
        consider(r, in_heads(r, O, head, t, p->index[2]), (double)r->weights[(head * T + t) * T + s], next, &factor);
    return factor;
}

/* o[h,t,d] -> f[t,c] */
static double from_o(const run *r, const place *p, place *next)
{
    const int64_t E = r->width, j = p->index[0] * r->head_width + p->index[2];
    double factor = 0;
    for (int64_t c = 0; c < E; c++)
        consider(r, in_rows(F, p->index[1], c, E), (double)r->out_proj[c * E + j], next, &factor);
    return factor;
}

static double from_f(const run *r, const place *p, place *next)
{
    *next = in_rows(Y, p->index[0], p->index[1], r->width);
    return 1;
}

/* y[t,c] -> logits[t,v] */
static double from_y(const run *r, const place *p, place *next)
{
    double factor = 0;
    for (int64_t v = 0; v < r->symbols; v++)
        consider(r, in_rows(LOGITS, p->index[0], v, r->symbols), (double)r->output[v * r->width + p->index[1]], next,
                 &factor);
    return factor;
}

static void write_path(const run *r, int64_t token, int64_t position, int64_t element)
{
    typedef double follow(const run *, const place *, place *);
    static follow *const from[TENSORS] = {from_h, from_v, from_o, from_f, from_y, NULL};
    class_text *text = &r->e->path;
    place p = in_rows(H, position, element, r->width);
    begin_node(text, "embedding", "H = embedding + position", "TE", p.index,
               (double)r->embedding[token * r->width + element], gradient_at(r, &p));
    end_node(text, 1, gradient_at(r, &p));
    for (;;) {
        begin_place(r, &p);
        if (p.tensor == LOGITS)
            break;
        place next = {.at = -1};
        const double factor = from[p.tensor](r, &p, &next);
        end_node(text, factor, gradient_at(r, &next));
        p = next;
    }
    end_node(text, gradient_at(r, &p), 1);
    begin_node(text, "loss", "loss = mean of -log softmax(logits)[letter]", "", NULL, r->loss, 1);
    text_add(text, "}]}");
}

/* -- the function -- */

EMSCRIPTEN_KEEPALIVE const char *class_follow(class_engine *e, const char *sequence, int position, int element)
{
    const copy_settings *s = &e->model->settings;
    run r = {.e = e,
             .positions = 2 * s->length,
             .width = s->width,
             .head_width = s->width / s->heads,
             .symbols = s->vocab + 1};
    if (!begin_call(e))
        return NULL;
    if (position < 0 || position >= r.positions || element < 0 || element >= r.width) {
        (void)refuse_call(e, "position %d and element %d are not in (%d, %d)", position, element, (int)r.positions,
                          (int)r.width);
        return NULL;
    }
    th_tensor *x = typed_sequence(e, sequence);
    if (x == NULL)
        return NULL;
    th_set_training(e->ctx, false);
    th_tensor *tokens = join_tokens(x, e->separator, x, s->length - 1);
    int32_t token[2 * COPY_MAX_LENGTH];
    char letters[2 * COPY_MAX_LENGTH + 1];
    bool done = spell(tokens, s->vocab, letters)[0] && compute(&r, x, tokens) &&
                th_copy_out(tokens, token, (size_t)r.positions * sizeof *token) == TH_OK;
    if (done) {
        text_clear(&e->path);
        text_add(&e->path, "{\"loss\":");
        text_add_number(&e->path, r.loss);
        text_add(&e->path, ",\"tokens\":\"%s\",\"path\":[", letters);
        write_path(&r, token[position], position, element);
        done = e->path.data != NULL;
    }
    release(&r);
    th_set_training(e->ctx, true);
    th_tensor_free(x);
    th_tape_clear(e->ctx);
    return done ? e->path.data : NULL;
}

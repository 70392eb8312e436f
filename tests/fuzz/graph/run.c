/* Runs a program: makes modules and leaves, builds the lines in their scopes, calls backward, and copies all values and
 * gradients. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"
#include "leaves.h"

bool line_runs(const program *p, const setting *s, const line *l)
{
    if (l->dropped)
        return false;
    for (int i = 0; i < l->outputs; i++)
        if ((p->value[l->first + i].tracks & s->track) != s->track)
            return false;
    return true;
}

/* Returns whether a line that runs reads the value, from line `from` on. */
static bool is_read(const run *r, int v, int from)
{
    for (int i = from; i < r->p->lines; i++)
        for (int k = 0; k < r->p->line[i].operands && line_runs(r->p, r->s, &r->p->line[i]); k++)
            if (r->p->line[i].operand[k] == v)
                return true;
    return false;
}

/* Returns whether value v gets a cotangent. */
static bool is_output(const run *r, int v)
{
    const value *x = &r->p->value[v];
    if (x->line < 0 || x->content != REAL || !x->differentiable || !line_runs(r->p, r->s, &r->p->line[x->line]))
        return false;
    return !is_read(r, v, x->line) || (r->p->ending == 3 && v % 3 == 0);
}

/* -- the context -- */

/* Notes the pending error. Returns true if there is one. */
static bool failed(run *r, int index)
{
    outcome *out = r->out;
    if (th_error_code(r->ctx) == TH_OK || out->status)
        return out->status != TH_OK;
    out->status = th_error_code(r->ctx);
    out->failed_line = index;
    snprintf(out->message, sizeof out->message, "%s", th_error_message(r->ctx));
    return true;
}

void run_open(run *r)
{
    const setting *s = r->s;
    r->dtype = s->double_precision ? TH_FLOAT64 : r->p->dtype;
    r->ctx = th_context_new(&(th_context_options){.seed = 5, .threads = s->threads ? s->threads : 1});
    th_set_training(r->ctx, r->p->training);
    th_set_fusion(r->ctx, !s->composed);
    th_keep_values(r->ctx, s->keep_values);
    if (th_set_default_dtype(r->ctx, r->dtype) ||
        th_set_precision(r->ctx, s->full_precision ? TH_PRECISION_FLOAT32 : r->p->precision))
        return;
    for (int i = 0; i < r->p->lines; i++) {
        const kind *k = kind_at(r->p->line[i].kind);
        if (k->make && line_runs(r->p, s, &r->p->line[i]) && !failed(r, i))
            fill_parameters(r, r->module[i] = k->make(r, &r->p->line[i]));
        if (failed(r, i))
            return;
    }
    th_tape_clear(r->ctx);
}

static void free_leaves(run *r)
{
    for (int i = 0; i < r->p->leaves; i++)
        th_tensor_free(r->base[i]);
}

void run_close(run *r)
{
    for (int i = 0; i < r->p->lines; i++) {
        th_cache_free(r->cache[i]);
        th_module_free(r->module[i]);
        array_free(&r->keys[i]);
        array_free(&r->values[i]);
    }
    th_context_free(r->ctx);
}

/* -- forward -- */

static void open_scopes(run *r, int index)
{
    const setting *s = r->s;
    if (s->no_scopes)
        return;
    if (r->p->regions == 0 && s->recompute && index == 0)
        th_scope_begin_recomputed(r->ctx, "all");
    for (int i = 0; i < r->p->regions; i++)
        if (r->p->region[i].first == index) {
            if (s->recompute)
                th_scope_begin_recomputed(r->ctx, "recomputed");
            else
                th_scope_begin(r->ctx, "plain");
        }
}

static void end_scope(run *r, int first, int end)
{
    th_tensor *results[MAX_VALUES];
    int count = 0;
    for (int v = 0; v < r->p->values; v++) {
        const int from = r->p->value[v].line;
        if (from >= first && from < end && r->tensor[v]) {
            if (is_read(r, v, end) || is_output(r, v))
                results[count++] = r->tensor[v];
            else
                r->tensor[v] = NULL;
        }
    }
    th_scope_end_all(r->ctx, results, count);
}

static void close_scopes(run *r, int index)
{
    if (r->s->no_scopes)
        return;
    for (int i = 0; i < r->p->regions; i++)
        if (r->p->region[i].end - 1 == index)
            end_scope(r, r->p->region[i].first, index + 1);
    if (r->p->regions == 0 && r->s->recompute && index == r->p->lines - 1)
        end_scope(r, 0, index + 1);
}

static bool check_shape(run *r, const line *l, const th_tensor *t, const value *v)
{
    const th_shape expected = shape_in_run(r, &v->shape), got = th_shape_of(t);
    bool same = expected.ndim == got.ndim;
    for (int i = 0; same && i < got.ndim; i++)
        same = expected.size[i] == got.size[i];
    if (!same) {
        char text[128];
        shape s = v->shape;
        s.ndim = got.ndim;
        memset(s.letter, ' ', sizeof s.letter);
        memcpy(s.size, got.size, sizeof s.size);
        r->out->status = TH_ERROR_SHAPE;
        r->out->failed_line = (int)(l - r->p->line);
        snprintf(r->out->message, sizeof r->out->message, "%s has the unexpected shape %s", l->label,
                 shape_text(&s, text, sizeof text));
    }
    return same;
}

static void build_line(run *r, const line *l)
{
    th_tensor *in[MAX_OPERANDS] = {NULL}, *out[MAX_OUTPUTS] = {NULL};
    for (int k = 0; k < l->operands; k++)
        in[k] = l->operand[k] < 0 ? NULL : r->tensor[l->operand[k]];
    if (l->no_grad)
        th_no_grad_begin(r->ctx);
    kind_at(l->kind)->build(r, l, in, out);
    if (l->no_grad)
        th_no_grad_end(r->ctx);
    for (int k = 0; l->no_grad && k < l->operands; k++)
        if (out[0] && out[0] == in[k]) /* some operations return their operand itself */
            out[0] = th_detach(out[0]);
    const int index = (int)(l - r->p->line);
    for (int k = 0; k < l->outputs && !failed(r, index); k++) {
        const value *v = &r->p->value[l->first + k];
        if (r->s->frozen && !v->differentiable && v->content == REAL)
            out[k] = tensor_from(r, &r->s->frozen->value[l->first + k], v->content, v->wide);
        if (out[k] == NULL || !check_shape(r, l, out[k], v))
            return;
        shape s = v->shape;
        memcpy(s.size, shape_in_run(r, &s).size, sizeof s.size);
        r->out->value[l->first + k] = array_of(out[k], &s);
        r->tensor[l->first + k] = out[k];
        if (r->s->keep_gradients && v->differentiable && th_requires_gradient(out[k]))
            (void)th_keep_gradient(out[k]);
    }
}

static void forward(run *r)
{
    for (int i = 0; i < r->p->lines && !failed(r, i); i++) {
        open_scopes(r, i);
        if (line_runs(r->p, r->s, &r->p->line[i]))
            build_line(r, &r->p->line[i]);
        if (failed(r, i))
            return;
        close_scopes(r, i);
    }
}

/* -- backward -- */

static void add_loss(run *r, int v, const array *cotangent)
{
    const array *y = &r->out->value[v];
    for (int64_t i = 0; i < shape_count(&y->shape); i++)
        if (cotangent->data[i] != 0)
            r->out->loss += cotangent->data[i] * y->data[i];
}

static shape shape_of_leaf(const run *r, int i)
{
    shape s = r->p->value[r->p->leaf[i].value].shape;
    memcpy(s.size, shape_in_run(r, &s).size, sizeof s.size);
    return s;
}

/* Requests the gradients of leaves instead of adding to them. */
static void backward_of_leaves(run *r, th_tensor *total)
{
    th_tensor *wrt[MAX_LEAVES], *gradients[MAX_LEAVES] = {NULL};
    int leaf_of[MAX_LEAVES], count = 0;
    for (int i = 0; i < r->p->leaves; i++)
        if (r->p->leaf[i].gradient)
            leaf_of[count] = i, wrt[count++] = r->base[i];
    if (count == 0 || th_backward(total, &(th_backward_options){.wrt = wrt, .n_wrt = count, .gradients = gradients}))
        return;
    for (int i = 0; i < count; i++) {
        const shape s = shape_of_leaf(r, leaf_of[i]);
        r->out->gradient[leaf_of[i]] = array_of(gradients[i], &s);
    }
}

/* Calls backward once for each output, or once for their sum. */
static void backward(run *r)
{
    int outputs[MAX_VALUES], count = 0;
    for (int v = 0; v < r->p->values; v++)
        if (r->tensor[v] && is_output(r, v) && th_requires_gradient(r->tensor[v]))
            outputs[count++] = v;
    th_tensor *total = NULL;
    for (int i = 0; i < count; i++) {
        const int v = outputs[r->p->ending == 2 ? count - 1 - i : i];
        array a = cotangent_of(r, v);
        th_tensor *cotangent = tensor_from(r, &a, REAL, false);
        add_loss(r, v, &a);
        array_free(&a);
        if (r->s->forward_only || r->s->loss_only)
            continue;
        if (r->p->ending % 2) {
            th_tensor *part = th_sum(th_mul(r->tensor[v], cotangent), TH_ALL_AXES, NULL);
            total = total ? th_add(total, part) : part;
        } else if (th_backward(r->tensor[v],
                               &(th_backward_options){.cotangent = cotangent, .keep_tape = i < count - 1})) {
            break;
        }
    }
    if (total && r->s->wrt)
        backward_of_leaves(r, total);
    else if (total && th_backward(total, NULL))
        failed(r, -1);
    failed(r, -1);
}

static void take_gradient(run *r, int at, th_tensor *t, const shape *s, uint32_t seed)
{
    if (t == NULL || th_gradient(t) == NULL)
        return;
    array *g = &r->out->gradient[at];
    *g = array_of(th_gradient(t), s);
    for (int64_t i = 0; i < shape_count(s); i++)
        r->out->slope[at] += g->data[i] * leaf_direction(seed, i);
}

static void take_gradients(run *r)
{
    for (int i = 0; i < r->p->leaves; i++) {
        const leaf *l = &r->p->leaf[i];
        const shape s = shape_of_leaf(r, i);
        if (l->gradient && !r->s->wrt)
            take_gradient(r, i, r->tensor[l->value], &s, l->seed);
    }
    for (int i = 0; i < r->parameters; i++) {
        const th_shape size = th_shape_of(r->parameter[i]);
        shape s = {.ndim = size.ndim};
        memset(s.letter, ' ', sizeof s.letter);
        memcpy(s.size, size.size, sizeof s.size);
        take_gradient(r, MAX_LEAVES + i, r->parameter[i], &s, parameter_seed(r, i));
    }
    r->out->has_gradients = true;
}

/* -- runs -- */

static void free_values(outcome *out)
{
    for (int i = 0; i < MAX_VALUES; i++)
        array_free(&out->value[i]);
}

static void run_step(run *r)
{
    free_values(r->out);
    r->out->loss = 0;
    memset(r->tensor, 0, sizeof r->tensor);
    for (int i = 0; i < r->p->leaves; i++)
        if (r->base[i] == NULL)
            make_leaf(r, i);
        else
            r->tensor[r->p->leaf[i].value] = r->base[i];
    th_step_begin(r->ctx);
    if (r->s->forward_only)
        th_no_grad_begin(r->ctx);
    forward(r);
    if (!r->out->status)
        backward(r);
    if (r->s->forward_only)
        th_no_grad_end(r->ctx);
}

void program_run(const program *p, const setting *s, outcome *out)
{
    run r = {.p = p, .s = s, .out = out};
    *out = (outcome){.failed_line = -1};
    run_open(&r);
    if (s->profile && th_profile_begin(r.ctx, NULL))
        failed(&r, -1);
    if (!out->status)
        run_step(&r);
    if (s->twice && !out->status) {
        th_tape_clear(r.ctx);
        const size_t live = th_memory(r.ctx).live;
        run_step(&r);
        out->leaked = 0 - live;
    }
    if (!out->status && !s->forward_only && !s->loss_only)
        take_gradients(&r);
    if (s->profile && th_profile_end(r.ctx))
        failed(&r, -1);
    th_profile_free(r.ctx);
    th_tape_clear(r.ctx);
    if (out->leaked)
        out->leaked += th_memory(r.ctx).live;
    free_leaves(&r);
    run_close(&r);
}

void program_run_pieces(const program *p, setting s, outcome *out)
{
    outcome piece;
    run r = {.p = p, .s = &s, .out = &piece};
    *out = piece = (outcome){.failed_line = -1};
    uint32_t state = p->seed;
    s.forward_only = s.pieces = true;
    run_open(&r);
    for (s.first = 0; s.first < p->tokens && !out->status; s.first = s.end) {
        state = state * 1103515245 + 12345;
        s.end = s.first + 1 + (state >> 16) % 3 * (state >> 20) % 40;
        s.end = s.end < p->tokens && state % 8 ? s.end : p->tokens;
        piece = (outcome){.failed_line = -1};
        memset(r.base, 0, sizeof r.base);
        run_step(&r);
        for (int v = 0; v < p->values && !piece.status; v++) {
            if (piece.value[v].data == NULL)
                continue;
            int64_t first[TH_MAX_DIMS] = {0};
            for (int k = 0; k < p->value[v].shape.ndim; k++)
                first[k] = p->value[v].shape.letter[k] == 'T' ? s.first : 0;
            if (out->value[v].data == NULL)
                out->value[v] = array_new(p->value[v].shape);
            array_put(&out->value[v], &piece.value[v], first);
        }
        out->status = piece.status, out->failed_line = piece.failed_line;
        memcpy(out->message, piece.message, sizeof out->message);
        outcome_free(&piece);
        th_tape_clear(r.ctx);
        free_leaves(&r);
    }
    run_close(&r);
}

void outcome_free(outcome *out)
{
    free_values(out);
    for (int i = 0; i < MAX_GRADIENTS; i++)
        array_free(&out->gradient[i]);
}

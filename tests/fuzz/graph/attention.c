/* Lines with attention: scaled_dot_product_attention with all of its options, masked softmax, rotary positions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

enum { Q, K, V, A_POSITIONS, A_LENGTHS, A_KEEP, A_ADDITIVE, A_ALIBI }; /* operands */
enum {
    CAUSAL,
    WINDOW,
    LEFT,
    RIGHT,
    WEIGHTS,
    LOG_SUM_EXP_WANTED,
    AT_POSITIONS,
    KEYS_ARE_TOKENS,
    IN_DOCUMENTS                   /* operand A_LENGTHS has the documents */
};                                 /* line.n */
enum { SCALE, SOFT_CAP, DROPOUT }; /* line.x */

/* -- masks -- */

/* A leaf that broadcasts to the scores, with some axes of size 1. */
static int over_scores(decoder *d, content what, shape scores)
{
    for (int i = 0; i < scores.ndim; i++)
        if (chance(d, 3))
            scores.size[i] = 1, scores.letter[i] = ' ';
    while (scores.ndim && chance(d, 4))
        scores = shape_without(scores, 0);
    return new_leaf(d, what, scores);
}

/* Chooses a mask for scores (.., T, S), whose operands start at l->operands. Returns the tracks that it leaves. */
static unsigned decode_mask(decoder *d, line *l, const shape *scores)
{
    const shape batch = shape_of(d, "b");
    const char queries = scores->letter[scores->ndim - 2], keys = scores->letter[scores->ndim - 1];
    const bool self = queries == 'T' && keys == 'T', batched = scores->ndim > 2 && scores->letter[0] == 'B';
    unsigned tracks = ALL_TRACKS;
    l->n[KEYS_ARE_TOKENS] = keys == 'T';
    l->n[CAUSAL] = chance(d, 3) ? TH_CAUSAL_NONE : self || chance(d, 3) ? TH_CAUSAL_TOP_LEFT : TH_CAUSAL_NONE;
    if (chance(d, 6))
        l->n[CAUSAL] = TH_CAUSAL_BOTTOM_RIGHT;
    if ((l->n[WINDOW] = chance(d, 4)))
        l->n[LEFT] = (int64_t)draw(d, 30) - 1, l->n[RIGHT] = (int64_t)draw(d, 5) - 1;
    const bool documents = self && (batched || d->p->same_documents) && chance(d, 3);
    l->n[IN_DOCUMENTS] = documents;
    const bool at = self && !documents && chance(d, 4);
    l->n[AT_POSITIONS] = at;
    add_operand(d, at ? new_leaf(d, POSITIONS, shape_of(d, batched && chance(d, 2) ? "bt" : "t")) : -1);
    const bool lengths = batched && !documents && (keys == 'T' || keys == 'S') && !chance(d, 3);
    const bool each = batched && (!d->p->same_documents || chance(d, 2));
    add_operand(d, documents ? new_leaf(d, DOCUMENTS, shape_of(d, each ? "bt" : "t"))
                   : lengths ? new_leaf(d, keys == 'T' ? LENGTHS : MEMORY_LENGTHS, batch)
                             : -1);
    const bool keep = !documents && chance(d, 5), additive = !documents && chance(d, 6);
    add_operand(d, keep ? over_scores(d, BOOL, *scores) : -1);
    add_operand(d, additive ? over_scores(d, REAL, *scores) : -1);
    if ((keep || additive) && self) /* the keys of a piece are more than its tokens */
        tracks &= ~(unsigned)PIECES;
    if (additive) /* its gradient may be a sum over tokens, or a sum whose order depends on their number */
        tracks &= ~(unsigned)(TRIM | DOCUMENT);
    const bool causal = l->n[CAUSAL] != TH_CAUSAL_NONE;
    if (!self || !causal || documents)
        tracks &= ~(unsigned)(keys == 'T' ? PIECES : 0);
    if (!documents && keys == 'T')
        tracks &= ~(unsigned)DOCUMENT;
    if (!self && l->n[CAUSAL] == TH_CAUSAL_BOTTOM_RIGHT)
        tracks &= ~(unsigned)(TRIM | PIECES | DOCUMENT);
    if (!self && (causal || l->n[WINDOW])) /* the index of a query counts */
        tracks &= ~(unsigned)(PIECES | DOCUMENT);
    if (!lengths && !(self && causal) && (keys == 'T' || keys == 'S'))
        tracks &= ~(unsigned)TRIM;
    if (keys == 'T' && !batched)
        tracks &= ~(unsigned)TRIM;
    return tracks;
}

static int mask_text(const line *l, char *text, size_t size)
{
    static const char *const causal[] = {"", ", causal", ", causal to the bottom right"};
    int at = snprintf(text, size, "%s%s", causal[l->n[CAUSAL]], l->n[IN_DOCUMENTS] ? ", documents" : "");
    if (l->n[WINDOW])
        at += snprintf(text + at, size - (size_t)at, ", window %d %d", (int)l->n[LEFT], (int)l->n[RIGHT]);
    return at;
}

/* A document that runs alone has no documents. */
static th_mask mask_of(const run *r, const line *l, th_tensor **in)
{
    th_mask mask = {.causal = (th_causal)l->n[CAUSAL],
                    .positions = in[A_POSITIONS],
                    .valid_lengths = l->n[IN_DOCUMENTS] ? NULL : in[A_LENGTHS],
                    .documents = l->n[IN_DOCUMENTS] && !r->s->document ? in[A_LENGTHS] : NULL,
                    .keep = in[A_KEEP],
                    .additive = in[A_ADDITIVE]};
    if (l->n[WINDOW])
        mask.window = TH_WINDOW(l->n[LEFT], l->n[RIGHT]);
    return mask;
}

/* Returns the element of a mask's tensor for sequence b and query t: (), (T), (B) or (B, T). */
static double element_of(const array *a, int64_t b, int64_t t, bool of_sequences)
{
    const int64_t columns = a->shape.ndim ? a->shape.size[a->shape.ndim - 1] : 1;
    return a->data[a->shape.ndim == 0 ? 0 : a->shape.ndim == 2 ? b * columns + t : of_sequences ? b : t];
}

static array plain_array(th_tensor *t)
{
    const th_shape size = t ? th_shape_of(t) : TH_SCALAR;
    shape s = {.ndim = size.ndim};
    memcpy(s.size, size.size, sizeof s.size);
    memset(s.letter, ' ', sizeof s.letter);
    return t ? array_of(t, &s) : (array){.data = NULL};
}

/* Returns whether all tokens between a query and a key have the number of their document. */
static bool same_document(const array *documents, int64_t b, int64_t query, int64_t key)
{
    for (int64_t t = query < key ? query : key; t < (query < key ? key : query); t++)
        if ((int64_t)element_of(documents, b, t, false) != (int64_t)element_of(documents, b, t + 1, false))
            return false;
    return true;
}

/* Returns the range of keys that the rules of a mask show to each query, as a bool tensor (B or 1, 1 .., T, S). */
static th_tensor *own_range(run *r, const th_mask *mask, th_shape scores)
{
    array positions = plain_array(mask->positions), lengths = plain_array(mask->valid_lengths),
          documents = plain_array(mask->documents);
    const int64_t queries = scores.size[scores.ndim - 2], keys = scores.size[scores.ndim - 1];
    shape s = {.ndim = scores.ndim};
    for (int i = 0; i < s.ndim; i++)
        s.size[i] = i == 0 || i >= s.ndim - 2 ? scores.size[i] : 1, s.letter[i] = ' ';
    array keep = array_new(s);
    const int64_t batch = s.ndim > 2 ? s.size[0] : 1,
                  offset = mask->causal == TH_CAUSAL_BOTTOM_RIGHT ? keys - queries : 0;
    for (int64_t i = 0; i < batch * queries * keys; i++) {
        const int64_t b = i / (queries * keys), t = i / keys % queries, key = i % keys;
        const int64_t at = positions.data ? (int64_t)element_of(&positions, b, t, false) : t + offset;
        const th_window_range w = mask->window;
        keep.data[i] = !(mask->causal && key > at) && !(w.given && w.left >= 0 && key < at - w.left) &&
                       !(w.given && w.right >= 0 && key > at + w.right) &&
                       !(lengths.data && (double)key >= element_of(&lengths, b, t, true)) &&
                       !(documents.data && !same_document(&documents, b, t, key));
    }
    th_tensor *result = tensor_from(r, &keep, BOOL, false);
    array_free(&keep);
    array_free(&positions);
    array_free(&lengths);
    array_free(&documents);
    return result;
}

/* Replaces the rules of a mask by a bool tensor with the same meaning. */
static void use_own_range(run *r, th_mask *mask, th_shape scores)
{
    th_tensor *keep = own_range(r, mask, scores);
    if (mask->causal == TH_CAUSAL_BOTTOM_RIGHT && mask->positions == NULL) {
        const double offset = (double)(scores.size[scores.ndim - 1] - scores.size[scores.ndim - 2]);
        if (offset >= 0) /* distances of ALiBi count from here */
            mask->positions = th_arange(r->ctx, TH_INT64, offset, (double)scores.size[scores.ndim - 1], 1);
    }
    mask->keep = mask->keep ? th_logical_and(keep, mask->keep) : keep;
    mask->causal = TH_CAUSAL_NONE;
    mask->window.given = false;
    mask->valid_lengths = mask->documents = NULL;
}

static th_shape scores_shape(th_tensor *q, th_tensor *k)
{
    th_shape scores = th_shape_of(q);
    scores.size[scores.ndim - 1] = th_size(k, -2);
    return scores;
}

/* -- attention -- */

static bool is_query(const value *v, const void *user)
{
    const shape *s = &v->shape;
    (void)user;
    return v->content == REAL && s->ndim >= 2 && s->ndim <= 4 && s->letter[s->ndim - 1] == ' ' &&
           s->letter[s->ndim - 2] == 'T';
}

static bool add_queries(decoder *d)
{
    static const char *const usual[] = {"bhte", "bhte", "bte", "te"};
    const int found = chance(d, 2) ? find_value(d, is_query, NULL) : -1;
    if (found >= 0)
        return add_operand(d, found);
    shape s = shape_of(d, usual[draw(d, 4)]);
    s.size[s.ndim - 1] = draw_size(d);
    return add_operand(d, new_leaf(d, REAL, s));
}

/* A key or value (.., keys, width) for queries, perhaps with fewer heads. */
static bool add_keys(decoder *d, const shape *q, char letter, int64_t keys, int64_t heads, int64_t width)
{
    shape s = *q;
    if (s.ndim > 2 && s.letter[s.ndim - 3] == ' ')
        s.size[s.ndim - 3] = heads;
    s.size[s.ndim - 2] = keys, s.letter[s.ndim - 2] = letter;
    s.size[s.ndim - 1] = width, s.letter[s.ndim - 1] = ' ';
    return add_operand(d, real_of_shape(d, s));
}

/* Adds the outputs: the result, and sometimes the weights and the log-sum-exp. */
static bool add_attention_outputs(decoder *d, line *l, const shape *scores, int64_t width, unsigned tracks)
{
    shape y = *scores;
    y.size[y.ndim - 1] = width, y.letter[y.ndim - 1] = ' ';
    l->n[WEIGHTS] = chance(d, 4), l->n[LOG_SUM_EXP_WANTED] = chance(d, 6);
    for (int i = 0; i < 1 + l->n[WEIGHTS] + l->n[LOG_SUM_EXP_WANTED]; i++) {
        const bool weights = i == 1 && l->n[WEIGHTS];
        value *v = add_output(d, REAL, i == 0 ? y : weights ? *scores : shape_without(*scores, scores->ndim - 1));
        if (v == NULL)
            return false;
        v->tracks = tracks;
        if (weights && scores->letter[scores->ndim - 1] == 'T') /* their last axis has the cache's capacity */
            v->tracks &= ~(unsigned)PIECES;
    }
    return true;
}

static unsigned tracks_of_operands(const decoder *d, const line *l)
{
    unsigned tracks = ALL_TRACKS;
    for (int i = 0; i < l->operands; i++)
        if (l->operand[i] >= 0)
            tracks &= d->p->value[l->operand[i]].tracks;
    return tracks;
}

static bool decode_attention(decoder *d, line *l)
{
    if (!add_queries(d))
        return false;
    const shape q = d->p->value[l->operand[Q]].shape;
    if (q.ndim < 2 || q.ndim > 4 || q.letter[q.ndim - 1] != ' ')
        return false;
    const bool self = q.letter[q.ndim - 2] == 'T' && !chance(d, 4), has_memory = chance(d, 2);
    const char letter = self ? 'T' : has_memory ? 'S' : ' ';
    const int64_t keys = self ? q.size[q.ndim - 2] : has_memory ? d->p->memory : draw_size(d);
    int64_t heads = q.ndim > 2 ? q.size[q.ndim - 3] : 1;
    heads = heads > 1 && heads % 2 == 0 && chance(d, 2) ? heads / 2 : chance(d, 5) ? 1 : heads;
    const int64_t width = chance(d, 2) ? q.size[q.ndim - 1] : draw_size(d);
    if (!add_keys(d, &q, letter, keys, heads, q.size[q.ndim - 1]) || !add_keys(d, &q, letter, keys, heads, width))
        return false;
    shape scores = q;
    scores.size[q.ndim - 1] = keys, scores.letter[q.ndim - 1] = letter;
    if (shape_count(&scores) > MAX_ELEMENTS)
        return false;
    unsigned tracks = decode_mask(d, l, &scores);
    const bool alibi = q.ndim > 2 && q.letter[q.ndim - 3] == ' ' && chance(d, 6);
    add_operand(d, alibi ? new_leaf(d, REAL, shape_add((shape){0}, ' ', q.size[q.ndim - 3])) : -1);
    l->x[SCALE] = chance(d, 4) ? 0.75 : 0;
    l->x[SOFT_CAP] = chance(d, 5) ? 2 : 0;
    l->x[DROPOUT] = chance(d, 6) ? 0.25 : 0;
    l->random = l->x[DROPOUT] > 0;
    char text[80];
    mask_text(l, text, sizeof text);
    snprintf(l->label, LABEL, "attention%.50s%s%s%s", text, l->x[SOFT_CAP] > 0 ? ", soft cap" : "",
             l->x[SCALE] > 0 ? ", scale" : "", l->random ? ", dropout" : "");
    if (alibi && !self)
        tracks &= ~(unsigned)(PIECES | DOCUMENT);
    return add_attention_outputs(d, l, &scores, width, tracks & tracks_of_operands(d, l));
}

/* -- tokens in pieces: all earlier keys, then the new ones, then stale ones -- */

enum { STALE = 3 };

static th_tensor *with_earlier(run *r, array *kept, th_tensor *x, const shape *s)
{
    shape capacity = *s, part = *s;
    const int axis = s->ndim - 2;
    capacity.size[axis] += STALE;
    part.size[axis] = r->s->end - r->s->first;
    if (kept->data == NULL) {
        *kept = array_new(capacity);
        for (int64_t i = 0; i < shape_count(&capacity); i++)
            kept->data[i] = i % 3 ? 1e4 : NAN;
    }
    array piece = array_of(x, &part);
    int64_t first[TH_MAX_DIMS] = {0};
    first[axis] = r->s->first;
    array_put(kept, &piece, first);
    array_free(&piece);
    return tensor_from(r, kept, REAL, false);
}

static th_tensor *positions_of_piece(run *r)
{
    return th_arange(r->ctx, TH_INT64, (double)r->s->first, (double)r->s->end, 1);
}

static void build_attention(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    th_mask mask = mask_of(r, l, in);
    const int index = (int)(l - r->p->line);
    th_tensor *unused = NULL, *k = in[K], *v = in[V];
    if (r->s->pieces && l->n[KEYS_ARE_TOKENS]) {
        k = with_earlier(r, &r->keys[index], k, &r->p->value[l->operand[K]].shape);
        v = with_earlier(r, &r->values[index], v, &r->p->value[l->operand[V]].shape);
        if (mask.positions == NULL)
            mask.positions = positions_of_piece(r);
    }
    const bool own = !(mask.causal == TH_CAUSAL_BOTTOM_RIGHT && in[A_ALIBI]) &&
                     !(l->n[IN_DOCUMENTS] && r->s->track); /* documents have their bits without a keep */
    if (r->s->composed && own)
        use_own_range(r, &mask, scores_shape(in[Q], k));
    th_attention_options options = {.mask = &mask,
                                    .scale = l->x[SCALE],
                                    .soft_cap = l->x[SOFT_CAP],
                                    .alibi = in[A_ALIBI],
                                    .dropout = l->x[DROPOUT]};
    if (l->n[WEIGHTS])
        options.weights = &out[1];
    else if (r->s->weights)
        options.weights = &unused;
    if (l->n[LOG_SUM_EXP_WANTED])
        options.log_sum_exp = &out[1 + l->n[WEIGHTS]];
    out[0] = th_scaled_dot_product_attention(in[Q], k, v, &options);
}

/* -- masked softmax -- */

static bool decode_masked_softmax(decoder *d, line *l)
{
    static const char *const usual[] = {"bhtt", "bhts", "btt", "bts", "tt"};
    const shape scores = shape_of(d, usual[draw(d, 5)]);
    if (shape_count(&scores) > MAX_ELEMENTS || !add_operand(d, real_of_shape(d, scores)))
        return false;
    add_operand(d, -1);
    add_operand(d, -1);
    unsigned tracks = decode_mask(d, l, &scores) & ~(unsigned)PIECES;
    mask_text(l, l->label + snprintf(l->label, LABEL, "masked_softmax"), LABEL - 16);
    value *v = add_output(d, REAL, scores);
    if (v)
        v->tracks = tracks & tracks_of_operands(d, l);
    return v;
}

static void build_masked_softmax(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    const th_mask mask = mask_of(r, l, in);
    if (r->s->composed && !(l->n[IN_DOCUMENTS] && r->s->track)) {
        th_tensor *keep = own_range(r, &mask, th_shape_of(in[0]));
        keep = mask.keep ? th_logical_and(keep, mask.keep) : keep;
        th_tensor *x = mask.additive ? th_add(in[0], mask.additive) : in[0];
        x = th_where(keep, x, th_full(r->ctx, r->dtype, TH_SCALAR, -1e30));
        out[0] = th_where(keep, th_softmax(x, -1), th_zeros(r->ctx, r->dtype, TH_SCALAR));
    } else {
        out[0] = th_masked_softmax(in[0], &mask);
    }
}

/* -- rotary positions -- */

static bool decode_rotary(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 2, 4));
    if (x == NULL)
        return false;
    const shape s = x->shape;
    const char letter = s.letter[s.ndim - 2];
    const int64_t width = s.size[s.ndim - 1];
    if (width < 2 || s.letter[s.ndim - 1] != ' ' || letter == 'B')
        return false;
    l->n[0] = chance(d, 2);
    l->n[1] = width % 2 || chance(d, 4) ? 2 * (1 + draw(d, (uint32_t)(width / 2))) : 0;
    static const int independent[] = {TH_ROTARY_UNSCALED, TH_ROTARY_LINEAR, TH_ROTARY_LLAMA3, TH_ROTARY_YARN};
    l->n[2] = independent[draw(d, 4)]; /* of the length, because pieces of a sequence are compared with all of it */
    const bool at = letter == 'T' && !chance(d, 3);
    add_operand(d,
                at ? new_leaf(d, POSITIONS, shape_of(d, s.letter[0] == 'B' && s.ndim > 2 && chance(d, 2) ? "bt" : "t"))
                   : -1);
    l->x[0] = chance(d, 3) ? 100 : 0;
    snprintf(l->label, LABEL, "rotary, %s, width %d, scaling %d", l->n[0] ? "neighbors" : "halves", (int)l->n[1],
             (int)l->n[2]);
    value *v = add_output(d, REAL, s);
    if (v && !at)
        v->tracks &= ~(unsigned)(PIECES | DOCUMENT);
    return v;
}

static void build_rotary(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    out[0] = th_rotary(in[0], &(th_rotary_options){.base = l->x[0],
                                                   .pairing = (th_rotary_pairing)l->n[0],
                                                   .width = l->n[1],
                                                   .scaling = {.kind = (th_rotary_scaling_kind)l->n[2],
                                                               .factor = l->n[2] ? 4 : 0,
                                                               .low_freq_factor = l->n[2] == 2 ? 1 : 0,
                                                               .high_freq_factor = l->n[2] == 2 ? 4 : 0,
                                                               .original_length = l->n[2] >= 2 ? 32 : 0},
                                                   .positions = in[1]});
}

const kind attention_kinds[] = {{"attention", 10, decode_attention, NULL, build_attention},
                                {"masked_softmax", 3, decode_masked_softmax, NULL, build_masked_softmax},
                                {"rotary", 3, decode_rotary, NULL, build_rotary},
                                {0}};

/* Lines with modules: multi-head attention, blocks, stacks and language models, with caches if tokens run in pieces. */
#include <string.h>

#include "kinds.h"

enum {
    HEADS,
    WIDTH,
    KV_HEADS,
    FLAGS,
    WINDOW_OF,
    LENGTH_MASK,
    ROTARY_WIDTH,
    NORM,
    ACTIVATION,
    LAYERS,
    VOCABULARY,
    CROSS,
    IN_DOCUMENTS,
    CAUSE
};
enum {
    ALIBI = 1,
    ROTARY = 2,
    QK_NORM = 4,
    SOFT_CAPPED = 8,
    NO_BIAS = 16,
    GATED = 32,
    POST_NORM = 64,
    NO_MLP = 128,
    UNTIED = 256,
    RECOMPUTE = 512,
    SINUSOIDAL = 1024,
    LEARNED = 2048,
    LOSS = 4096,
    NEIGHBORS = 8192,
    WIDE = 16384
};

static bool has(const line *l, int64_t flag)
{
    return (l->n[FLAGS] & flag) != 0;
}

/* -- the options of attention and blocks -- */

static void decode_options(decoder *d, line *l)
{
    const int64_t width = l->n[WIDTH], heads = l->n[HEADS];
    l->n[KV_HEADS] = heads % 2 == 0 && chance(d, 2) ? heads / 2 : chance(d, 4) ? 1 : 0;
    for (int64_t flag = QK_NORM; flag <= NO_MLP; flag *= 2)
        l->n[FLAGS] |= chance(d, 4) ? flag : 0;
    if (has(l, NO_MLP))
        l->n[FLAGS] &= ~(int64_t)GATED;
    if (width / heads >= 2 && chance(d, 2))
        l->n[FLAGS] |= ROTARY | (chance(d, 2) ? NEIGHBORS : 0);
    if (width / heads % 2)
        l->n[ROTARY_WIDTH] = width / heads - 1;
    if (chance(d, 4))
        l->n[FLAGS] |= ALIBI;
    l->n[WINDOW_OF] = l->n[CAUSE] && chance(d, 4) ? 1 + draw(d, 20) : 0;
    l->n[NORM] = draw(d, 2);
    l->n[ACTIVATION] = draw(d, 4);
    l->x[0] = chance(d, 8) ? 0.2 : 0;
    l->random = l->x[0] > 0;
}

static th_score_options scores_of(const line *l)
{
    return (th_score_options){.rotary = has(l, ROTARY),
                              .rotary_pairing = has(l, NEIGHBORS) ? TH_ROTARY_NEIGHBORS : TH_ROTARY_HALVES,
                              .rotary_width = has(l, ROTARY) ? l->n[ROTARY_WIDTH] : 0,
                              .alibi = has(l, ALIBI),
                              .qk_norm = has(l, QK_NORM),
                              .soft_cap = has(l, SOFT_CAPPED) ? 3 : 0,
                              .window = l->n[WINDOW_OF]};
}

static th_transformer_block_options block_of(const line *l)
{
    return (th_transformer_block_options){.mlp_width = l->n[WIDTH] + 3,
                                          .no_mlp = has(l, NO_MLP),
                                          .gated = has(l, GATED),
                                          .post_norm = has(l, POST_NORM),
                                          .activation = (th_activation)l->n[ACTIVATION],
                                          .norm = (th_norm)l->n[NORM],
                                          .dropout = l->x[0],
                                          .attention_dropout = l->x[0],
                                          .no_bias = has(l, NO_BIAS),
                                          .kv_heads = l->n[KV_HEADS],
                                          .scores = scores_of(l),
                                          .eps = 1e-3,
                                          .recompute = has(l, RECOMPUTE)};
}

static int options_text(const line *l, char *text, size_t size)
{
    static const struct {
        int64_t flag;
        const char *name;
    } names[] = {{ROTARY, "rotary"}, {ALIBI, "alibi"},         {QK_NORM, "qk_norm"},      {SOFT_CAPPED, "soft cap"},
                 {GATED, "gated"},   {POST_NORM, "post-norm"}, {NO_MLP, "no mlp"},        {NO_BIAS, "no bias"},
                 {UNTIED, "untied"}, {RECOMPUTE, "recompute"}, {SINUSOIDAL, "sinusoids"}, {LEARNED, "positions"}};
    int at = snprintf(text, size, "%d heads", (int)l->n[HEADS]);
    for (size_t i = 0; i < sizeof names / sizeof *names && at < (int)size - 16; i++)
        if (has(l, names[i].flag))
            at += snprintf(text + at, size - (size_t)at, ", %s", names[i].name);
    if (l->n[WINDOW_OF] && at < (int)size - 16)
        at += snprintf(text + at, size - (size_t)at, ", window %d", (int)l->n[WINDOW_OF]);
    return at;
}

static th_cache *cache_of(run *r, const line *l)
{
    const int index = (int)(l - r->p->line);
    if (!r->s->pieces)
        return NULL;
    if (r->cache[index] == NULL)
        r->cache[index] = th_cache_new(r->module[index], r->p->batch, r->p->tokens + 2);
    return r->cache[index];
}

/* Returns the positions of a piece's tokens: (T), or (B, T) with other strides than a contiguous tensor. */
static th_tensor *positions_of(run *r)
{
    if (!r->s->pieces)
        return NULL;
    th_tensor *at = th_arange(r->ctx, TH_INT64, (double)r->s->first, (double)r->s->end, 1);
    th_tensor *all = th_expand(th_unsqueeze(at, 0), TH_SHAPE(r->p->batch, -1));
    return r->p->seed % 3 == 0   ? at
           : r->p->seed % 3 == 1 ? all
                                 : th_swap_axes(th_contiguous(th_swap_axes(all, 0, 1)), 0, 1);
}

/* Adds the documents of a line that has them, and the places of its tokens. */
static void add_documents(decoder *d, const line *l)
{
    const shape s = shape_of(d, d->p->same_documents && chance(d, 2) ? "t" : "bt");
    add_operand(d, l->n[IN_DOCUMENTS] ? new_leaf(d, DOCUMENTS, s) : -1);
    add_operand(d, l->n[IN_DOCUMENTS] ? new_leaf(d, PLACES, s) : -1);
}

/* -- attention and blocks over tokens -- */

static bool is_text(const value *v, const void *user)
{
    const shape *s = &v->shape;
    (void)user;
    return v->content == REAL && s->ndim == 3 && s->letter[0] == 'B' && s->letter[1] == 'T' && s->letter[2] == ' ' &&
           s->size[2] > 0;
}

static bool decode_block(decoder *d, line *l)
{
    if (d->p->tokens * d->p->batch > 300)
        return false;
    const int found = find_value(d, is_text, NULL);
    const value *x = add_operand(d, found >= 0 ? found : new_leaf(d, REAL, shape_of(d, "bte")));
    if (x == NULL || x->shape.size[2] == 0 || x->shape.size[2] > 70)
        return false;
    const shape s = x->shape;
    l->n[WIDTH] = s.size[2];
    l->n[HEADS] = s.size[2] % d->p->heads == 0 ? d->p->heads : 1;
    l->n[CAUSE] = !chance(d, 3);
    decode_options(d, l);
    l->n[LAYERS] = chance(d, 4) ? 2 : chance(d, 2); /* 0: attention alone, 1: a block, 2: a stack of two */
    l->n[CROSS] = l->n[LAYERS] < 2 && chance(d, 3);
    if (l->n[LAYERS] && chance(d, 4))
        l->n[FLAGS] |= RECOMPUTE;
    if (l->n[CROSS] && l->n[LAYERS] == 0) /* scores of cross attention have no positions */
        l->n[FLAGS] &= ~(int64_t)(ROTARY | ALIBI), l->n[WINDOW_OF] = 0, l->n[CAUSE] = 0;
    shape memory = s;
    memory.size[1] = d->p->memory, memory.letter[1] = 'S';
    add_operand(d, l->n[CROSS] ? real_of_shape(d, memory) : -1);
    l->n[IN_DOCUMENTS] = !(l->n[CROSS] && !l->n[LAYERS]) && chance(d, 3);
    l->n[LENGTH_MASK] = !l->n[IN_DOCUMENTS] && chance(d, 2);
    add_operand(d, l->n[LENGTH_MASK] && !(l->n[CROSS] && !l->n[LAYERS]) ? new_leaf(d, LENGTHS, shape_of(d, "b")) : -1);
    add_operand(d, l->n[CROSS] && !chance(d, 3) ? new_leaf(d, MEMORY_LENGTHS, shape_of(d, "b")) : -1);
    add_documents(d, l);
    static const char *const names[] = {"multi-head attention", "block", "stack of two blocks"};
    int at = snprintf(l->label, LABEL, "%s%s%s%s, ", l->n[CROSS] ? "cross " : "", l->n[CAUSE] ? "causal " : "",
                      names[l->n[LAYERS]], l->n[IN_DOCUMENTS] ? ", documents" : "");
    options_text(l, l->label + at, LABEL - (size_t)at);
    value *v = add_output(d, REAL, s);
    if (v == NULL)
        return false;
    unsigned tracks = ALL_TRACKS;
    for (int i = 0; i < l->operands; i++)
        tracks &= l->operand[i] < 0 ? ALL_TRACKS : d->p->value[l->operand[i]].tracks;
    const bool self = !l->n[CROSS] || l->n[LAYERS];
    if (self && (!l->n[CAUSE] || l->n[IN_DOCUMENTS]))
        tracks &= ~(unsigned)PIECES;
    if (self && !l->n[IN_DOCUMENTS])
        tracks &= ~(unsigned)DOCUMENT;
    if (self && !l->n[CAUSE] && l->operand[2] < 0)
        tracks &= ~(unsigned)TRIM;
    if (l->n[CROSS] && l->operand[3] < 0)
        tracks &= ~(unsigned)TRIM;
    v->tracks = tracks;
    v->differentiable = true;
    return true;
}

static th_module *make_block(run *r, const line *l)
{
    th_transformer_block_options block = block_of(l);
    block.cross_attention = l->n[CROSS];
    if (l->n[LAYERS] == 2)
        return th_transformer_encoder_new(r->ctx, 2, l->n[WIDTH], l->n[HEADS],
                                          &(th_transformer_stack_options){.block = block});
    if (l->n[LAYERS] == 1)
        return th_transformer_block_new(r->ctx, l->n[WIDTH], l->n[HEADS], &block);
    return th_multi_head_attention_new(
        r->ctx, l->n[WIDTH], l->n[HEADS],
        &(th_multi_head_attention_options){
            .dropout = l->x[0], .no_bias = has(l, NO_BIAS), .kv_heads = l->n[KV_HEADS], .scores = scores_of(l)});
}

static void build_block(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    th_module *m = r->module[l - r->p->line];
    th_tensor *weights[2] = {NULL}, *memory_weights[2] = {NULL};
    th_tensor *positions = l->n[IN_DOCUMENTS] ? in[5] : positions_of(r);
    th_mask mask = {.causal = l->n[CAUSE] ? TH_CAUSAL_TOP_LEFT : TH_CAUSAL_NONE,
                    .valid_lengths = in[2],
                    .documents = r->s->document ? NULL : in[4]};
    const th_mask memory_mask = {.valid_lengths = in[3]};
    const bool self = !l->n[CROSS] || l->n[LAYERS];
    if (r->s->pieces && self)
        mask.positions = positions;
    if (l->n[LAYERS] == 0) {
        th_attend_options options = {.mask = self ? &mask : &memory_mask,
                                     .positions = self ? positions : NULL,
                                     .cache = cache_of(r, l),
                                     .weights = r->s->weights ? weights : NULL};
        out[0] = th_attend(m, in[0], self ? in[0] : in[1], self ? in[0] : in[1], &options);
        return;
    }
    th_transform_options options = {.mask = &mask,
                                    .memory = in[1],
                                    .memory_mask = l->n[CROSS] ? &memory_mask : NULL,
                                    .positions = positions,
                                    .cache = cache_of(r, l),
                                    .weights = r->s->weights ? weights : NULL,
                                    .memory_weights = r->s->weights && l->n[CROSS] ? memory_weights : NULL};
    out[0] = th_transform(m, in[0], &options);
}

/* -- small layers -- */

static bool decode_layer(decoder *d, line *l)
{
    static const char *const names[] = {"dense layer", "layer_norm layer", "rms_norm layer"};
    const value *x = add_operand(d, real_operand(d, 1, 4));
    if (x == NULL || x->shape.letter[x->shape.ndim - 1] != ' ' || x->shape.size[x->shape.ndim - 1] == 0)
        return false;
    shape y = x->shape;
    l->n[0] = draw(d, 3);
    l->n[1] = y.size[y.ndim - 1];
    if (l->n[0] == 0)
        y.size[y.ndim - 1] = chance(d, 2) ? d->p->width : 1 + draw(d, 70);
    l->n[2] = y.size[y.ndim - 1];
    if (l->n[2] == 0)
        return false;
    snprintf(l->label, LABEL, "%s", names[l->n[0]]);
    value *v = add_output(d, REAL, y);
    if (v)
        v->differentiable = true;
    return v;
}

static th_module *make_layer(run *r, const line *l)
{
    return l->n[0] == 0   ? th_dense_new(r->ctx, l->n[1], l->n[2], NULL)
           : l->n[0] == 1 ? th_layer_norm_new(r->ctx, l->n[1], &(th_norm_layer_options){.eps = 1e-3})
                          : th_rms_norm_new(r->ctx, l->n[1], &(th_norm_layer_options){.eps = 1e-3});
}

static void build_layer(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    out[0] = th_module_forward(r->module[l - r->p->line], in[0]);
}

/* -- language models -- */

static bool decode_model(decoder *d, line *l)
{
    const program *p = d->p;
    if (p->tokens == 0 || p->width == 0 || p->tokens * p->batch > 300)
        return false;
    l->n[WIDTH] = p->width, l->n[HEADS] = p->heads, l->n[CAUSE] = 1;
    decode_options(d, l);
    l->n[VOCABULARY] = 1 + draw(d, 13);
    l->n[LAYERS] = 1 + draw(d, 2);
    static const int64_t positions[] = {0, SINUSOIDAL, LEARNED};
    l->n[FLAGS] |= positions[draw(d, 3)];
    for (int64_t flag = UNTIED; flag <= RECOMPUTE; flag *= 2)
        l->n[FLAGS] |= chance(d, 3) ? flag : 0;
    l->n[FLAGS] |= chance(d, 3) ? LOSS : 0;
    const int tokens = new_index(d, shape_of(d, "bt"), l->n[VOCABULARY]);
    if (tokens < 0)
        return false;
    add_operand(d, tokens);
    int targets = -1;
    if (has(l, LOSS) && (targets = new_index(d, shape_of(d, "bt"), l->n[VOCABULARY])) >= 0)
        d->p->value[targets].ignored = true;
    if (has(l, LOSS) && targets < 0)
        return false;
    add_operand(d, targets);
    l->n[IN_DOCUMENTS] = chance(d, 3);
    add_documents(d, l);
    const int at = snprintf(l->label, LABEL, "%d-layer language model%s%s, ", (int)l->n[LAYERS],
                            has(l, LOSS) ? "'s loss" : "", l->n[IN_DOCUMENTS] ? ", documents" : "");
    options_text(l, l->label + at, LABEL - (size_t)at);
    shape y = shape_add(shape_of(d, "bt"), ' ', l->n[VOCABULARY]);
    value *v = add_output(d, REAL, has(l, LOSS) ? (shape){0} : y);
    if (v) {
        v->differentiable = true;
        v->tracks &= ~(unsigned)(l->n[IN_DOCUMENTS] ? PIECES : DOCUMENT);
    }
    return v;
}

static th_module *make_model(run *r, const line *l)
{
    return th_language_model_new(
        r->ctx, &(th_language_model_options){.vocabulary = l->n[VOCABULARY],
                                             .length = r->p->tokens + 2,
                                             .width = l->n[WIDTH],
                                             .heads = l->n[HEADS],
                                             .layers = l->n[LAYERS],
                                             .positions = has(l, LEARNED)      ? TH_POSITIONS_LEARNED
                                                          : has(l, SINUSOIDAL) ? TH_POSITIONS_SINUSOIDAL
                                                                               : TH_POSITIONS_NONE,
                                             .untied = has(l, UNTIED),
                                             .dropout = l->x[0],
                                             .block = block_of(l)});
}

static void build_model(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    th_module *m = r->module[l - r->p->line];
    th_tensor *documents = r->s->document ? NULL : in[2];
    const th_cross_entropy_options ignore = {TH_IGNORE(-100)};
    const th_language_model_logits_options options = {
        .positions = positions_of(r), .cache = cache_of(r, l), .documents = documents};
    if (!has(l, LOSS))
        out[0] = th_language_model_logits(m, in[0], &options);
    else if (documents)
        out[0] = th_language_model_packed_loss(m, in[0], in[1], documents, &ignore);
    else
        out[0] = th_language_model_loss(m, in[0], in[1], &ignore);
}

const kind layer_kinds[] = {{"block", 6, decode_block, make_block, build_block},
                            {"layer", 3, decode_layer, make_layer, build_layer},
                            {"language model", 3, decode_model, make_model, build_model},
                            {0}};

/* Decodes a program from bytes. The kinds of lines choose operands, and declare the shapes of their outputs. */
#include "program.h"

#include <string.h>

#include "kinds.h"

/* -- bytes -- */

uint32_t draw(decoder *d, uint32_t below)
{
    uint32_t x = d->at < d->size ? d->data[d->at++] : 0;
    if (below > 256)
        x = x << 8 | (d->at < d->size ? d->data[d->at++] : 0u);
    return below ? x % below : 0;
}

bool chance(decoder *d, uint32_t n)
{
    return draw(d, n) == n - 1;
}

int64_t draw_size(decoder *d)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 1, 2, 3, 5, 6, 0, 31, 33, 64, 67};
    return sizes[draw(d, sizeof sizes / sizeof *sizes)];
}

int draw_axis(decoder *d, const shape *s)
{
    return s->ndim ? (int)draw(d, (uint32_t)s->ndim) : -1;
}

/* -- shapes -- */

shape shape_add(shape s, char letter, int64_t size)
{
    s.letter[s.ndim] = letter;
    s.size[s.ndim++] = size;
    return s;
}

shape shape_of(const decoder *d, const char *axes)
{
    const program *p = d->p;
    shape s = {0};
    for (; *axes; axes++)
        s = *axes == 'b'   ? shape_add(s, 'B', p->batch)
            : *axes == 't' ? shape_add(s, 'T', p->tokens)
            : *axes == 's' ? shape_add(s, 'S', p->memory)
            : *axes == 'e' ? shape_add(s, ' ', p->width)
            : *axes == 'h' ? shape_add(s, ' ', p->heads)
                           : shape_add(s, ' ', 1);
    return s;
}

int64_t shape_count(const shape *s)
{
    int64_t count = 1;
    for (int i = 0; i < s->ndim; i++)
        count *= s->size[i];
    return count;
}

bool shape_same(const shape *a, const shape *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->size[i] != b->size[i] || a->letter[i] != b->letter[i])
            return false;
    return true;
}

shape shape_without(shape s, int axis)
{
    shape y = {0};
    for (int i = 0; i < s.ndim; i++)
        if (i != axis)
            y = shape_add(y, s.letter[i], s.size[i]);
    return y;
}

shape shape_with(shape s, int axis, int64_t size, char letter)
{
    shape y = {0};
    for (int i = 0; i <= s.ndim; i++) {
        if (i == axis)
            y = shape_add(y, letter, size);
        if (i < s.ndim)
            y = shape_add(y, s.letter[i], s.size[i]);
    }
    return y;
}

int shape_find(const shape *s, char letter)
{
    for (int i = 0; i < s->ndim; i++)
        if (s->letter[i] == letter)
            return i;
    return -1;
}

/* -- values -- */

static value *add_value(program *p, content what, shape s)
{
    if (p->values == MAX_VALUES || shape_count(&s) > MAX_ELEMENTS || s.ndim > TH_MAX_DIMS)
        return NULL;
    value *v = &p->value[p->values++];
    *v = (value){.content = what, .shape = s, .leaf = -1, .line = -1, .tracks = ALL_TRACKS};
    return v;
}

int new_leaf(decoder *d, content what, shape s)
{
    program *p = d->p;
    value *v = p->leaves < MAX_LEAVES ? add_value(p, what, s) : NULL;
    if (v == NULL)
        return -1;
    v->leaf = p->leaves;
    v->wide = what >= POSITIONS || chance(d, 2);
    leaf *l = &p->leaf[p->leaves++];
    *l = (leaf){.value = p->values - 1, .seed = (uint32_t)p->leaves * 977 + p->seed, .scale = 1};
    l->gradient = v->differentiable = what == REAL && !chance(d, 5);
    if (what == REAL && chance(d, 8))
        l->scale = 3;
    return p->values - 1;
}

int new_index(decoder *d, shape s, int64_t limit)
{
    const int v = new_leaf(d, INDEX, s);
    if (v >= 0)
        d->p->value[v].limit = limit;
    return v;
}

int find_value(decoder *d, accept_function *accept, const void *user)
{
    int found[MAX_VALUES], count = 0;
    for (int i = d->p->values - 1; i >= 0; i--)
        if (accept(&d->p->value[i], user))
            found[count++] = i;
    return count ? found[chance(d, 3) ? draw(d, (uint32_t)count) : draw(d, count < 3 ? (uint32_t)count : 3)] : -1;
}

static bool is_real_with_dimensions(const value *v, const void *user)
{
    const int *range = user;
    return v->content == REAL && v->shape.ndim >= range[0] && v->shape.ndim <= range[1];
}

/* A shape of at least min and at most max dimensions, often one of a text. */
static shape random_shape(decoder *d, int min, int max)
{
    static const char *const usual[] = {"bte", "bte", "te", "be", "bse", "e", "bhte", "bhse", "bt"};
    const char *axes = usual[draw(d, 9)];
    if ((int)strlen(axes) >= min && (int)strlen(axes) <= max && !chance(d, 4))
        return shape_of(d, axes);
    shape s = {0};
    const int ndim = min + (int)draw(d, (uint32_t)((max < 5 ? max : 4) - min + 1));
    for (int i = 0; i < ndim; i++)
        s = i == 0 && chance(d, 2) ? shape_of(d, "b") : shape_add(s, ' ', draw_size(d));
    return s;
}

int real_operand(decoder *d, int min, int max)
{
    const int v = chance(d, 5) ? -1 : find_value(d, is_real_with_dimensions, (int[]){min, max});
    return v >= 0 ? v : new_leaf(d, REAL, random_shape(d, min, max));
}

static bool is_real_of_shape(const value *v, const void *user)
{
    return v->content == REAL && shape_same(&v->shape, user);
}

int real_of_shape(decoder *d, shape s)
{
    const int v = chance(d, 2) ? find_value(d, is_real_of_shape, &s) : -1;
    return v >= 0 ? v : new_leaf(d, REAL, s);
}

const value *add_operand(decoder *d, int v)
{
    d->line->operand[d->line->operands++] = v;
    return v >= 0 ? &d->p->value[v] : NULL;
}

void mix_letter(value *out, char letter)
{
    if (out && letter == 'B')
        out->tracks = 0;
    else if (out && letter == 'T')
        out->tracks &= ~(unsigned)(TRIM | PIECES | DOCUMENT);
    else if (out && letter == 'S')
        out->tracks &= ~(unsigned)TRIM;
}

value *add_output(decoder *d, content what, shape s)
{
    line *l = d->line;
    value *v = add_value(d->p, what, s);
    if (v == NULL)
        return NULL;
    if (l->outputs++ == 0)
        l->first = d->p->values - 1;
    v->line = (int)(l - d->p->line);
    for (int i = 0, batches = 0, tokens = 0; i < s.ndim; i++) {
        if (s.letter[i] == 'B' && ++batches > 1)
            v->tracks = 0;
        if (s.letter[i] == 'T' && ++tokens > 1)
            v->tracks &= ~(unsigned)PIECES;
    }
    for (int i = 0; i < l->operands; i++) {
        if (l->operand[i] < 0)
            continue;
        const value *x = &d->p->value[l->operand[i]];
        v->tracks &= x->tracks;
        v->differentiable |= x->differentiable && what == REAL;
        for (const char *letter = "BTS"; *letter; letter++)
            if (shape_find(&x->shape, *letter) >= 0 && shape_find(&s, *letter) < 0)
                mix_letter(v, *letter);
    }
    return v;
}

/* -- the program -- */

static void decode_sizes(decoder *d)
{
    static const int64_t tokens[] = {1, 2, 3, 4, 5, 7, 8, 13, 17, 33, 49, 65, 71, 97};
    program *p = d->p;
    p->batch = 1 + draw(d, MAX_BATCH);
    p->tokens = tokens[draw(d, 14)];
    p->memory = tokens[draw(d, 14)];
    p->heads = 1 + draw(d, 4);
    static const int64_t widths[] = {2, 4, 1, 3, 8, 5, 16, 17, 33};
    p->width = p->heads * widths[draw(d, 9)];
    if (chance(d, 8)) /* the rows of all sequences are more than a chunk of the classifier */
        p->heads = 1, p->width = 1 + draw(d, 6), p->batch = 3, p->tokens = 165 + draw(d, 90);
    if (chance(d, 16)) /* more keys than a block of them */
        p->heads = 1 + draw(d, 2), p->width = 3 * p->heads, p->tokens = 1 + draw(d, 4), p->memory = 250 + draw(d, 900);
    if (chance(d, 24))
        *(int64_t *[]){&p->tokens, &p->memory, &p->width}[draw(d, 3)] = 0;
    for (int b = 0; b < p->batch; b++) {
        p->length[b] = p->tokens && !chance(d, 3) ? 1 + draw(d, (uint32_t)p->tokens) : p->tokens;
        p->memory_length[b] = p->memory && !chance(d, 3) ? 1 + draw(d, (uint32_t)p->memory) : p->memory;
    }
}

int64_t document_end(const program *p, int64_t sequence, int64_t first)
{
    int64_t end = first + 1;
    while (end < p->tokens && !p->begins[p->same_documents ? 0 : sequence][end])
        end++;
    return end;
}

static void decode_documents(decoder *d)
{
    program *p = d->p;
    p->same_documents = chance(d, 2);
    for (int b = 0; b < p->batch && p->tokens; b++) {
        p->begins[b][0] = true;
        for (int i = (int)draw(d, 5); i > 0; i--)
            p->begins[b][draw(d, (uint32_t)p->tokens)] = true;
    }
}

static void decode_settings(decoder *d)
{
    static const th_precision precisions[] = {TH_PRECISION_FLOAT32, TH_PRECISION_FLOAT32, TH_PRECISION_BFLOAT16X3,
                                              TH_PRECISION_BFLOAT16};
    program *p = d->p;
    p->precision = precisions[draw(d, 4)];
    p->dtype = chance(d, 5) ? TH_FLOAT64 : TH_FLOAT32;
    p->training = chance(d, 2);
    p->ending = (int)draw(d, 4);
    p->sequence_way = (int)draw(d, 3);
    p->threads = 2 + (int)draw(d, 3);
    p->seed = draw(d, 65536);
}

static const kind *draw_kind(decoder *d, int *index)
{
    uint32_t total = 0;
    for (int i = 0; kind_at(i); i++)
        total += (uint32_t)kind_at(i)->weight;
    uint32_t at = draw(d, total);
    for (*index = 0; at >= (uint32_t)kind_at(*index)->weight; ++*index)
        at -= (uint32_t)kind_at(*index)->weight;
    return kind_at(*index);
}

static void decode_line(decoder *d)
{
    program *p = d->p;
    const int leaves = p->leaves, values = p->values;
    line *l = d->line = &p->line[p->lines];
    *l = (line){0};
    const kind *k = draw_kind(d, &l->kind);
    snprintf(l->label, sizeof l->label, "%s", k->name);
    bool fits = k->decode(d, l) && l->outputs > 0;
    for (int i = 0; i < l->operands; i++)
        fits = fits && l->operand[i] >= -1 && l->operand[i] < p->values;
    if (!fits) {
        p->leaves = leaves, p->values = values;
        return;
    }
    l->no_grad = chance(d, 24);
    unsigned tracks = l->random && p->training ? 0 : ALL_TRACKS;
    for (int i = 0; i < l->outputs; i++) {
        p->value[l->first + i].differentiable &= !l->no_grad;
        tracks &= p->value[l->first + i].tracks;
    }
    for (int i = 0; i < l->outputs; i++)
        p->value[l->first + i].tracks = tracks;
    p->lines++;
}

void program_drop(program *p, int index)
{
    p->line[index].dropped = true;
    for (int i = index + 1; i < p->lines; i++)
        for (int k = 0; k < p->line[i].operands && !p->line[i].dropped; k++)
            if (p->line[i].operand[k] >= 0 && p->value[p->line[i].operand[k]].line == index)
                program_drop(p, i);
}

void program_decode(program *p, const uint8_t *data, size_t size)
{
    decoder d = {.data = data, .size = size, .p = p};
    *p = (program){0};
    decode_settings(&d);
    decode_sizes(&d);
    decode_documents(&d);
    const int lines = 1 + (int)draw(&d, chance(&d, 3) ? MAX_LINES : 8);
    for (int tries = 0; p->lines < lines && tries < 3 * lines; tries++)
        decode_line(&d);
    p->regions = (int)draw(&d, 3);
    for (int i = 0, first = 0; i < p->regions && p->lines; i++) {
        p->region[i].first = first + (int)draw(&d, (uint32_t)(p->lines - first));
        p->region[i].end = p->region[i].first + 1 + (int)draw(&d, (uint32_t)(p->lines - p->region[i].first));
        p->region[i].recomputed = chance(&d, 2);
        if ((first = p->region[i].end) >= p->lines)
            p->regions = i + 1;
    }
}

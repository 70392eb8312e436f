/* Best-fit decreasing: pieces are placed from the longest to the shortest, each into the fullest window that has
 * enough space. Windows with the same free space form a stack. A bit for each free space tells whether its stack has a
 * window, so the fullest one is found in length / 64 steps. */
#include "models/data/packing.h"

#include <string.h>

#include "models/core/context.h"

static const char operation[] = "windows";

typedef struct packer {
    th_context *ctx;
    th_token_file *file;
    int64_t begin, end, length;
    th_packed_piece *piece; /* [pieces], in the file's order; NULL while they are counted */
    int64_t pieces, targets;
} packer;

/* -- pieces -- */

/* Adds a piece, unless it has no target. */
static void add_piece(packer *p, th_packed_piece piece)
{
    const int64_t targets = th_token_file_count_unmarked(p->file, piece.first + 1, piece.first + piece.places + 1);
    if (targets == 0)
        return;
    if (p->piece) {
        p->piece[p->pieces] = piece;
        p->targets += targets;
    }
    p->pieces++;
}

/* Divides the document of the tokens first .. past - 1 into pieces. */
static void add_document(packer *p, int64_t first, int64_t past)
{
    for (; first + 1 < past; first += p->length)
        add_piece(p, (th_packed_piece){first, th_smaller(past - first - 1, p->length)});
}

/* Finds all pieces: counts them, or writes them to p->piece. */
static th_status find_pieces(packer *p)
{
    enum { SOME = 4096 };
    unsigned char marks[SOME];
    int64_t first = p->begin;
    p->pieces = 0;
    for (int64_t at = p->begin, n; at < p->end; at += n) {
        n = th_smaller(p->end - at, SOME);
        if (th_token_file_get_marks(p->file, at, n, marks) != TH_OK)
            return th_error_code(p->ctx);
        for (int64_t i = 0; i < n; i++)
            if (marks[i] & TH_TOKEN_BEGINS) {
                add_document(p, first, at + i);
                first = at + i;
            }
    }
    add_document(p, first, p->end);
    return TH_OK;
}

/* -- windows -- */

/* The windows while they are filled. A link is an index + 1; 0 is the end of a list. */
typedef struct windows {
    int64_t length, count;
    uint64_t *space_exists;   /* [length / 64 + 1]: bit r: a window with r free places exists */
    int64_t *first_window;    /* [length + 1]: link to the first of them */
    int64_t *next_window;     /* [pieces]: link to the next of them */
    int64_t *window_of_piece; /* [pieces]: the window of each piece */
} windows;

/* Returns the smallest number of free places, at least `places`, that a window has; -1 if none has enough. */
static int64_t smallest_sufficient_space(const windows *w, int64_t places)
{
    int64_t word = places / 64;
    uint64_t bits = w->space_exists[word] & ~(uint64_t)0 << places % 64;
    while (bits == 0 && ++word <= w->length / 64)
        bits = w->space_exists[word];
    return bits ? 64 * word + __builtin_ctzll(bits) : -1;
}

static void push_window(windows *w, int64_t window, int64_t space)
{
    w->next_window[window] = w->first_window[space];
    w->first_window[space] = window + 1;
    w->space_exists[space / 64] |= (uint64_t)1 << space % 64;
}

static int64_t pop_window(windows *w, int64_t space)
{
    const int64_t window = w->first_window[space] - 1;
    w->first_window[space] = w->next_window[window];
    if (w->first_window[space] == 0)
        w->space_exists[space / 64] &= ~((uint64_t)1 << space % 64);
    return window;
}

/* Places a piece. */
static int64_t place_piece(windows *w, int64_t places)
{
    const int64_t space = smallest_sufficient_space(w, places);
    const int64_t window = space < 0 ? w->count++ : pop_window(w, space);
    push_window(w, window, (space < 0 ? w->length : space) - places);
    return window;
}

/* Writes the order of pieces from the longest to the shortest; equal ones in the file's order. start: [length + 2]. */
static void sort_by_size(const packer *p, int64_t *start, int64_t *order)
{
    for (int64_t i = 0; i < p->pieces; i++)
        start[p->length - p->piece[i].places + 1]++;
    for (int64_t i = 1; i <= p->length; i++)
        start[i] += start[i - 1];
    for (int64_t i = 0; i < p->pieces; i++)
        order[start[p->length - p->piece[i].places]++] = i;
}

/* Groups the pieces by window, in the order in which they were placed. */
static void group_by_window(const packer *p, const windows *w, const int64_t *order, th_packing *packing)
{
    int64_t *next = packing->begin;
    for (int64_t i = 0; i < p->pieces; i++)
        next[w->window_of_piece[i] + 1]++;
    for (int64_t i = 0; i < w->count; i++)
        next[i + 1] += next[i];
    for (int64_t i = 0; i < p->pieces; i++)
        packing->piece[next[w->window_of_piece[order[i]]]++] = p->piece[order[i]];
    memmove(next + 1, next, (size_t)w->count * sizeof *next); /* each entry is the begin of the next window */
    next[0] = 0;
}

/* -- memory -- */

/* Allocates an array of `count` elements filled with 0. NULL with the error pending. */
static void *allocate_zeros(th_context *ctx, int64_t count, size_t size)
{
    const size_t bytes = (size_t)count * size;
    void *memory = th_allocate(ctx, bytes);
    if (memory == NULL)
        th_fail_memory(ctx, operation, bytes);
    else
        memset(memory, 0, bytes);
    return memory;
}

void th_packing_free(th_context *ctx, th_packing *packing)
{
    th_release(ctx, packing->begin, (size_t)(packing->windows + 1) * sizeof *packing->begin);
    th_release(ctx, packing->piece, (size_t)packing->pieces * sizeof *packing->piece);
    *packing = (th_packing){0};
}

/* Places all pieces, with the packer's pieces and working memory of (3 pieces + 2 length + length / 64) numbers. */
static th_status place_all_pieces(const packer *p, int64_t *memory, th_packing *packing)
{
    int64_t *start = memory, *order = start + p->length + 2;
    windows w = {.length = p->length, .window_of_piece = order + p->pieces};
    w.next_window = w.window_of_piece + p->pieces;
    w.first_window = w.next_window + p->pieces;
    w.space_exists = (uint64_t *)(void *)(w.first_window + p->length + 1);
    sort_by_size(p, start, order);
    for (int64_t i = 0; i < p->pieces; i++)
        w.window_of_piece[order[i]] = place_piece(&w, p->piece[order[i]].places);
    packing->begin = allocate_zeros(p->ctx, w.count + 1, sizeof *packing->begin);
    packing->windows = packing->begin ? w.count : 0;
    packing->piece = packing->begin ? allocate_zeros(p->ctx, p->pieces, sizeof *packing->piece) : NULL;
    if (packing->piece == NULL)
        return th_error_code(p->ctx);
    packing->pieces = p->pieces;
    packing->targets = p->targets;
    group_by_window(p, &w, order, packing);
    return TH_OK;
}

th_status th_pack(th_token_file *file, int64_t begin, int64_t end, int64_t length, th_packing *packing)
{
    packer p = {.ctx = file->ctx, .file = file, .begin = begin, .end = end, .length = length};
    *packing = (th_packing){0};
    if (find_pieces(&p) != TH_OK)
        return th_error_code(p.ctx);
    if (p.pieces == 0)
        return th_fail(p.ctx, TH_ERROR_ARGUMENT, operation,
                       "no token of %.300s among %lld to %lld is a target: none follows another token of its document, "
                       "or all are marked as given",
                       file->path, (long long)begin, (long long)end);
    const int64_t pieces = p.pieces, numbers = 3 * pieces + 2 * length + 3 + length / 64 + 1;
    p.piece = allocate_zeros(p.ctx, pieces, sizeof *p.piece);
    int64_t *memory = p.piece ? allocate_zeros(p.ctx, numbers, sizeof *memory) : NULL;
    th_status status = memory ? find_pieces(&p) : th_error_code(p.ctx);
    if (status == TH_OK)
        status = place_all_pieces(&p, memory, packing);
    if (memory)
        th_release(p.ctx, memory, (size_t)numbers * sizeof *memory);
    if (p.piece)
        th_release(p.ctx, p.piece, (size_t)pieces * sizeof *p.piece);
    if (status != TH_OK)
        th_packing_free(p.ctx, packing);
    return status;
}

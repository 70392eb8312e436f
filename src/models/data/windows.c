/* Reads windows of a token file, in order or shuffled. The order is computed from the seed and the epoch, so only the
 * position is stored. */
#include <string.h>

#include "models/core/context.h"
#include "models/core/tensors.h"
#include "models/data/packing.h"
#include "models/data/permutation.h"
#include "models/data/token_file.h"

struct th_windows {
    th_context *ctx;
    th_token_file *file;
    int64_t first_token, token_count; /* of the range */
    int64_t length;                   /* tokens of a window */
    bool shuffle, packed;
    uint64_t seed;
    th_packing packing;
    th_windows_position position;
    /* computed for the epoch of the position */
    th_permutation order;
    int64_t window_offset, window_count; /* where the first window begins in the range; the number of windows */
};

static const char operation[] = "windows";
static const int64_t max_epoch = INT64_MAX / 2; /* the next epoch must not overflow */

static void begin_epoch(th_windows *w, int64_t epoch)
{
    w->position = (th_windows_position){.epoch = epoch};
    w->window_count = w->packed ? w->packing.windows : (w->token_count - 1 + w->length - 1) / w->length;
    if (!w->shuffle)
        return;
    if (!w->packed) {
        const th_permutation draws = th_permutation_make(w->seed, (uint64_t)epoch, 1);
        w->window_offset =
            (int64_t)th_permutation_draw(&draws, (uint64_t)th_smaller(w->length, w->token_count - w->length));
        w->window_count = (w->token_count - 1 - w->window_offset) / w->length;
    }
    w->order = th_permutation_make(w->seed, (uint64_t)epoch, (uint64_t)w->window_count);
}

/* -- creating -- */

static void release(th_context *ctx, void *object)
{
    th_windows *w = object;
    th_packing_free(ctx, &w->packing);
    th_token_file_drop(w->file);
    th_release(ctx, w, sizeof *w);
}

static th_status check_options(const th_token_file *f, const th_windows_options *o, int64_t end)
{
    if (o->length < 1 || o->length > INT32_MAX)
        return th_fail(f->ctx, TH_ERROR_ARGUMENT, operation, "the length of a window must be positive; it is %lld",
                       (long long)o->length);
    if (o->begin < 0 || end < o->begin || end > f->header.count)
        return th_fail(f->ctx, TH_ERROR_ARGUMENT, operation, "tokens %lld to %lld are outside %.300s, which has %lld",
                       (long long)o->begin, (long long)end, f->path, (long long)f->header.count);
    if (o->pack && !f->header.marked)
        return th_fail(f->ctx, TH_ERROR_ARGUMENT, operation, "%.300s has no marks, so its documents cannot be packed",
                       f->path);
    const int64_t needed = o->shuffle && !o->pack ? o->length + 1 : 2;
    if (end - o->begin < needed)
        return th_fail(f->ctx, TH_ERROR_ARGUMENT, operation,
                       "the range in %.300s has %lld tokens, but %s%lld need %lld, including the last target", f->path,
                       (long long)(end - o->begin), needed > 2 ? "windows of length " : "even windows of length ",
                       (long long)(needed - 1), (long long)needed);
    return TH_OK;
}

th_windows *th_windows_new(th_token_file *f, const th_windows_options *options)
{
    const th_windows_options o = options ? *options : (th_windows_options){0};
    if (f == NULL) {
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the file is NULL");
        return NULL;
    }
    th_context *ctx = f->ctx;
    const int64_t end = o.end ? o.end : f->header.count;
    if (th_failed(ctx) || check_options(f, &o, end) != TH_OK)
        return NULL;
    th_windows *w = th_allocate(ctx, sizeof *w);
    if (w == NULL || !th_attach_object(ctx, w, release)) {
        th_release(ctx, w, sizeof *w);
        th_fail_memory(ctx, operation, sizeof *w);
        return NULL;
    }
    *w = (th_windows){.ctx = ctx,
                      .file = f,
                      .first_token = o.begin,
                      .token_count = end - o.begin,
                      .length = o.length,
                      .shuffle = o.shuffle,
                      .packed = o.pack,
                      .seed = o.seed};
    f->references++;
    if (o.pack && th_pack(f, o.begin, end, o.length, &w->packing) != TH_OK) {
        th_windows_free(w);
        return NULL;
    }
    begin_epoch(w, 0);
    return w;
}

void th_windows_free(th_windows *w)
{
    if (w == NULL)
        return;
    th_detach_object(w->ctx, w);
    release(w->ctx, w);
}

/* -- the position -- */

int64_t th_windows_count(const th_windows *w)
{
    return w ? w->window_count : 0;
}

int64_t th_windows_targets(const th_windows *w)
{
    if (w == NULL || w->packed)
        return w ? w->packing.targets : 0;
    const int64_t first = w->first_token + w->window_offset + 1;
    return th_token_file_count_unmarked(
        w->file, first, w->shuffle ? first + w->window_count * w->length : w->first_token + w->token_count);
}

th_windows_position th_windows_where(const th_windows *w)
{
    return w ? w->position : (th_windows_position){0};
}

th_status th_windows_go_to(th_windows *w, th_windows_position position)
{
    if (w == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, operation, "the windows are NULL");
    if (th_failed(w->ctx))
        return th_error_code(w->ctx);
    if (position.epoch < 0 || position.epoch > max_epoch)
        return th_fail(w->ctx, TH_ERROR_ARGUMENT, operation, "the epoch must be 0 to %lld; it is %lld",
                       (long long)max_epoch, (long long)position.epoch);
    const th_windows_position before = w->position;
    begin_epoch(w, position.epoch);
    if (position.index >= 0 && position.index <= w->window_count) {
        w->position.index = position.index;
        return TH_OK;
    }
    const int64_t count = w->window_count;
    begin_epoch(w, before.epoch);
    w->position = before;
    return th_fail(w->ctx, TH_ERROR_ARGUMENT, operation, "the next window of epoch %lld must be 0 to %lld; it is %lld",
                   (long long)position.epoch, (long long)count, (long long)position.index);
}

th_status th_windows_skip(th_windows *w, int64_t count)
{
    if (w == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, operation, "the windows are NULL");
    if (th_failed(w->ctx))
        return th_error_code(w->ctx);
    if (count < 0)
        return th_fail(w->ctx, TH_ERROR_ARGUMENT, operation,
                       "the number of windows to skip must be 0 or more; it is %lld", (long long)count);
    while (count > 0) {
        if (w->position.index == w->window_count)
            begin_epoch(w, w->position.epoch + 1);
        const int64_t passed = th_smaller(count, w->window_count - w->position.index);
        w->position.index += passed;
        count = w->shuffle ? count - passed : 0; /* in order, a batch ends with its epoch */
    }
    return TH_OK;
}

/* -- the next batch -- */

/* The memory of a batch, or of one of its rows; all NULL in a shapes-only context. */
typedef struct batch_memory {
    int32_t *tokens, *targets;
    int32_t *starts; /* or NULL */
} batch_memory;

/* Pads a row, starting at place `from`. */
static void pad_row(const th_windows *w, int64_t from, batch_memory row)
{
    for (int64_t i = from; i < w->length; i++) {
        row.tokens[i] = 0;
        row.targets[i] = TH_NO_TARGET;
        if (row.starts)
            row.starts[i] = (int32_t)i;
    }
}

/* Excludes the targets that their marks exclude, and finds where documents begin. `at`: the token at place `from`. */
static th_status apply_marks(const th_windows *w, int64_t at, int64_t from, int64_t count, batch_memory row)
{
    enum { SOME = 4096 };
    unsigned char marks[SOME + 1];
    int32_t start = (int32_t)from;
    for (int64_t i = 0, n; i < count; i += n) {
        n = th_smaller(count - i, SOME);
        if (th_token_file_get_marks(w->file, at + i, n + 1, marks) != TH_OK)
            return th_error_code(w->ctx);
        for (int64_t k = 0; k < n; k++) {
            const int64_t place = from + i + k;
            start = marks[k] & TH_TOKEN_BEGINS ? (int32_t)place : start;
            if (row.starts)
                row.starts[place] = start;
            if (marks[k + 1])
                row.targets[place] = TH_NO_TARGET;
        }
    }
    return TH_OK;
}

/* Writes `count` tokens from token `at` of the file on, and their targets, to the places from `from` on. */
static bool fill_places(const th_windows *w, int64_t at, int64_t from, int64_t count, batch_memory row)
{
    return th_token_file_get(w->file, at, count, row.tokens + from) == TH_OK &&
           th_token_file_get(w->file, at + 1, count, row.targets + from) == TH_OK &&
           ((row.starts == NULL && !w->file->header.marked) || apply_marks(w, at, from, count, row) == TH_OK);
}

/* Writes the next window into a row, and pads it. Returns false with the error pending. */
static bool fill_row(const th_windows *w, batch_memory row)
{
    const int64_t index = w->position.index;
    const int64_t window = w->shuffle ? (int64_t)th_permutation_at(&w->order, (uint64_t)index) : index;
    if (!w->packed) {
        const int64_t at = w->window_offset + window * w->length,
                      count = th_smaller(w->length, w->token_count - 1 - at);
        pad_row(w, count, row);
        return fill_places(w, w->first_token + at, 0, count, row);
    }
    int64_t place = 0;
    for (int64_t i = w->packing.begin[window]; i < w->packing.begin[window + 1]; i++) {
        const th_packed_piece piece = w->packing.piece[i];
        if (!fill_places(w, piece.first, place, piece.places, row))
            return false;
        place += piece.places;
    }
    pad_row(w, place, row);
    return true;
}

/* Writes a batch of rows. Returns false with the error pending. */
static bool fill_rows(th_windows *w, int64_t rows, batch_memory all)
{
    if (w->position.index == w->window_count)
        begin_epoch(w, w->position.epoch + 1);
    for (int64_t r = 0; r < rows; r++) {
        const size_t at = (size_t)(r * w->length);
        batch_memory row = {0};
        if (all.tokens)
            row = (batch_memory){all.tokens + at, all.targets + at, all.starts ? all.starts + at : NULL};
        if (w->position.index == w->window_count && w->shuffle)
            begin_epoch(w, w->position.epoch + 1);
        if (w->position.index == w->window_count && row.tokens)
            pad_row(w, 0, row);
        if (w->position.index == w->window_count)
            continue;
        if (row.tokens && !fill_row(w, row))
            return false;
        w->position.index++;
    }
    return true;
}

static th_status check_operand(const th_windows *w, const th_tensor *handle, const char *name, int64_t *batch)
{
    const th_tensor_impl *t = th_usable_tensor(handle, w->ctx, operation, name);
    if (t == NULL)
        return th_error_code(w->ctx);
    const th_array a = th_tensor_array(t);
    if (t->dtype != TH_INT32)
        return th_fail(w->ctx, TH_ERROR_TYPE, operation, "%s must be int32; they are %s", name,
                       th_dtype_name(t->dtype));
    if (t->ndim != 2 || t->size[1] != w->length || (*batch >= 0 && t->size[0] != *batch) ||
        !th_strides_are_contiguous(t->ndim, t->size, t->stride))
        return th_fail(w->ctx, TH_ERROR_SHAPE, operation,
                       "tokens and targets must be (B, T=%lld), the same B, and contiguous; %s are %s",
                       (long long)w->length, name, TH_TEXT(&a));
    *batch = t->size[0];
    return TH_OK;
}

/* Writes the next batch; starts may be NULL. */
static th_status next_batch(th_windows *w, th_tensor *tokens, th_tensor *targets, th_tensor *starts)
{
    int64_t rows = -1;
    if (th_failed(w->ctx) || check_operand(w, tokens, "tokens", &rows) != TH_OK ||
        check_operand(w, targets, "targets", &rows) != TH_OK ||
        (starts && check_operand(w, starts, "starts", &rows) != TH_OK))
        return th_error_code(w->ctx);
    const bool data = !th_is_shapes_only(w->ctx);
    const batch_memory all = {data ? th_data(tokens) : NULL, data ? th_data(targets) : NULL,
                              data && starts ? th_data(starts) : NULL};
    const th_windows_position before = w->position;
    if (fill_rows(w, rows, all))
        return TH_OK;
    begin_epoch(w, before.epoch);
    w->position = before;
    return th_error_code(w->ctx);
}

th_status th_windows_next(th_windows *w, th_tensor *tokens, th_tensor *targets)
{
    if (w == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, operation, "the windows are NULL");
    return next_batch(w, tokens, targets, NULL);
}

th_status th_windows_next_packed(th_windows *w, th_tensor *tokens, th_tensor *targets, th_tensor *starts)
{
    if (w == NULL || starts == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, operation, "the windows or the starts are NULL");
    return next_batch(w, tokens, targets, starts);
}

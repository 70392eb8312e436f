/* Reads windows of a token file, in order or shuffled. The order is computed from the seed and the epoch, so only the
 * position is stored. */
#include <string.h>

#include "models/core.h"
#include "models/data/permutation.h"
#include "models/data/token_file.h"

struct th_windows {
    th_context *ctx;
    th_token_file *file;
    int64_t begin, tokens, length; /* first token of the range, its number of tokens, tokens of a window */
    bool shuffle;
    uint64_t seed;
    th_windows_position position;
    /* computed for the epoch of the position */
    th_permutation order;
    int64_t offset, count; /* first token of the range's first window; number of windows */
};

static const char operation[] = "windows";
static const int64_t max_epoch = INT64_MAX / 2; /* the next epoch must not overflow */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void begin_epoch(th_windows *w, int64_t epoch)
{
    w->position = (th_windows_position){.epoch = epoch};
    w->count = (w->tokens - 1 + w->length - 1) / w->length;
    if (!w->shuffle)
        return;
    const th_permutation any = th_permutation_make(w->seed, (uint64_t)epoch, 1);
    w->offset = (int64_t)th_permutation_draw(&any, (uint64_t)least(w->length, w->tokens - w->length));
    w->count = (w->tokens - 1 - w->offset) / w->length;
    w->order = th_permutation_make(w->seed, (uint64_t)epoch, (uint64_t)w->count);
}

/* -- creating -- */

static void release(th_context *ctx, void *object)
{
    th_windows *w = object;
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
    const int64_t needed = o->shuffle ? o->length + 1 : 2;
    if (end - o->begin < needed)
        return th_fail(f->ctx, TH_ERROR_ARGUMENT, operation,
                       "the range in %.300s has %lld tokens, but %s%lld need %lld, including the last target", f->path,
                       (long long)(end - o->begin), o->shuffle ? "windows of length " : "even windows of length ",
                       (long long)(o->shuffle ? o->length : 1), (long long)needed);
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
    if (w == NULL || !th_attach(ctx, w, release)) {
        th_release(ctx, w, sizeof *w);
        th_fail_memory(ctx, operation, sizeof *w);
        return NULL;
    }
    *w = (th_windows){.ctx = ctx,
                      .file = f,
                      .begin = o.begin,
                      .tokens = end - o.begin,
                      .length = o.length,
                      .shuffle = o.shuffle,
                      .seed = o.seed};
    f->holds++;
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
    return w ? w->count : 0;
}

int64_t th_windows_targets(const th_windows *w)
{
    return w ? (w->shuffle ? w->count * w->length : w->tokens - 1) : 0;
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
    if (position.index >= 0 && position.index <= w->count) {
        w->position.index = position.index;
        return TH_OK;
    }
    const int64_t count = w->count;
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
        if (w->position.index == w->count)
            begin_epoch(w, w->position.epoch + 1);
        const int64_t passed = least(count, w->count - w->position.index);
        w->position.index += passed;
        count = w->shuffle ? count - passed : 0; /* in order, a batch ends with its epoch */
    }
    return TH_OK;
}

/* -- the next batch -- */

/* Pads a row, starting at token `from`. */
static void pad_row(const th_windows *w, int64_t from, int32_t *tokens, int32_t *targets)
{
    for (int64_t i = from; i < w->length; i++) {
        tokens[i] = 0;
        targets[i] = TH_NO_TARGET;
    }
}

/* Writes the next window into a row of each tensor, and pads it after the end of the range. Returns false
 * with the error stored. */
static bool fill_row(th_windows *w, int32_t *tokens, int32_t *targets)
{
    const int64_t index = w->position.index;
    const int64_t window = w->shuffle ? (int64_t)th_permutation_at(&w->order, (uint64_t)index) : index;
    const int64_t at = w->offset + window * w->length, count = least(w->length, w->tokens - 1 - at);
    pad_row(w, count, tokens, targets);
    return th_token_file_get(w->file, w->begin + at, count, tokens) == TH_OK &&
           th_token_file_get(w->file, w->begin + at + 1, count, targets) == TH_OK;
}

/* Writes a batch of rows; tokens is NULL in a shapes-only context. Returns false with the error stored. */
static bool fill_rows(th_windows *w, int64_t batch, int32_t *tokens, int32_t *targets)
{
    if (w->position.index == w->count)
        begin_epoch(w, w->position.epoch + 1);
    for (int64_t row = 0; row < batch; row++) {
        const size_t at = (size_t)(row * w->length);
        if (w->position.index == w->count && w->shuffle)
            begin_epoch(w, w->position.epoch + 1);
        if (w->position.index == w->count && tokens)
            pad_row(w, 0, tokens + at, targets + at);
        if (w->position.index == w->count)
            continue;
        if (tokens && !fill_row(w, tokens + at, targets + at))
            return false;
        w->position.index++;
    }
    return true;
}

static th_status check_operand(const th_windows *w, const th_tensor *handle, const char *name, int64_t *batch)
{
    const th_tensor_impl *t = th_usable(handle, w->ctx, operation, name);
    if (t == NULL)
        return th_error_code(w->ctx);
    const th_array a = th_tensor_array(t);
    if (t->dtype != TH_INT32)
        return th_fail(w->ctx, TH_ERROR_TYPE, operation, "%s must be int32; they are %s", name,
                       th_dtype_name(t->dtype));
    if (t->ndim != 2 || t->size[1] != w->length || (*batch >= 0 && t->size[0] != *batch) ||
        !th_strides_contiguous(t->ndim, t->size, t->stride))
        return th_fail(w->ctx, TH_ERROR_SHAPE, operation,
                       "tokens and targets must be (B, T=%lld), the same B, and contiguous; %s are %s",
                       (long long)w->length, name, TH_TEXT(&a));
    *batch = t->size[0];
    return TH_OK;
}

th_status th_windows_next(th_windows *w, th_tensor *tokens, th_tensor *targets)
{
    if (w == NULL)
        return th_fail_last(TH_ERROR_ARGUMENT, operation, "the windows are NULL");
    int64_t batch = -1;
    if (th_failed(w->ctx) || check_operand(w, tokens, "tokens", &batch) != TH_OK ||
        check_operand(w, targets, "targets", &batch) != TH_OK)
        return th_error_code(w->ctx);
    const bool data = !th_is_shapes_only(w->ctx);
    int32_t *token = data ? th_data(tokens) : NULL, *target = data ? th_data(targets) : NULL;
    const th_windows_position before = w->position;
    if (fill_rows(w, batch, token, target))
        return TH_OK;
    begin_epoch(w, before.epoch);
    w->position = before;
    return th_error_code(w->ctx);
}

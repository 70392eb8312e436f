/* Loops on the thread team. */
#include "tensor/threaded_loop.h"

#include "kernels/machine/parallel.h"
#include "kernels/sizes.h"
#include "tensor/context_struct.h"

enum {
    TH_PIECE = 16384,       /* elements of a piece, or the cost of a chunk of rows */
    TH_SERIAL_BELOW = 20000 /* with fewer elements, waking the team takes longer than the work */
};

typedef struct pieces {
    int64_t count;
    th_piece_task *task;
    const void *shared;
} pieces;

static void run_piece(void *shared, int64_t index, int worker)
{
    (void)worker;
    const pieces *work = shared;
    const int64_t begin = index * TH_PIECE;
    work->task(work->shared, begin, th_smaller(begin + TH_PIECE, work->count));
}

void th_for_pieces(const th_context *ctx, int64_t count, th_piece_task *task, const void *shared)
{
    if (count < TH_SERIAL_BELOW) {
        task(shared, 0, count);
        return;
    }
    pieces work = {count, task, shared};
    th_parallel(ctx->threads, th_ceil_div(count, TH_PIECE), run_piece, &work);
}

typedef struct rows_work {
    int64_t rows, chunk;
    th_rows_task *task;
    void *shared;
} rows_work;

static void run_rows(void *shared, int64_t index, int worker)
{
    const rows_work *work = shared;
    const int64_t first = index * work->chunk;
    work->task(work->shared, first, th_smaller(first + work->chunk, work->rows), worker);
}

void th_for_rows(const th_context *ctx, int64_t rows, int64_t cost_per_row, th_rows_task *task, void *shared)
{
    if (rows <= 0 || ctx->options.shapes_only)
        return;
    const int64_t cost = th_larger(cost_per_row, 1);
    rows_work work = {rows, th_ceil_div(TH_PIECE, cost), task, shared};
    const bool serial = rows < TH_SERIAL_BELOW && rows * th_smaller(cost, TH_SERIAL_BELOW) < TH_SERIAL_BELOW;
    th_parallel(serial ? 1 : ctx->threads, th_ceil_div(rows, work.chunk), run_rows, &work);
}

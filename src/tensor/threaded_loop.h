/* Loops over elements or rows, cut into pieces for the context's thread team. The cuts depend only on sizes, never on
 * the number of threads. */
#ifndef TH_TENSOR_THREADED_LOOP_H
#define TH_TENSOR_THREADED_LOOP_H

#include "tapehead/base.h"

/* Handles elements begin to end - 1. */
typedef void th_piece_task(const void *shared, int64_t begin, int64_t end);
/* Runs task over elements 0 to count - 1: in pieces of TH_PIECE elements on the team, or in one call if there are
 * few. */
void th_for_pieces(const th_context *ctx, int64_t count, th_piece_task *task, const void *shared);

/* Handles rows first to end - 1. worker is less than th_threads; a task uses it to find its own scratch memory. */
typedef void th_rows_task(void *shared, int64_t first, int64_t end, int worker);
/* Runs task over rows 0 to rows - 1 in chunks on the team. cost_per_row is in units of one simple pass over one
 * element. Runs nothing in a shapes-only context. */
void th_for_rows(const th_context *ctx, int64_t rows, int64_t cost_per_row, th_rows_task *task, void *shared);

#endif

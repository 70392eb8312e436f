/* The two passes of attention's backward: the gradients of q, k and v (attention_backward.c), and the gradient of the
 * additive mask (attention_mask_gradient.c). Both compute tiles (attention_backward_tile.c). */
#ifndef TH_KERNELS_ATTENTION_ATTENTION_BACKWARD_H
#define TH_KERNELS_ATTENTION_ATTENTION_BACKWARD_H

#include "kernels/attention/attention_tile.h"

enum { KEY_BLOCK = 256 };

/* The memory of one worker for one tile. */
typedef struct backward_memory {
    attention_copy q, o, o_gradient;       /* (query_block, D), (query_block, Dv) twice */
    attention_copy k;                      /* (KEY_BLOCK, D) */
    attention_operand k_lines, v_lines;    /* (KEY_BLOCK, D), (KEY_BLOCK, Dv) */
    attention_copy k_gradient, v_gradient; /* (KEY_BLOCK, D), (KEY_BLOCK, Dv) */
    attention_copy q_gradient;             /* (query_block, D) */
    attention_buffer weights;              /* (query_block, KEY_BLOCK): Q Kᵀ, later P */
    attention_buffer pair_gradient;        /* (query_block, KEY_BLOCK): dP, later dS or scale dX */
    char *log_sum_exp, *delta;             /* (query_block) */
} backward_memory;

/* Reserves the memory of a worker in `workspace`; returns its bytes. */
size_t th_attention_reserve_backward(const attention_problem *p, void *workspace, backward_memory *m);

/* Loads keys and values start .. start + count - 1. */
void th_attention_load_keys(const attention_problem *p, backward_memory *m, const attention_head *head, int64_t start,
                            int64_t count);

/* Loads the operands of a tile's queries that both passes need. Computes P in m->weights. If wants_gradient, computes
 * dS in m->pair_gradient or, if of_products, the gradient of the products Q Kᵀ, which is scale dX. */
void th_attention_tile_gradient(const attention_problem *p, backward_memory *m, const attention_head *head,
                                const attention_tile *tile, bool of_products, bool wants_gradient);

/* The gradients of the additive mask and of the slopes. Each worker has worker_bytes of workspace for its
 * backward_memory. */
void th_attention_mask_gradient(const attention_problem *p, int threads, void *workspace, size_t worker_bytes);

#endif

/* The moments of an optimizer, with the memory of its outer steps. They have the layout of the parameter blocks, so
 * parameters that are adjacent in memory have adjacent moments. */
#ifndef TH_TRAINING_MOMENTS_H
#define TH_TRAINING_MOMENTS_H

#include "training/optimizer.h"

/* A parameter that the rule updates as whole matrices: bytes begin to end - 1 of a block. */
typedef struct th_matrix_range {
    size_t begin, end;
} th_matrix_range;

/* The moments of the parameters in a block. Each process of a group owns a part of the block: bytes cut[rank] to
 * cut[rank + 1] - 1. It has the moments of its part, which it updates. With local steps (shared/outer_step.h) it updates the
 * whole block, and has all moments. A moment has the layout of what the process updates, without the matrices that do not
 * have this moment. */
struct th_moments {
    th_parameter_block *block;
    size_t bytes;      /* of the block when the moments were made */
    size_t *cut;       /* [size of the group + 1], multiples of a cache line, from 0 to bytes */
    size_t begin, end; /* what this process updates in a step */
    void *moment[TH_MAX_MOMENTS];
    int matrix_moments;      /* how many of them matrices have */
    th_matrix_range *matrix; /* [n_matrices] */
    int64_t n_matrices;
    void *start;    /* with local steps: the block's parameters before the first of them, `bytes` bytes */
    void *velocity; /* of the outer step, of the part that this process owns; NULL without momentum */
    struct th_moments *next;
};

/* Allocates moments, and what the outer step keeps, for the blocks with a parameter that is not frozen or
 * `has_saved_moments`. After an error nothing has changed. */
TH_PRIVATE_API th_status th_moments_ensure(th_optimizer *o);
/* Allocates moments, zeros, for all parameters that the block holds now, unless it has them. The caller adopts or
 * discards them. TH_ERROR_STATE if the block has shorter ones that cannot grow: several processes share them, or an
 * outer step keeps more. */
th_status th_moments_reserve(th_optimizer *o, th_parameter_block *block);
/* Uses the reserved moments. They replace shorter ones of the same blocks, with their values. */
void th_moments_adopt_reserved(th_optimizer *o);
/* Frees the reserved moments. */
void th_moments_discard_reserved(th_optimizer *o);
/* Converts the parameter's moments into the moments of its successor's block. */
void th_moments_move(th_optimizer *o, th_optimizer_parameter *p);
/* Limits the values of moment i of a parameter (contiguous) to the largest that a step can produce. For moments from a
 * file or of another type. NaN does not change. */
void th_moments_limit(const th_optimizer *o, int i, const th_array *moment);
/* Returns the offset in moment i of what is at `offset` of the block, between begin and end. */
size_t th_moment_offset(const th_moments *m, int i, size_t offset);
/* This process's part of moment i of parameter p: bytes begin to end - 1 of the moment are at data. begin = end if the
 * process has nothing of it. */
typedef struct th_moment_part {
    char *data; /* NULL before the first step, and in a shapes-only context */
    size_t begin, end;
} th_moment_part;
th_moment_part th_moment_part_of(const th_optimizer_parameter *p, int i);
/* Returns which part of every moment that p has process `rank` has. data is NULL. */
th_moment_part th_moment_part_of_rank(const th_optimizer_parameter *p, int rank);
/* This process's part of the parameter's velocity of outer steps. */
th_moment_part th_velocity_part_of(const th_optimizer *o, const th_optimizer_parameter *p);
/* Sets the parameter's moments and velocity to zero, as gaps between parameters are. */
void th_moments_clear(const th_optimizer *o, const th_optimizer_parameter *p);
/* Frees the moments of blocks that no parameter of o uses any more. */
void th_moments_drop_unused(th_optimizer *o);
/* Frees all moments. */
void th_moments_destroy(th_optimizer *o);

#endif

/* The tensors of each parameter that a checkpoint saves: the optimizer's moments. With local steps (shared/outer_step.h) every
 * worker has its own moments. Their tensors follow one another, worker after worker. The last two tensors are the numbers
 * of steps that the workers have taken, and the velocity of the outer step. A process has a part of each tensor: bytes
 * begin to end - 1. */
#ifndef TH_TRAINING_SAVED_TENSORS_H
#define TH_TRAINING_SAVED_TENSORS_H

#include "private_api.h"
#include "training/moments.h"

enum { TH_SAVED_NAME_SIZE = 48 };

/* Returns the number of tensors of parameter p. */
TH_PRIVATE_API int th_saved_tensor_count(const th_optimizer *o, int64_t p);
/* Writes the name of tensor k of parameter p: "exp_avg", ..., and for workers other than the first "worker1.exp_avg", ...;
 * "worker_steps", "outer_velocity". */
TH_PRIVATE_API void th_saved_tensor_name(const th_optimizer *o, int64_t p, int k, char name[TH_SAVED_NAME_SIZE]);
/* Returns tensor k of parameter p, with type and shape. data is this process's part; NULL before the first step. */
TH_PRIVATE_API th_array th_saved_tensor(const th_optimizer *o, int64_t p, int k);
/* Returns which part of tensor k the process `rank` has. data is NULL. begin = end: none. */
TH_PRIVATE_API th_moment_part th_saved_tensor_part_of_rank(const th_optimizer *o, int64_t p, int k, int rank);
/* Returns this process's part. */
TH_PRIVATE_API th_moment_part th_saved_tensor_part(const th_optimizer *o, int64_t p, int k);
/* Limits the values of a part of tensor k that was read, contiguous, to those that steps can produce. */
TH_PRIVATE_API void th_saved_tensor_limit(const th_optimizer *o, int64_t p, int k, const th_array *read);
/* Returns how often parameter p was updated: by steps, or with local steps by outer steps. If it is 0, a checkpoint has
 * no tensors for the parameter. All processes return the same. */
TH_PRIVATE_API int64_t th_saved_updates(const th_optimizer *o, int64_t p);

#endif

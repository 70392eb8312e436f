/* The state of training for the second library: optimizers, saved tensors, random numbers, groups of processes. */
#ifndef TH_MODELS_CORE_TRAINING_H
#define TH_MODELS_CORE_TRAINING_H

#include "processes/group.h"
#include "tensor/random_state.h"
#include "training/moments.h"
#include "training/optimizer.h"
#include "training/saved_state.h"
#include "training/saved_tensors.h"
#include "training/shared/shards.h"
#include "training/weight_average.h"

#endif

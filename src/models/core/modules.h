/* Modules for the second library: layers, adapters, caches, positions, and marks within a step. */
#ifndef TH_MODELS_CORE_MODULES_H
#define TH_MODELS_CORE_MODULES_H

#include "autograd/tape.h"
#include "nn/cache.h"
#include "nn/head.h"
#include "nn/lora.h"
#include "nn/module.h"
#include "nn/score_options.h"
#include "ops/shared/rotary_scaling.h"

#endif

/* Tapehead: tensors on a tape, exact gradients, and what it takes to train small transformers on a CPU.
 *
 * Seven contracts hold for the whole library.
 *
 * 1. Context. One th_context for each thread of control owns the tape, the memory of the current step, the random
 * streams, the mode and the first error. There is no global state but this: of each thread the caller's source line,
 * the context used last and its team of threads; of the process the lists of live contexts and of teams, the number of
 * threads that compute, and OpenBLAS once it was asked for. Tensors know their context.
 *
 * 2. Ownership. What an operation returns, views included, and what is created inside a forward, or between
 * th_step_begin and th_tape_clear, belongs to the tape and ends at th_tape_clear. What you create elsewhere you own:
 * free it, or the context does at its end. So begin each turn of a loop that creates tensors with th_step_begin. th_keep
 * makes an owned copy. When a module's forward (or a scope of your own) ends, every value but
 * its results is given up. A th_tensor * is a handle, a number that no other tensor gets and that leads nowhere by
 * itself: one used after its time (its scope's, its step's, its tensor's, its context's), however long after, is an
 * error, never a crash and never another tensor. Equal handles are the same tensor. A th_cache * is a handle too. All
 * other types are pointers, which must not be used after their context ended. A module, optimiser or tokenizer that was
 * freed before its context is recognised for a while (th_module_free). Once a step has been as large as it gets, a step
 * allocates nothing.
 *
 * 3. Errors. The library never exits, aborts or prints. The first error is stored in the context as a code and a
 * sentence with the operation, its operands, the numbers and your line. With an error pending every operation returns
 * NULL and does nothing; functions that end a chain return a status that must not be ignored. So a training step needs
 * one `if`. th_error_clear, th_tape_clear and every free work with an error pending.
 *
 * 4. Shapes. Row-major, dimension 0 outermost, NumPy broadcasting, negative axes, up to 8 dimensions, sizes of zero
 * legal. Views share memory and run no kernel, forward or backward: the gradient of a view is the same view of its
 * base's gradient.
 *
 * 5. Types. float32 and float64 compute, int32 and int64 index, bool masks. No implicit promotion: mixed types are an
 * error naming both.
 *
 * 6. Threads and bits. Same build, same seed: the same bits, in float32 and float64, at any number of threads and on
 * every x86-64 processor with fused multiply-add, whatever its libm; and what comes out for one row or sequence does
 * not depend on what else is in its batch. Random numbers are functions of (seed, stream, step, call within the step,
 * element). (Where OpenBLAS computes: the same machine, any number of threads.)
 *
 * 7. Numerics. No fast-math. Softmax, log-sum-exp and cross entropy are stable for any finite logits. No bit of
 * attention's output or gradient depends on a masked pair. Non-finite gradients are refused by the optimiser's step
 * before a single parameter changes.
 *
 * The headers are the manual; read them in this order. */
#ifndef TAPEHEAD_TAPEHEAD_H
#define TAPEHEAD_TAPEHEAD_H

/* what everything is made of */
#include "tapehead/base.h"
#include "tapehead/context.h"
#include "tapehead/tensor.h"

/* what is computed, and back */
#include "tapehead/ops.h"
#include "tapehead/tape.h"

/* what models are made of */
#include "tapehead/module.h"

#include "tapehead/layers.h"
#include "tapehead/transformer.h"

/* whole models: decoder-only; encoder-decoder; what both make */
#include "tapehead/language_model.h"

#include "tapehead/encoder_decoder.h"
#include "tapehead/generate.h"

/* training */
#include "tapehead/optimizer.h"

/* text, its tokens, and windows of them */
#include "tapehead/tokenizer.h"

#include "tapehead/token_file.h"

/* models in files: to go on with training; for others and from others */
#include "tapehead/checkpoint.h"
#include "tapehead/hugging_face.h"
#include "tapehead/safetensors.h"

/* what a run tells; arrays for NumPy */
#include "tapehead/files.h"
#include "tapehead/log.h"
#include "tapehead/picture.h"
#include "tapehead/progress.h"

/* operations of one's own, and checking gradients */
#include "tapehead/gradient_check.h"
#include "tapehead/op.h"

/* where the time goes */
#include "tapehead/profile.h"

#endif

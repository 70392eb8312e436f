/* Tapehead: tensors on a tape, exact gradients, and what it takes to train small transformers on a CPU.
 *
 * Seven contracts hold for the whole library.
 *
 * 1. Context. One th_context for each thread of control owns the tape, the memory of the current step, the random
 * streams, the mode and the first error. Tensors know their context. All other state is global: each thread has the
 * caller's source line, the context that it used last, and a team of threads. The process has the lists of live contexts
 * and of teams, the number of threads that compute, and OpenBLAS once a program has requested it.
 *
 * 2. Ownership. The tape owns the results of operations, views included, and tensors created inside a forward, or
 * between th_step_begin and th_tape_clear. They end at th_tape_clear. You own tensors that you create elsewhere: free
 * them, or the context does at its end. So begin each turn of a loop that creates tensors with th_step_begin. th_keep
 * makes an owned copy. When a module's forward (or your own scope) ends, the tape releases every value except its
 * results. A th_tensor * is a handle: a number that no other tensor gets, not an address. To use a handle after the end
 * of its scope, step, tensor or context is an error, however much later; it is never a crash, and never reaches another
 * tensor. Equal handles are the same tensor. A th_cache * is a handle too. All other types are pointers, which must not
 * be used after their context ended. A module, optimizer or tokenizer that was freed before its context is recognized
 * for a while (th_module_free). A step allocates nothing if an earlier step was as large.
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
 * attention's output or gradient depends on a masked pair. Non-finite gradients are refused by the optimizer's step
 * before a single parameter changes.
 *
 * The headers are the manual. This one includes both libraries: tapehead/core.h and tapehead/models.h. */
#ifndef TAPEHEAD_TAPEHEAD_H
#define TAPEHEAD_TAPEHEAD_H

#include "tapehead/core.h"

/* An installation with TAPEHEAD_MODELS=OFF has no second library. */
#if __has_include("tapehead/models.h")
#include "tapehead/models.h"
#endif

#endif

/* Tapehead: tensors, automatic differentiation on a tape, and small transformers on a CPU.
 *
 * Seven contracts hold for both libraries.
 *
 * 1. Context. A th_context owns the tape, the memory of the current step, the random streams, the mode and the first
 * error. Each thread of a program uses its own context. Tensors know their context. Little state is outside contexts. A
 * thread has the caller's source line, the context that it used last, and a team of threads. The process has lists of
 * contexts and teams, the number of threads that compute, and OpenBLAS once a program has requested it.
 *
 * 2. Ownership. The tape owns the results of operations, views included. It also owns tensors that are created
 * inside a forward, or between th_step_begin and th_tape_clear. th_tape_clear releases all of these. You own all
 * other tensors: free them, or th_context_free does. So call th_step_begin at the start of each iteration of a
 * loop that creates tensors. th_keep returns a copy that you own. When the forward of a module ends, or a scope of
 * yours, the tape releases all values except the results.
 *
 * A th_tensor * is a handle: a unique number, not an address. Equal handles are the same tensor. The use of a
 * handle after the end of its scope, step, tensor or context is always an error. It never crashes, and never
 * reaches another tensor. A th_cache * is a handle too. All other types are pointers: do not use them after their
 * context has ended. The library recognizes a module, optimizer or tokenizer for some time after it was freed
 * (th_module_free). A step allocates nothing if an earlier step was as large.
 *
 * 3. Errors. The library never exits, aborts or prints. The context stores the first error: a code, and a sentence with
 * the operation, its operands, the numbers and your line. While an error is pending, operations do nothing and return
 * NULL. Functions that end a chain of operations, such as th_backward and th_optimizer_step, return a status that you
 * must check. So a training step needs one `if`. th_error_clear, th_tape_clear and all functions that free work while
 * an error is pending. In a group of processes (tapehead/group.h), an error of one process becomes the error of all in
 * the next collective function.
 *
 * 4. Shapes. Tensors are row-major; dimension 0 is the outermost. Broadcasting is NumPy's. Negative axes count from
 * the end. A tensor has up to 8 dimensions, and sizes may be 0. Views share memory and run no kernel, forward or
 * backward: the gradient of a view is the same view of its base's gradient.
 *
 * 5. Types. Computation is in float32 and float64, indices are int32 and int64, masks are bool. Types are not
 * promoted: mixed types are an error that names both.
 *
 * 6. Threads and bits. The same build and seed give the same bits, in float32 and float64, with any number of
 * threads. This holds on every processor with fused multiply-add, with any libm: x86-64, aarch64, riscv64 and ppc64le.
 * Builds of one version by different compilers, for different systems, give the same bits too, if docs/abi.md names
 * them. The result for a row or sequence does not depend on the rest of its batch. Random numbers are functions of seed, stream, step, shard, call
 * within the step or shard, and element. With OpenBLAS the same bits hold for one machine, with any number of threads.
 * A step has the same bits with any number of processes that share its shards (tapehead/optimizer.h). They depend on
 * the number of shards. Only local steps (th_diloco_options) depend on the number of processes.
 *
 * 7. Numerics. No fast-math. Softmax, log-sum-exp and cross entropy are stable for all finite logits. No bit of
 * attention's output or gradient depends on a masked pair. An optimizer step with a non-finite gradient is refused
 * before any parameter changes.
 *
 * The headers are the manual. This one includes those of both libraries: tapehead/core.h and tapehead/models.h. A
 * program that calls a function of tapehead/models.h links both: -ltapehead_models -ltapehead. With the core alone the
 * linker reports "undefined reference to `th_generate'", or another such function. A program for the core alone
 * includes tapehead/core.h: then the compiler reports the function. */
#ifndef TAPEHEAD_TAPEHEAD_H
#define TAPEHEAD_TAPEHEAD_H

#include "tapehead/core.h"

/* An installation of the core alone has no models library. */
#if __has_include("tapehead/models.h")
#include "tapehead/models.h"
#endif

#endif

/* The context: memory, random streams, mode, the first error. Contracts 1, 2, 3 and 6 in tapehead.h. */
#ifndef TAPEHEAD_CONTEXT_H
#define TAPEHEAD_CONTEXT_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* The allocator of a context. Only the thread that uses the context calls it. */
typedef struct th_allocator {
    void *(*allocate)(void *user, size_t bytes);             /* returns memory aligned to 64 bytes, or NULL */
    void (*release)(void *user, void *memory, size_t bytes); /* gets the same size */
    void *user;
} th_allocator;

/* Options of th_context_new. All zero is the default. */
typedef struct th_context_options {
    uint64_t seed;
    /* Size of the thread team. 0: the processors of the affinity mask, or fewer if the control group's CPU quota
     * (rounded up), OMP_NUM_THREADS or OMP_THREAD_LIMIT is lower. */
    int threads;
    size_t memory_limit;    /* maximum bytes taken from the allocator (th_memory: reserved); 0: no limit */
    th_allocator allocator; /* all zero: aligned memory from the C library */
    th_dtype default_dtype; /* TH_FLOAT32 (zero) or TH_FLOAT64; as th_set_default_dtype */
    /* The context checks shapes, records, and counts memory, but runs no kernel and has no data. It forecasts the
     * memory (th_memory). */
    bool shapes_only;
    th_precision precision; /* as th_set_precision */
} th_context_options;

/* Creates a context. options may be NULL. Returns NULL only in these cases:
 *   - The allocator returns NULL or unaligned memory.
 *   - The limit is below what a context needs.
 *   - 4096 contexts exist.
 *   - The library was built for other processors. th_error_message(NULL) says so (TAPEHEAD_ISAS of the build).
 * If an option is illegal, or the environment (TAPEHEAD_ISA, TAPEHEAD_GEMM) requests something that the machine does
 * not have, the returned context has a pending error. Free it with th_context_free. */
TH_API th_context *th_context_new(const th_context_options *options) TH_MUST_CHECK;
/* Frees the context and everything that belongs to it: tensors, modules, optimizers. NULL is legal. Within a module's
 * forward, an operation's functions, or a function whose gradient is being checked, it sets TH_ERROR_STATE and
 * frees nothing. */
TH_API void th_context_free(th_context *ctx);

/* -- the first error -- */

/* Returns the code of the pending error; TH_OK if no error is pending. */
TH_API th_status th_error_code(const th_context *ctx);
/* Returns the message of the pending error; "" if no error is pending. Valid until the next error or th_error_clear.
 * It is safe to print, because names from files and paths are escaped: a control character appears as \u001b, a byte
 * that is not UTF-8 as \xff. Invisible characters and those that change the direction of text are escaped too. */
TH_API const char *th_error_message(const th_context *ctx);
/* Returns the message without the location, for a program to show to its users. Valid as long as the message. The
 * message is "TEXT; at LOCATION", or only TEXT if LOCATION is "". */
TH_API const char *th_error_text(const th_context *ctx);
/* Returns the location in the message, such as "copy_task.c:57", for developers. Valid as long as the message. */
TH_API const char *th_error_location(const th_context *ctx);
/* Clears the error. Operations compute again. */
TH_API void th_error_clear(th_context *ctx);

/* -- mode -- */

/* Switches between training (with dropout) and evaluation. A new context is in training. */
TH_API void th_set_training(th_context *ctx, bool training);
/* Returns true in training. */
TH_API bool th_is_training(const th_context *ctx);
/* Stops recording on the tape until the matching th_no_grad_end. Calls nest. If a forward did not call
 * th_no_grad_end, th_module_end does it. After a failed step, th_tape_clear does it. */
TH_API void th_no_grad_begin(th_context *ctx);
/* Ends the effect of the last th_no_grad_begin. */
TH_API void th_no_grad_end(th_context *ctx);
/* Returns true if operations are recorded. */
TH_API bool th_is_recording(const th_context *ctx);
/* Switches fused operations on (the default) or off. On: th_scaled_dot_product_attention computes in tiles, and
 * th_attend uses it. Transformer blocks add the residual in the last product of a branch, unless dropout acts there.
 * th_language_model_loss computes its classifier and the loss in one operation.
 *
 * Off: all of these run as the equivalent separate operations, so that every intermediate value exists and can be
 * printed. Gradients are the same up to rounding. Operations that you call by name, such as th_dense and
 * th_dense_cross_entropy, are one operation in both modes. */
TH_API void th_set_fusion(th_context *ctx, bool fusion);
/* Returns true if fused operations are on. */
TH_API bool th_has_fusion(const th_context *ctx);
/* Sets the precision of matrix products of float32 tensors from now on. It applies to th_matmul, th_masked_matmul,
 * th_dense, th_dense_cross_entropy, th_scaled_dot_product_attention and everything built on them, forward and
 * backward. Between the products of attention, values stay float32. float64 is never affected. A new context has
 * TH_PRECISION_FLOAT32. Errors: TH_ERROR_ARGUMENT for an invalid value.
 *
 * bf(x) rounds x to the nearest bfloat16 number, ties to even. A number that would overflow is truncated instead. A
 * number below the smallest normal number becomes 0 of the same sign. Infinity and NaN do not change. An operand x
 * becomes x1 = bf(x), and in bfloat16x3 also x2 = bf(x - x1); infinity and NaN have x2 = 0.
 *
 *     bfloat16     sums a1 b1                     the error of each term is at most 2^-7 of the term
 *     bfloat16x3   sums a1 b1 + a1 b2 + a2 b1     the error of each term is at most 2^-15 of the term
 *
 * In bfloat16x3, errors of random sign average out. The error of a sum of k terms is about 2^-17 / sqrt(k) of the sum
 * of their absolute values; the largest error among 10,000 sums is four times that. Sums of fewer than 64 terms are
 * computed in float32, except in attention and th_masked_matmul: there no bit of the result may depend on masked terms.
 *
 * Matrix units (Intel AMX) are fast in both. With fast dot products (AMD Zen 4 and later), bfloat16 is faster than
 * float32, and bfloat16x3 takes 1.5 times the time of float32. Other processors emulate them: bfloat16 takes about as
 * long as float32, and bfloat16x3 about three times as long. th_build_info says what is used. Neither precision saves
 * memory, because tensors stay float32. Neither makes generation faster: the time of a token is the time to read the
 * weights from memory. The bits are the same on all processors with fused multiply-add, at any number of threads and
 * in any batch. docs/precision.md has measurements.
 *
 * int8 applies only to x W^T with a W that is stored in blocks, such as TH_Q8_0 (th_dense, th_dense_cross_entropy, and
 * layers that call them). All other products are float32, and so are gradients. Each block of 32 numbers of a row of x
 * becomes integers n = round(127 x / most), times most / 127, where most is the largest |x| of the block. So each x
 * changes by at most most / 254. Products of integers are exact, and are added in float32. The result for a row does
 * not depend on other rows. If a block has infinity or NaN, its row of the result is NaN. Generation is then about as
 * fast as reading the stored weights.
 *
 * An operation keeps the precision in which it was recorded: its backward uses it, and so does recomputation. */
TH_API th_status th_set_precision(th_context *ctx, th_precision precision) TH_MUST_CHECK;
/* Returns the current precision. */
TH_API th_precision th_precision_of(const th_context *ctx);
/* Returns the time of a product in a precision on this machine, divided by its time in float32: 1.2 means that it takes
 * 1.2 times as long. It is measured with one thread, and the least of seven times counts. Bfloat16 precisions multiply
 * (256, 256) by (256, 256), as in training. int8 multiplies one row by 256 x 256 weights in TH_Q8_0, as in generation,
 * and so does float32 beside it. The first call for a precision takes about 20 ms and 800 KB; the context stores the
 * number for later calls. float32, and a context with shapes_only: 1. The precision of the context does not change.
 * Errors: 0, with TH_ERROR_ARGUMENT for an invalid value, TH_ERROR_MEMORY. */
TH_API double th_precision_time(th_context *ctx, th_precision precision);
/* Keeps all values of a step, for printing and teaching: with true, scopes release nothing and backward recomputes
 * nothing. */
TH_API void th_keep_values(th_context *ctx, bool keep);
/* Sets the type of new parameters and of tensors that are created without a type. Errors: TH_ERROR_TYPE unless it is
 * TH_FLOAT32 or TH_FLOAT64. */
TH_API th_status th_set_default_dtype(th_context *ctx, th_dtype dtype) TH_MUST_CHECK;
/* Returns the default type. */
TH_API th_dtype th_default_dtype(const th_context *ctx);

/* -- randomness --
 *
 * A context has three streams of random numbers: for data (th_uniform, th_normal, ...), for initialization (th_fill_*),
 * and for operations (dropout). Every number is a function of (seed, stream, step, shard, call within the step or
 * shard, element). Here step is the number of successful optimizer steps, and each stream counts its own calls. So one
 * stream never changes another. */

/* Sets the seed of all streams from now on. */
TH_API void th_set_seed(th_context *ctx, uint64_t seed);
/* Returns the number of successful optimizer steps. */
TH_API int64_t th_step(const th_context *ctx);
/* Sets the number of steps, to resume training. A negative number sets TH_ERROR_ARGUMENT. */
TH_API void th_set_step(th_context *ctx, int64_t step);

/* -- threads, version -- */

/* Returns the requested size of the thread team, or the default size. */
TH_API int th_threads(const th_context *ctx);
/* Requests a size of the thread team, 1 to 1024. Errors: TH_ERROR_ARGUMENT. */
TH_API th_status th_set_threads(th_context *ctx, int threads) TH_MUST_CHECK;
/* Returns the number of threads in the team of a parallel kernel: th_threads, but at most OMP_THREAD_LIMIT. It is
 * smaller while the system cannot create threads; the library tries again later. It is 1 in a process that was forked
 * from one with a team.
 *
 * OMP_PROC_BIND and OMP_PLACES bind the threads, except in a build without OpenMP (TAPEHEAD_OPENMP=OFF). Such a build
 * reads OMP_NUM_THREADS and OMP_THREAD_LIMIT when the library is loaded.
 *
 * Idle threads sleep. The threads block all signals except those of faults, such as SIGSEGV. They end with the thread
 * that uses the context, or when the program unloads the library. If a kernel has more threads than processors, the
 * extra ones take part only if it runs long. Fewer threads take part while other threads of the process compute,
 * because several contexts share the processors.
 *
 * A thread that the program cancels ends between two kernels, not in one, and holds no lock of the library.
 * (Functions that read or write files may leave an unfinished file.) A fork waits for locks that other threads hold. */
TH_API int th_team_size(const th_context *ctx);
/* Returns a description of the build and the machine, such as "tapehead 0.3.0 compiler=gcc 12.2.0 isa=avx512
 * gemm=native threads=2". With OpenBLAS it ends in "openblas=0.3.21 (Zen)". In a precision other than float32 it ends
 * in "precision=bfloat16x3 products=amx". The text is stored in the context and valid until it is freed.
 *
 * isa is the instruction set of vectors. products is what multiplies bfloat16 numbers: matrix units (amx), dot
 * products (avx512_bf16) or fused multiply-adds (fma). The library requests matrix units from the operating system
 * once, when a context first has such a precision. The environment variable TAPEHEAD_ISA selects amx, avx512_bf16,
 * avx512, avx2 or baseline; on aarch64, neon; on riscv64 and ppc64le, generic. If the machine does not have it, the
 * context's first error says so. */
TH_API const char *th_build_info(th_context *ctx);
/* Returns the version of the library, such as "0.3.0". */
TH_API const char *th_version(void);

/* -- memory, counted by the context -- */

/* The memory of a context. All values are stored in chunks. The context takes chunks from the allocator on demand and
 * holds them until th_context_free, so that later steps take none. reserved is more than live without mapped for three
 * reasons: a chunk is larger than the request that needed it, there are gaps between blocks, and memory for parameters
 * is taken before they are created, up to half as much again as they need. Pages of memory that no program has written
 * yet are not in the process's resident memory. */
typedef struct th_memory_usage {
    size_t live;          /* bytes in use: step values, owned tensors, parameters, gradients, moments, mapped */
    size_t peak;          /* maximum of live since th_context_new or th_memory_reset_peak */
    size_t reserved;      /* bytes taken from the allocator; memory_limit limits it */
    size_t reserved_peak; /* maximum of reserved since th_context_new or th_memory_reset_peak */
    size_t allocations;   /* number of calls of the allocator */
    size_t owned;         /* the part of live that belongs to tensors that you own; if it grows, see th_step_begin */
    size_t mapped;        /* the part of live that is in mapped files (tapehead/hugging_face.h); not in reserved */
} th_memory_usage;
/* Returns the memory in use, and the maximum so far.
 *
 * With shapes_only, a context counts exactly the bytes that the same calls would use (live) and take from the
 * allocator (reserved) in a context without shapes_only whose other options are equal. It really allocates only
 * handles and records. Run two steps, because the optimizer creates its moments at the end of the first one. Run also
 * everything else that the program does between steps, such as an evaluation or th_keep:
 *
 *     th_context_options options = {.seed = 1, .shapes_only = true};
 *     th_context *forecast = th_context_new(&options);
 *     two_steps_and_an_evaluation(forecast);
 *     options.memory_limit = th_memory(forecast).reserved_peak;
 *     options.shapes_only = false;
 *     th_context_free(forecast);
 *     th_context *ctx = th_context_new(&options);     (trains within the forecast)
 *
 * A memory_limit also applies in a context with shapes_only: its run fails where the real one would. */
TH_API th_memory_usage th_memory(const th_context *ctx);
/* Sets the maxima to the current values. */
TH_API void th_memory_reset_peak(th_context *ctx);

TH_END_DECLS

#endif

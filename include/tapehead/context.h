/* The context: memory, random streams, mode, the first error. Contracts 1, 2, 3 and 6 in tapehead.h. */
#ifndef TAPEHEAD_CONTEXT_H
#define TAPEHEAD_CONTEXT_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* Where a context gets its memory from. allocate returns memory aligned to 64 bytes, or NULL; release gets the same
 * size back. Both are called from the thread that uses the context only. */
typedef struct th_allocator {
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user;
} th_allocator;

typedef struct th_context_options {
    uint64_t seed;
    int threads; /* team size; 0: the processors of the affinity mask, or fewer where the control group's CPU quota
                    (rounded up), OMP_NUM_THREADS or OMP_THREAD_LIMIT say so */
    size_t memory_limit;    /* bytes taken from the allocator at most (reserved, below); 0: no limit */
    th_allocator allocator; /* all zero: aligned memory from the C library */
    th_dtype default_dtype; /* TH_FLOAT32 (zero) or TH_FLOAT64: of new parameters, and of creation without a type */
    bool shapes_only;       /* shape rules, recording and memory accounting; no kernel runs, no data exists: a forecast
                                of the memory, below */
    th_precision precision; /* as th_set_precision */
} th_context_options;

/* A new context; options may be NULL. NULL only when memory is out or not aligned, the limit is less than a context
 * takes, or 4096 contexts live. A wrong option, or an environment that asks for what the machine has not (TAPEHEAD_ISA,
 * TAPEHEAD_GEMM), is a pending error of the context returned. Free with th_context_free. */
TH_API th_context *th_context_new(const th_context_options *options) TH_MUST_CHECK;
/* Frees the context with everything that belongs to it: tensors, modules, optimizers. NULL is fine. Within a module's
 * forward, an operation's own functions, or a function whose gradient is being checked it is TH_ERROR_STATE, and
 * nothing is freed. */
TH_API void th_context_free(th_context *ctx);

/* -- the first error -- */
/* Its code; TH_OK when none is pending. */
TH_API th_status th_error_code(const th_context *ctx);
/* The message of the pending error; "" if no error is pending. Valid until the next error or th_error_clear. It is safe
 * to print: names from files and paths are escaped. A control character appears as \u001b, for example, and a byte that
 * is not UTF-8 as \xff. Invisible characters and those that change the direction of text are escaped too. */
TH_API const char *th_error_message(const th_context *ctx);
/* The two parts of the message, which stay valid as long as the message. It is "TEXT; at LOCATION", or TEXT alone if
 * LOCATION is "". A program shows the text to its users and the location, such as "copy_task.c:57", to its
 * developers. */
TH_API const char *th_error_text(const th_context *ctx);
TH_API const char *th_error_location(const th_context *ctx);
/* Forgets it: what follows is computed again. */
TH_API void th_error_clear(th_context *ctx);

/* -- mode -- */
/* Training (dropout acts) or evaluation. A new context is in training. */
TH_API void th_set_training(th_context *ctx, bool training);
TH_API bool th_is_training(const th_context *ctx);
/* Recording off, as a scope: begin and end nest. What a forward, or a step that failed, left off is on again at its end
 * (th_module_end, th_tape_clear). */
TH_API void th_no_grad_begin(th_context *ctx);
TH_API void th_no_grad_end(th_context *ctx);
TH_API bool th_is_recording(const th_context *ctx);
/* true (a new context): th_scaled_dot_product_attention runs in tiles, and with it th_attend; transformer blocks add
 * the residual within a branch's last product (where nothing is dropped); th_language_model_loss is one operation with
 * its classifier. false: all as the single operations that they equal, so that every value in between exists and can be
 * printed; the gradients are the same to rounding. Operations called by name, th_dense and th_dense_cross_entropy among
 * them, are one operation either way. */
TH_API void th_set_fusion(th_context *ctx, bool fusion);
TH_API bool th_has_fusion(const th_context *ctx);
/* The precision of matrix products of float32 tensors from now on: in th_matmul, th_masked_matmul, th_dense,
 * th_dense_cross_entropy and th_scaled_dot_product_attention, forward and backward, and all that is made of them. What
 * is between attention's products stays float32. TH_ERROR_ARGUMENT for a value that is no precision.
 * TH_PRECISION_FLOAT32 in a new context; float64 is never affected.
 *
 * An operand x is taken as x1 = bf(x), and in bfloat16x3 x2 = bf(x - x1) besides. bf rounds to the nearest bfloat16
 * number, ties to even; what would overflow is truncated instead, what is below the smallest normal number becomes 0 of
 * the same sign, infinity and NaN stay (and have x2 = 0). bfloat16 sums a1 b1, which is off by up to 2^-7 of each term.
 * bfloat16x3 sums a1 b1 + a1 b2 + a2 b1, which is off by at most 2^-15 of a term; errors of random sign average out, so
 * that a sum of k terms is off by about 2^-17 / sqrt(k) of the sum of their absolute values, and the worst of 10,000 by
 * four times that. Sums of fewer than 64 terms are float32's, but in attention and th_masked_matmul, where more of
 * them, hidden ones, may not change a bit.
 *
 * Matrix units (Intel AMX) are made for both; with fast dot products (AMD from Zen 4 on) bfloat16 is faster than
 * float32, and bfloat16x3 takes half as long again; elsewhere they are emulated, at about one and three times float32's
 * time. th_build_info says which. Neither saves memory, because tensors stay float32. Neither makes generation faster:
 * a token takes as long as reading the weights from memory. The bits are the same everywhere (but without fused
 * multiply-add), at any number of threads and in any batch. docs/precision.md has figures.
 *
 * What was recorded keeps the precision it was recorded in: its backward, and what backward recomputes, whatever is set
 * by then. */
TH_API th_status th_set_precision(th_context *ctx, th_precision precision) TH_MUST_CHECK;
TH_API th_precision th_precision_of(const th_context *ctx);
/* true: scopes give nothing up and nothing is recomputed, so that every value of the step can be read (printing,
 * teaching). */
TH_API void th_keep_values(th_context *ctx, bool keep);
TH_API th_status th_set_default_dtype(th_context *ctx, th_dtype dtype) TH_MUST_CHECK;
TH_API th_dtype th_default_dtype(const th_context *ctx);

/* -- randomness: every number is a function of (seed, stream, step, call within the step, element) -- */
/* The seed of all streams from now on. */
TH_API void th_set_seed(th_context *ctx, uint64_t seed);
/* Number of successful optimizer steps; set it when resuming. TH_ERROR_ARGUMENT for a negative one. */
TH_API int64_t th_step(const th_context *ctx);
TH_API void th_set_step(th_context *ctx, int64_t step);

/* -- what runs -- */
/* The team size that was asked for, or the default; 1 .. 1024 when it is set. */
TH_API int th_threads(const th_context *ctx);
TH_API th_status th_set_threads(th_context *ctx, int threads) TH_MUST_CHECK;
/* The team that a parallel kernel has: as many threads as th_threads asks for, at most OMP_THREAD_LIMIT. Fewer while the
 * system cannot create them: the library tries again after a while. 1 in a process forked from one that had a team.
 * OMP_PROC_BIND and OMP_PLACES bind the threads. They sleep without work, block all signals except those of faults, and
 * end with the thread that uses the context, or when the program unloads the library. In one kernel more of
 * them than there are processors take part only where it runs long, and fewer while other threads of the process
 * compute: several contexts share the processors.
 *
 * A thread that the program cancels ends between two kernels, not within one, and leaves no lock of the library held.
 * (Functions that read or write files may leave an unfinished file.) A fork waits for locks that other threads hold. */
TH_API int th_team_size(const th_context *ctx);
/* "tapehead 0.1.0 compiler=gcc 12.2.0 isa=avx512 gemm=native threads=2", then " openblas=0.3.21 (Zen)" where it
 * multiplies, and where the precision is not float32 " precision=bfloat16x3 products=amx" (or avx512_bf16, or fma):
 * written into the context, valid until it is freed. isa is that of vectors; products is what multiplies bfloat16
 * terms: matrix units (amx), for which the operating system is asked once a process, when a context first has such a
 * precision, dot products, or fused multiply-adds. TAPEHEAD_ISA=amx, avx512_bf16, avx512, avx2 or baseline in the
 * environment chooses otherwise; what is not there is then the context's first error. */
TH_API const char *th_build_info(th_context *ctx);
TH_API const char *th_version(void); /* "0.1.0" */

/* -- memory, counted by the context --
 *
 * What is in use lies in chunks that are taken from the allocator as they are needed and kept until th_context_free, so
 * that later steps need none. Chunks are taken ahead, and between blocks there are gaps: reserved is more than live.
 *
 * A context with shapes_only counts exactly what the same calls would use and take in a context whose options are the
 * same otherwise, and takes none of it but the memory of handles and records. Two steps are enough, for the optimizer
 * makes its moments at the end of the first; whatever else the program will do between steps (an evaluation, th_keep)
 * belongs to the run as well:
 *
 *     th_context_options options = {.seed = 1, .shapes_only = true};
 *     th_context *forecast = th_context_new(&options);
 *     two_steps_and_an_evaluation(forecast);
 *     options.memory_limit = th_memory(forecast).reserved_peak;
 *     options.shapes_only = false;
 *     th_context_free(forecast);
 *     th_context *ctx = th_context_new(&options);     (trains within what was forecast)
 *
 * A memory_limit counts in a context with shapes_only as in any other: its run fails where the real one would. */
typedef struct th_memory_usage {
    size_t live;          /* bytes in use now: step values, owned tensors, parameters, gradients, moments */
    size_t peak;          /* the most that was in use since the context was made or th_memory_reset_peak */
    size_t reserved;      /* bytes taken from the allocator now: what memory_limit limits */
    size_t reserved_peak; /* the most of them since the context was made or th_memory_reset_peak */
    size_t allocations;   /* calls of the allocator so far */
    size_t owned;         /* the part of live in tensors that you own; see th_step_begin if it grows */
} th_memory_usage;
/* What is in use now, and the most so far; the peaks begin anew with a reset. */
TH_API th_memory_usage th_memory(const th_context *ctx);
TH_API void th_memory_reset_peak(th_context *ctx);

TH_END_DECLS

#endif

/* th_check_function: the parts that its files share.
 *
 *     buffers.c         the memory of inputs, outputs and gradients, between guards
 *     calls.c           calls the user's functions, and checks the memory after each call
 *     noise.c           measures the rounding and the determinism of a function
 *     engine_runs.c     how the engine (checker/engine) runs the function
 *     conditions.c      conditions other than one backward: linearity, repeated operands, two calls
 *     reports.c         writes results as TAP and JUnit
 *     process.c         runs the check in a child process
 *     check_function.c  checks the arguments, chooses the points, sets the verdict */
#ifndef TH_CHECKER_FUNCTION_FUNCTION_H
#define TH_CHECKER_FUNCTION_FUNCTION_H

#include "checker/bytes.h"
#include "checker/engine/engine.h"
#include "tapehead/check_function.h"

/* -- buffers.c -- */

/* Bytes of memory that a function did not write: NaN in each floating type, or a small finite number. */
enum { TH_BUFFER_NAN = 0xFF, TH_BUFFER_FINITE = 0x3C, TH_BUFFER_WALL = 256 };

/* A buffer between walls. */
typedef struct th_function_memory {
    th_buffer buffer;
    unsigned char *block; /* [bytes]: a wall, the elements with their gaps, a wall */
    size_t bytes, inner;  /* of the block; of the part between the walls */
} th_function_memory;

/* Allocates a buffer for a port; dtype: the type of its elements. Returns false if there is no memory. */
bool th_memory_init(th_function_memory *memory, const th_port *port, th_dtype dtype);
void th_memory_free(th_function_memory *memory);
/* Sets every byte of the block. */
void th_memory_fill(th_function_memory *memory, int byte);
/* Returns whether the walls and the gaps have this byte. */
bool th_memory_is_intact(const th_function_memory *memory, int byte);
/* Returns a checksum of the block. */
uint64_t th_memory_sum(const th_function_memory *memory);
/* Returns the address of an element, in row-major order. */
void *th_buffer_element(const th_buffer *buffer, int64_t element);
double th_buffer_read(const th_buffer *buffer, int64_t element);
void th_buffer_write(const th_buffer *buffer, int64_t element, double value);
/* Returns whether the elements are row-major without gaps. */
bool th_buffer_is_plain(const th_buffer *b);
/* Reads the elements first to end - 1 to values[0], values[1], ... */
void th_buffer_load(const th_buffer *b, int64_t first, int64_t end, double *values);
/* Writes start[e] + h * direction[e] to these elements. */
void th_buffer_move(const th_buffer *b, int64_t first, int64_t end, const double *start, const double *direction,
                    double h);
/* Writes all elements. */
void th_buffer_store(const th_buffer *b, const double *values);
/* Returns whether the type is float64, float32, float16 or bfloat16. */
bool th_is_checked_type(th_dtype dtype);

/* -- calls.c -- */

enum { TH_MISTAKE_TEXT = 600 };

typedef struct th_run {
    th_engine engine; /* first, so that an engine is also its run */
    const th_function *function;
    th_function_options options;
    th_variable variable[TH_MAX_PORTS];
    th_function_memory in[TH_MAX_PORTS], out[TH_MAX_PORTS], dout[TH_MAX_PORTS], din[TH_MAX_PORTS];
    th_function_memory exact_in[TH_MAX_PORTS], exact_out[TH_MAX_PORTS]; /* of .reference: float64 */
    double gradient_epsilon; /* of the type of the gradients; 0: float64, whose rounding is not measured */
    double start_gradient;   /* of a function that accumulates: the elements of din before the call */
    int shared[2];           /* these two inputs are in the same memory; equal: none */
    uint64_t seed;           /* for th_function.set_seed */
    int64_t forward_calls, backward_calls;
    bool not_deterministic;
    double noise;                  /* see th_function_report */
    char mistake[TH_MISTAKE_TEXT]; /* other than a wrong gradient; "" if none */
    bool failed;                   /* a function returned an error, or there is no memory */
    bool no_memory;
} th_run;

/* Allocates all buffers. Returns false with run->mistake if there is no memory. Call th_run_free in either case. */
bool th_run_init(th_run *run);
void th_run_free(th_run *run);
/* Notes a mistake of the user's function, unless there is one. Returns false. */
bool th_run_note(th_run *run, const char *format, ...) TH_FORMAT(2, 3);
/* Notes that an allocation failed, which ends the check. Returns false. */
bool th_run_out_of_memory(th_run *run);
/* Calls forward, with outputs that contain this byte before the call. False with run->mistake. */
bool th_run_forward(th_run *run, int byte);
/* Calls the reference at exact_in. */
bool th_run_reference(th_run *run);
/* Writes a cotangent, [rows], to dout. */
void th_run_set_cotangent(th_run *run, const double *cotangent);
/* Computes the gradients of dout, from the values of in and out. din contains this byte before the call, and
 * start_gradient if the function accumulates. With jvp instead of backward, one call for each element. */
bool th_run_backward(th_run *run, int byte);
/* Writes a tangent, [columns], to din. */
void th_run_set_tangent(th_run *run, const double *tangent);
/* Computes the derivatives of the outputs along din, [rows]. */
bool th_run_jvp(th_run *run, double *values);
/* Copies the floating outputs, or those of these buffers, to values[rows], and the gradients to gradient[columns]. */
void th_run_outputs(const th_run *run, double *values);
void th_run_read_outputs(const th_run *run, const th_function_memory *out, double *values);
void th_run_gradients(const th_run *run, double *gradient);
/* Copies exact_in from in. */
void th_run_set_exact(th_run *run);
double *th_run_allocate(th_run *run, int64_t count);
/* Copies the blocks of an array of buffers to new memory, which the caller frees. NULL with run->mistake. */
unsigned char *th_run_save_blocks(th_run *run, const th_function_memory *memory);
/* Copies them back; saved may be NULL. */
void th_run_restore_blocks(th_function_memory *memory, const unsigned char *saved);

/* -- noise.c -- */

/* Calls forward again, to see whether it is deterministic. Measures the rounding of float32 and smaller types. Sets
 * engine.noise and engine.gradient_noise. False with run->mistake. */
bool th_run_measure(th_run *run);
/* th_engine_calls.measure_noise */
bool th_run_measure_noise(th_engine *engine);
/* Returns whether the outputs of a function in float64 have the noise of float32, and writes it to engine.noise. False
 * with run->mistake. */
bool th_run_has_float32_noise(th_run *run);

/* -- engine_runs.c -- */

extern const th_engine_calls th_run_calls;

/* -- conditions.c -- */

/* Compares gradients under other conditions with those of one backward. False with run->mistake. */
bool th_run_check_conditions(th_run *run);

/* -- process.c -- */

/* Runs th_check_function_here in a child process. */
th_status th_check_function_isolated(const th_function *function, const th_function_options *options,
                                     th_function_report *report);
/* Notes which of the user's functions runs, for the report of a crash, and starts the time limit. */
void th_process_begin_call(const char *name, double time_limit);
void th_process_end_call(void);

/* -- check_function.c -- */

th_status th_check_function_here(const th_function *function, const th_function_options *options,
                                 th_function_report *report);

#endif

/* Tensors: creation, shape, access, copying, printing. Views and everything differentiable are operations:
 * tapehead/ops.h. Row-major, dimension 0 outermost; negative axes count from the end. */
#ifndef TAPEHEAD_TENSOR_H
#define TAPEHEAD_TENSOR_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* -- creation --
 * Inside a scope (a module's forward), and from th_step_begin to th_tape_clear, the tape owns the result. Elsewhere you
 * own it: th_tensor_free frees it, or the context does at its end. So a loop that creates tensors needs th_step_begin or
 * th_tensor_free; otherwise its memory grows with each turn (th_memory: owned). Errors: TH_ERROR_SHAPE (negative sizes,
 * sizes that overflow), TH_ERROR_TYPE, TH_ERROR_MEMORY. */
TH_API th_tensor *th_empty(th_context *ctx, th_dtype dtype, th_shape shape);
TH_API th_tensor *th_zeros(th_context *ctx, th_dtype dtype, th_shape shape);
TH_API th_tensor *th_ones(th_context *ctx, th_dtype dtype, th_shape shape);
TH_API th_tensor *th_full(th_context *ctx, th_dtype dtype, th_shape shape, double value);
/* A copy of product(shape) elements of `dtype` at data, row-major. */
TH_API th_tensor *th_from_data(th_context *ctx, th_dtype dtype, th_shape shape, const void *data);
/* start, start + step, ... up to but without stop: ceil((stop - start) / step) elements, computed as start + i * step.
 */
TH_API th_tensor *th_arange(th_context *ctx, th_dtype dtype, double start, double stop, double step);
/* Uniform on [low, high); normal N(mean, standard_deviation²). Floating types only. Each call draws new numbers from
 * the context's data stream. */
TH_API th_tensor *th_uniform(th_context *ctx, th_dtype dtype, th_shape shape, double low, double high);
TH_API th_tensor *th_normal(th_context *ctx, th_dtype dtype, th_shape shape, double mean, double standard_deviation);
/* N(0, 1). */
TH_API th_tensor *th_randn(th_context *ctx, th_dtype dtype, th_shape shape);
/* Integers uniform on [low, high), int32 or int64. */
TH_API th_tensor *th_random_integers(th_context *ctx, th_dtype dtype, th_shape shape, int64_t low, int64_t high);

/* Initializers, in place, for weights (fan_out, fan_in) of two or more dimensions (further dimensions multiply both
 * fans). Xavier/Glorot (Glorot & Bengio 2010): uniform on ±gain sqrt(6 / (fan_in + fan_out)), or normal with that
 * variance. Kaiming/He (He et al. 2015): uniform on ±gain sqrt(3 / fan_in), or normal with standard deviation gain /
 * sqrt(fan_in); gain sqrt(2) for relu. */
TH_API th_status th_fill_uniform(th_tensor *t, double low, double high) TH_MUST_CHECK;
TH_API th_status th_fill_normal(th_tensor *t, double mean, double standard_deviation) TH_MUST_CHECK;
TH_API th_status th_fill_xavier_uniform(th_tensor *t, double gain) TH_MUST_CHECK;
TH_API th_status th_fill_xavier_normal(th_tensor *t, double gain) TH_MUST_CHECK;
TH_API th_status th_fill_kaiming_uniform(th_tensor *t, double gain) TH_MUST_CHECK;
TH_API th_status th_fill_kaiming_normal(th_tensor *t, double gain) TH_MUST_CHECK;

/* An owned, contiguous copy that outlives the tape (and requires no gradient). */
TH_API th_tensor *th_keep(th_tensor *t);
/* Frees a tensor that you own; one that the tape still uses goes at the next th_tape_clear. NULL is fine; a tensor of
 * the tape is left alone, and one that is gone already stays so. */
TH_API void th_tensor_free(th_tensor *t);

/* -- what a tensor is -- (0, NULL or TH_FLOAT32 for NULL; the same, -1 for a size or stride, and TH_ERROR_STATE for one
 * that is gone) */
/* NULL, without an error, when the context has been freed. */
TH_API th_context *th_context_of(const th_tensor *t);
TH_API th_dtype th_dtype_of(const th_tensor *t);
TH_API int th_ndim(const th_tensor *t);
TH_API th_shape th_shape_of(const th_tensor *t);
TH_API int64_t th_size(const th_tensor *t, int axis); /* -1 and a pending error when there is no such axis */
TH_API int64_t th_numel(const th_tensor *t);
TH_API int64_t th_stride(const th_tensor *t, int axis); /* in elements */
TH_API bool th_is_contiguous(const th_tensor *t);
TH_API bool th_shares_memory(const th_tensor *a, const th_tensor *b); /* views of one memory */
/* One letter per axis ("BTE"; ' ' for none), used in errors and printed tapes. NULL removes them. Returns t. */
TH_API th_tensor *th_set_axes(th_tensor *t, const char *letters);
TH_API const char *th_axes_of(const th_tensor *t); /* "" when unnamed */

/* -- access -- */
/* The number in a tensor of one element; NaN for NULL or any other tensor (an error then). */
TH_API double th_item(th_tensor *t);
TH_API double th_get(th_tensor *t, th_shape index); /* th_get(t, TH_INDEX(0, 3)); NaN on error */
TH_API th_status th_set(th_tensor *t, th_shape index, double value) TH_MUST_CHECK;
#define TH_INDEX(...) TH_SHAPE(__VA_ARGS__)
/* The elements themselves, row-major, to read or to write between steps; NULL and an error if the tensor is not
 * contiguous. Counts as a change of the values (a backward over a node that saved them is then an error). */
TH_API void *th_data(th_tensor *t);
/* The same to read only: no change. */
TH_API const void *th_data_const(const th_tensor *t);
/* Copies all elements, row-major, of the tensor's own type; bytes must be exactly th_numel * size of an element. */
TH_API th_status th_copy_out(th_tensor *t, void *data, size_t bytes) TH_MUST_CHECK;
TH_API th_status th_copy_in(th_tensor *t, const void *data, size_t bytes) TH_MUST_CHECK;
/* destination = source, broadcast and converted, in place and unrecorded. Here, in th_copy_in, th_fill and th_fill_...:
 * TH_ERROR_STATE for a destination some of whose elements are one in memory (an expanded view). */
TH_API th_status th_copy_into(th_tensor *destination, th_tensor *source) TH_MUST_CHECK;
TH_API th_status th_fill(th_tensor *t, double value) TH_MUST_CHECK;

/* -- printing, to a FILE of the caller's -- */
typedef struct th_print_options {
    int precision;     /* digits after the point; 0: 4, as NumPy's default is 8 but a terminal is 80 wide */
    int64_t threshold; /* more elements than this are summarized with ...; 0: 1000 */
    int edge_items;    /* items at each end of a summarized axis; 0: 3 */
    int line_width;    /* 0: 75 */
} th_print_options;
/* As NumPy prints: [[ 0.5   1.  ] ...]. options may be NULL. */
TH_API th_status th_print(th_tensor *t, FILE *file, const th_print_options *options) TH_MUST_CHECK;
/* The same into memory; returns the characters needed without the final 0, as snprintf; -1 on error. */
TH_API int64_t th_print_text(th_tensor *t, char *text, size_t size, const th_print_options *options);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_empty(...) TH_AT(th_empty(__VA_ARGS__))
#define th_zeros(...) TH_AT(th_zeros(__VA_ARGS__))
#define th_ones(...) TH_AT(th_ones(__VA_ARGS__))
#define th_full(...) TH_AT(th_full(__VA_ARGS__))
#define th_from_data(...) TH_AT(th_from_data(__VA_ARGS__))
#define th_arange(...) TH_AT(th_arange(__VA_ARGS__))
#define th_uniform(...) TH_AT(th_uniform(__VA_ARGS__))
#define th_normal(...) TH_AT(th_normal(__VA_ARGS__))
#define th_randn(...) TH_AT(th_randn(__VA_ARGS__))
#define th_random_integers(...) TH_AT(th_random_integers(__VA_ARGS__))
#define th_fill_uniform(...) TH_AT_STATUS(th_fill_uniform(__VA_ARGS__))
#define th_fill_normal(...) TH_AT_STATUS(th_fill_normal(__VA_ARGS__))
#define th_fill_xavier_uniform(...) TH_AT_STATUS(th_fill_xavier_uniform(__VA_ARGS__))
#define th_fill_xavier_normal(...) TH_AT_STATUS(th_fill_xavier_normal(__VA_ARGS__))
#define th_fill_kaiming_uniform(...) TH_AT_STATUS(th_fill_kaiming_uniform(__VA_ARGS__))
#define th_fill_kaiming_normal(...) TH_AT_STATUS(th_fill_kaiming_normal(__VA_ARGS__))
#define th_keep(...) TH_AT(th_keep(__VA_ARGS__))
#define th_set_axes(...) TH_AT(th_set_axes(__VA_ARGS__))
#define th_item(...) TH_AT_NUMBER(th_item(__VA_ARGS__))
#define th_get(...) TH_AT_NUMBER(th_get(__VA_ARGS__))
#define th_set(...) TH_AT_STATUS(th_set(__VA_ARGS__))
#define th_data(...) TH_AT_POINTER(void, th_data(__VA_ARGS__))
#define th_copy_out(...) TH_AT_STATUS(th_copy_out(__VA_ARGS__))
#define th_copy_in(...) TH_AT_STATUS(th_copy_in(__VA_ARGS__))
#define th_copy_into(...) TH_AT_STATUS(th_copy_into(__VA_ARGS__))
#define th_fill(...) TH_AT_STATUS(th_fill(__VA_ARGS__))
#define th_print(...) TH_AT_STATUS(th_print(__VA_ARGS__))
#endif

TH_END_DECLS

#endif

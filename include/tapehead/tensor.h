/* Tensors: creation, properties, access, printing. Views and all differentiable functions are in tapehead/ops.h.
 * Row-major, dimension 0 outermost; negative axes count from the end. */
#ifndef TAPEHEAD_TENSOR_H
#define TAPEHEAD_TENSOR_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* -- creation --
 *
 * Inside a scope (a module's forward), and from th_step_begin to th_tape_clear, the tape owns the result. Elsewhere you
 * own it, until th_tensor_free or th_context_free frees it. A loop that creates tensors needs th_step_begin or
 * th_tensor_free. Otherwise its memory grows with each iteration, as the field `owned` of th_memory shows. Errors:
 * TH_ERROR_SHAPE for negative sizes and sizes that overflow, TH_ERROR_TYPE, TH_ERROR_MEMORY.
 *
 * The random functions use the context's data stream: a sequence of random numbers that nothing else draws from. Each
 * call draws the next numbers of it (tapehead/context.h). */

/* Creates a tensor with undefined elements. With th_zeros, th_from_data, th_keep and th_cast, the functions that create
 * tensors of a storage type. */
TH_API th_tensor *th_empty(th_context *ctx, th_dtype dtype, th_shape shape);
/* Creates a tensor of zeros. */
TH_API th_tensor *th_zeros(th_context *ctx, th_dtype dtype, th_shape shape);
/* Creates a tensor of ones. */
TH_API th_tensor *th_ones(th_context *ctx, th_dtype dtype, th_shape shape);
/* Creates a tensor whose elements are value. */
TH_API th_tensor *th_full(th_context *ctx, th_dtype dtype, th_shape shape, double value);
/* Creates a tensor with a copy of data: product(shape) elements of `dtype`, row-major. */
TH_API th_tensor *th_from_data(th_context *ctx, th_dtype dtype, th_shape shape, const void *data);
/* Creates a tensor (n) with the elements start + i * step, i = 0 .. n - 1, where n = ceil((stop - start) / step). stop
 * is not an element. */
TH_API th_tensor *th_arange(th_context *ctx, th_dtype dtype, double start, double stop, double step);
/* Creates a tensor of a floating type with random numbers, uniform in [low, high). */
TH_API th_tensor *th_uniform(th_context *ctx, th_dtype dtype, th_shape shape, double low, double high);
/* Creates a tensor of a floating type with random numbers, normal N(mean, standard_deviation²). */
TH_API th_tensor *th_normal(th_context *ctx, th_dtype dtype, th_shape shape, double mean, double standard_deviation);
/* As th_normal, with N(0, 1). */
TH_API th_tensor *th_randn(th_context *ctx, th_dtype dtype, th_shape shape);
/* Creates a tensor of int32 or int64 with random integers, uniform in [low, high). */
TH_API th_tensor *th_random_integers(th_context *ctx, th_dtype dtype, th_shape shape, int64_t low, int64_t high);

/* -- initializers --
 *
 * They fill a tensor in place, with random numbers of the context's initialization stream. Xavier (Glorot & Bengio
 * 2010) and Kaiming (He et al. 2015) are for weights (fan_out, fan_in) with two or more dimensions. With more than
 * two dimensions, both fans are multiplied by the sizes of the further dimensions. */

/* Fills t uniformly in [low, high). */
TH_API th_status th_fill_uniform(th_tensor *t, double low, double high) TH_MUST_CHECK;
/* Fills t with N(mean, standard_deviation²). */
TH_API th_status th_fill_normal(th_tensor *t, double mean, double standard_deviation) TH_MUST_CHECK;
/* Fills t uniformly in ±gain sqrt(6 / (fan_in + fan_out)). */
TH_API th_status th_fill_xavier_uniform(th_tensor *t, double gain) TH_MUST_CHECK;
/* Fills t with N(0, gain² 2 / (fan_in + fan_out)), the variance of th_fill_xavier_uniform. */
TH_API th_status th_fill_xavier_normal(th_tensor *t, double gain) TH_MUST_CHECK;
/* Fills t uniformly in ±gain sqrt(3 / fan_in). The gain is sqrt(2) for relu. */
TH_API th_status th_fill_kaiming_uniform(th_tensor *t, double gain) TH_MUST_CHECK;
/* Fills t with N(0, gain² / fan_in). The gain is sqrt(2) for relu. */
TH_API th_status th_fill_kaiming_normal(th_tensor *t, double gain) TH_MUST_CHECK;

/* -- ownership -- */

/* Returns a contiguous copy of t that you own. It outlives the tape, and does not require a gradient. */
TH_API th_tensor *th_keep(th_tensor *t);
/* Frees a tensor that you own. If the tape still needs the tensor's memory, the memory is released at the next
 * th_tape_clear. Does nothing for NULL, for a tensor of the tape, and for a tensor that was already released. */
TH_API void th_tensor_free(th_tensor *t);

/* -- properties --
 *
 * For NULL, these functions return 0, NULL or TH_FLOAT32 without an error. For a released tensor they return the
 * same values, except -1 for a size or a stride, and store TH_ERROR_STATE. */

/* Returns the context of t. Returns NULL, without an error, if the context was freed. */
TH_API th_context *th_context_of(const th_tensor *t);
/* Returns the element type. */
TH_API th_dtype th_dtype_of(const th_tensor *t);
/* Returns the number of dimensions. */
TH_API int th_ndim(const th_tensor *t);
/* Returns the shape. */
TH_API th_shape th_shape_of(const th_tensor *t);
/* Returns the size of an axis; -1 with TH_ERROR_SHAPE if t does not have the axis. */
TH_API int64_t th_size(const th_tensor *t, int axis);
/* Returns the number of elements; of types with blocks (th_dtype_numbers) the number of blocks. */
TH_API int64_t th_numel(const th_tensor *t);
/* Returns the stride of an axis, in elements; -1 with TH_ERROR_SHAPE if t does not have the axis. */
TH_API int64_t th_stride(const th_tensor *t, int axis);
/* Returns true if the elements are row-major in memory, without gaps. */
TH_API bool th_is_contiguous(const th_tensor *t);
/* Returns true if a and b are views of the same memory. */
TH_API bool th_shares_memory(const th_tensor *a, const th_tensor *b);
/* Names the axes for errors and printed tapes: one letter for each axis, such as "BTE"; ' ' for no name. NULL removes
 * the names. Returns t. */
TH_API th_tensor *th_set_axes(th_tensor *t, const char *letters);
/* Returns the names of the axes; "" without names. */
TH_API const char *th_axes_of(const th_tensor *t);

/* -- access --
 *
 * Of a storage type, only th_data, th_data_const, th_copy_out and th_copy_in give elements, as they are stored. The
 * functions that read or write numbers return TH_ERROR_TYPE, and so do the printing functions. th_copy_into and th_cast
 * convert. */

/* Returns the value of a tensor with one element. Returns NaN with an error for any other tensor. */
TH_API double th_item(th_tensor *t);
/* Returns the element at an index: th_get(t, TH_INDEX(0, 3)). Returns NaN with an error if it does not exist. */
TH_API double th_get(th_tensor *t, th_shape index);
/* Sets the element at an index. */
TH_API th_status th_set(th_tensor *t, th_shape index, double value) TH_MUST_CHECK;
/* An index of th_get and th_set: TH_INDEX(0, 3). TH_SCALAR is the index of a scalar. */
#define TH_INDEX(...) TH_CHECKED_SHAPE_(#__VA_ARGS__, __VA_ARGS__)
/* Returns the elements, row-major, for reading and writing between steps. Returns NULL with an error if the tensor is
 * not contiguous. The call counts as a change: backward then fails for a node that saved the values. */
TH_API void *th_data(th_tensor *t);
/* As th_data, for reading only. Does not count as a change. */
TH_API const void *th_data_const(const th_tensor *t);
/* Copies all elements to data, row-major, in the tensor's type. bytes must be th_numel * th_dtype_size exactly. */
TH_API th_status th_copy_out(th_tensor *t, void *data, size_t bytes) TH_MUST_CHECK;
/* Copies all elements from data, row-major, in the tensor's type. bytes as in th_copy_out. Errors: TH_ERROR_STATE if
 * elements of t share memory, as in an expanded view. */
TH_API th_status th_copy_in(th_tensor *t, const void *data, size_t bytes) TH_MUST_CHECK;
/* Copies source to destination in place, broadcast and converted, without recording. From or to a storage type nothing
 * broadcasts: both have the same numbers. Errors: TH_ERROR_STATE if elements of the destination share memory. */
TH_API th_status th_copy_into(th_tensor *destination, th_tensor *source) TH_MUST_CHECK;
/* Sets all elements to value. Errors: TH_ERROR_STATE if elements of t share memory (also in th_fill_uniform and the
 * other initializers). */
TH_API th_status th_fill(th_tensor *t, double value) TH_MUST_CHECK;

/* -- printing -- */

/* Options of th_print. */
typedef struct th_print_options {
    int precision;     /* digits after the point; 0: 4 (NumPy prints 8, but a terminal has 80 columns) */
    int64_t threshold; /* more elements than this are summarized with ...; 0: 1000 */
    int edge_items;    /* items at each end of a summarized axis; 0: 3 */
    int line_width;    /* 0: 75 */
} th_print_options;
/* Prints t to file in NumPy's layout. options may be NULL. */
TH_API th_status th_print(th_tensor *t, FILE *file, const th_print_options *options) TH_MUST_CHECK;
/* As th_print, to memory of `size` bytes. Returns the length of the whole text without the final 0, as snprintf does;
 * -1 on error. */
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

/* Basic types of every public header: element types, precision, status, shapes, source locations. */
#ifndef TAPEHEAD_BASE_H
#define TAPEHEAD_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
#define TH_BEGIN_DECLS extern "C" {
#define TH_END_DECLS }
#else
#define TH_BEGIN_DECLS
#define TH_END_DECLS
#endif

#ifdef _WIN32
#define TH_API
#else
#define TH_API __attribute__((visibility("default")))
#endif
#define TH_MUST_CHECK __attribute__((warn_unused_result))
/* A function with a format as printf has: the numbers of the format and of its first argument, 0 for a va_list. */
#if defined __MINGW32__ && !defined __clang__ /* there gcc's printf is that of older C libraries */
#define TH_FORMAT(format_number, first_argument) __attribute__((format(gnu_printf, format_number, first_argument)))
#else
#define TH_FORMAT(format_number, first_argument) __attribute__((format(printf, format_number, first_argument)))
#endif

TH_BEGIN_DECLS

/* A context (tapehead/context.h). */
typedef struct th_context th_context;
/* A handle of a tensor (tapehead/tensor.h). */
typedef struct th_tensor th_tensor;

/* The maximum number of dimensions. */
#define TH_MAX_DIMS 8

/* The element types: name of the enumerator, name as text, C type. */
#define TH_DTYPES(X)                                                                                                   \
    X(TH_FLOAT32, "float32", float)                                                                                    \
    X(TH_FLOAT64, "float64", double)                                                                                   \
    X(TH_INT32, "int32", int32_t)                                                                                      \
    X(TH_INT64, "int64", int64_t)                                                                                      \
    X(TH_BOOL, "bool", bool)

/* The storage types, as TH_DTYPES. They store frozen weights in less memory; no operation computes in them. th_dense,
 * th_dense_cross_entropy and th_embedding read weights of these types, th_cast converts, and th_slice selects rows.
 * All other operations refuse them. th_module_store converts a module.
 *
 * An element of TH_Q8_0 or of a type below it is a block: 32 or 256 consecutive numbers of a row (th_dtype_numbers). So
 * a weight (out, in) in blocks of 32 has the shape (out, in / 32), and strides count blocks. The layouts are GGUF's.
 * Nothing is converted to the types below TH_Q4_0: their blocks come from GGUF files. */
#define TH_STORAGE_TYPES(X)                                                                                            \
    X(TH_BFLOAT16, "bfloat16", uint16_t)                                                                               \
    X(TH_FLOAT16, "float16", uint16_t)                                                                                 \
    X(TH_Q8_0, "q8_0", th_q8_0)                                                                                        \
    X(TH_Q4_0, "q4_0", th_q4_0)                                                                                        \
    X(TH_Q4_1, "q4_1", uint8_t[20])                                                                                    \
    X(TH_Q5_0, "q5_0", uint8_t[22])                                                                                    \
    X(TH_Q5_1, "q5_1", uint8_t[24])                                                                                    \
    X(TH_Q2_K, "q2_k", uint8_t[84])                                                                                    \
    X(TH_Q3_K, "q3_k", uint8_t[110])                                                                                   \
    X(TH_Q4_K, "q4_k", uint8_t[144])                                                                                   \
    X(TH_Q5_K, "q5_k", uint8_t[176])                                                                                   \
    X(TH_Q6_K, "q6_k", uint8_t[210])                                                                                   \
    X(TH_IQ4_NL, "iq4_nl", uint8_t[18])                                                                                \
    X(TH_IQ4_XS, "iq4_xs", uint8_t[136])

/* The numbers in a block of TH_Q8_0 or TH_Q4_0. */
enum { TH_BLOCK_NUMBERS = 32 };
/* A block of TH_Q8_0: number i is scale * number[i]. */
typedef struct th_q8_0 {
    uint16_t scale; /* float16 */
    int8_t number[TH_BLOCK_NUMBERS];
} th_q8_0;
/* A block of TH_Q4_0: number i is scale * ((pair[i] & 15) - 8), number i + 16 is scale * ((pair[i] >> 4) - 8). */
typedef struct th_q4_0 {
    uint16_t scale; /* float16 */
    uint8_t pair[TH_BLOCK_NUMBERS / 2];
} th_q4_0;

#define TH_DTYPE_ENUM_(name, text, type) name,
/* An element type: TH_FLOAT32, TH_FLOAT64, TH_INT32, TH_INT64, TH_BOOL, or a storage type, such as TH_BFLOAT16 and
 * TH_Q8_0. */
typedef enum th_dtype { TH_DTYPES(TH_DTYPE_ENUM_) TH_STORAGE_TYPES(TH_DTYPE_ENUM_) TH_DTYPE_COUNT } th_dtype;

/* Returns the name of a type, such as "float32"; "?" for an invalid value. */
TH_API const char *th_dtype_name(th_dtype dtype);
/* Returns the bytes of one element; 0 for an invalid value. */
TH_API size_t th_dtype_size(th_dtype dtype);
/* Returns the numbers in one element: 32 or 256 for types with blocks (TH_STORAGE_TYPES), 1 for other types; 0 for an
 * invalid value. */
TH_API int th_dtype_numbers(th_dtype dtype);

/* -- precision of products -- */

/* The precision in which matrix products of float32 tensors use their operands. Sums and stored values are float32 in
 * every precision. A bfloat16 number is the upper half of a float32, with 8 of its 24 significant bits. */
typedef enum th_precision {
    TH_PRECISION_FLOAT32,    /* operands are not changed */
    TH_PRECISION_BFLOAT16X3, /* each operand is a sum of two bfloat16 numbers; three products */
    TH_PRECISION_BFLOAT16,   /* each operand is rounded to bfloat16 */
    TH_PRECISION_INT8        /* the operand of stored 8-bit or 4-bit weights is rounded to blocks of int8 numbers */
} th_precision;

/* Returns "float32", "bfloat16x3", "bfloat16" or "int8"; "?" for an invalid value. */
TH_API const char *th_precision_name(th_precision precision);

/* -- results -- */

/* The result of a function that can fail. TH_OK is 0, so an error can be tested with
 * `if (th_backward(loss, NULL) || th_optimizer_step(adam))`. */
typedef enum th_status {
    TH_OK = 0,
    TH_ERROR_SHAPE,    /* sizes, axes or numbers of dimensions that do not match */
    TH_ERROR_TYPE,     /* element types that do not match */
    TH_ERROR_INDEX,    /* an index outside its range */
    TH_ERROR_ARGUMENT, /* NULL where a value is needed, an option outside its range, another context's tensor */
    TH_ERROR_MEMORY,   /* the allocator returned NULL, or the context's limit is reached */
    TH_ERROR_STATE,    /* called at the wrong time: a consumed tape, a stale handle, a value changed before backward */
    TH_ERROR_FILE,     /* unreadable, unwritable or damaged */
    TH_ERROR_VALUE,    /* illegal numbers: a non-finite gradient */
    TH_ERROR_PROCESS   /* another process of a group does not answer, or calls another function */
} th_status;

/* A shape, or another list with one integer for each dimension. Write TH_SHAPE(2, 5, 8). */
typedef struct th_shape {
    int ndim;
    int64_t size[TH_MAX_DIMS];
} th_shape;

#define TH_COUNT_(...) TH_COUNT_PICK_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define TH_COUNT_PICK_(a, b, c, d, e, f, g, h, n, ...) n
#ifdef __cplusplus
#define TH_SHAPE_(count, ...) (th_shape{count, {__VA_ARGS__}})
#else
#define TH_SHAPE_(count, ...) ((th_shape){count, {__VA_ARGS__}})
#endif
/* Returns 1; does not compile for the text of an empty list, whose shape would be that of one size, 0. */
#define TH_SIZES_MUST_BE_GIVEN_OR_TH_SCALAR_OR_TH_ALL_AXES_(text) ((int)sizeof(char[sizeof(text) > 1 ? 1 : -1]))
#define TH_CHECKED_SHAPE_(text, ...)                                                                                   \
    TH_SHAPE_(TH_COUNT_(__VA_ARGS__) * TH_SIZES_MUST_BE_GIVEN_OR_TH_SCALAR_OR_TH_ALL_AXES_(text), __VA_ARGS__)
/* A shape with these sizes: TH_SHAPE(2, 5, 8). TH_SHAPE() does not compile: TH_SCALAR is the shape without sizes. */
#define TH_SHAPE(...) TH_CHECKED_SHAPE_(#__VA_ARGS__, __VA_ARGS__)
/* The shape without dimensions. */
#define TH_SCALAR TH_SHAPE_(0, 0)
/* -- other lists -- */

/* A shape as the initializer of a static object, such as a sample: { .shape = TH_SIZES(2, 3) }. */
#define TH_SIZES(...)                                                                                                  \
    {                                                                                                                  \
        TH_COUNT_(__VA_ARGS__) * TH_SIZES_MUST_BE_GIVEN_OR_TH_SCALAR_OR_TH_ALL_AXES_(#__VA_ARGS__),                    \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
/* A list of axes, not empty: th_transpose(x, TH_AXES(0, 2, 1, 3)). */
#define TH_AXES(...) TH_CHECKED_SHAPE_(#__VA_ARGS__, __VA_ARGS__)
/* All axes, for reductions. */
#define TH_ALL_AXES TH_SCALAR

/* -- source locations --
 *
 * Each function whose errors name the caller's line has a macro of the same name. The macro wraps the call in one of
 * the macros below. They push the caller's file and line before the arguments are evaluated, and pop them with the
 * result. Nested calls keep their lines. A source file that defines TAPEHEAD_NO_LOCATIONS before its first
 * include gets the plain functions. The library's own sources do this: their errors name the user's line. */

/* Pushes a source line for this thread. */
TH_API void th_at_push(const char *file, int line);
/* Pops the innermost source line and returns result. */
TH_API th_tensor *th_at_pop(th_tensor *result);
/* As th_at_pop, for a status. */
TH_API th_status th_at_pop_status(th_status result) TH_MUST_CHECK;
/* As th_at_pop, for a pointer. */
TH_API void *th_at_pop_pointer(void *result);
/* As th_at_pop, for a number. */
TH_API double th_at_pop_number(double result);

/* Calls a function that returns a tensor, with the line of the call. */
#define TH_AT(call) (th_at_push(__FILE__, __LINE__), th_at_pop(call))
/* As TH_AT, for a function that returns a status. */
#define TH_AT_STATUS(call) (th_at_push(__FILE__, __LINE__), th_at_pop_status(call))
/* As TH_AT, for a function that returns a number. */
#define TH_AT_NUMBER(call) (th_at_push(__FILE__, __LINE__), th_at_pop_number(call))

#ifdef __cplusplus
#define TH_CAST_(type, pointer) static_cast<type>(pointer)
#else
#define TH_CAST_(type, pointer) ((type)(pointer))
#endif
/* As TH_AT, for a function that returns a type *. */
#define TH_AT_POINTER(type, call) (th_at_push(__FILE__, __LINE__), TH_CAST_(type *, th_at_pop_pointer(call)))

TH_END_DECLS

#endif

/* What every public header starts with: linkage, attributes, the element types, status and source locations. */
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

#define TH_API __attribute__((visibility("default")))
#define TH_MUST_CHECK __attribute__((warn_unused_result))

TH_BEGIN_DECLS

typedef struct th_context th_context;
typedef struct th_tensor th_tensor;

/* The most dimensions a tensor can have. */
#define TH_MAX_DIMS 8

/* Element types. The list is written once; names, sizes and tables are made from it. */
#define TH_DTYPES(X)                                                                                                   \
    X(TH_FLOAT32, "float32", float)                                                                                    \
    X(TH_FLOAT64, "float64", double)                                                                                   \
    X(TH_INT32, "int32", int32_t)                                                                                      \
    X(TH_INT64, "int64", int64_t)                                                                                      \
    X(TH_BOOL, "bool", bool)

typedef enum th_dtype {
#define TH_DTYPE_ENUM(name, text, type) name,
    TH_DTYPES(TH_DTYPE_ENUM)
#undef TH_DTYPE_ENUM
        TH_DTYPE_COUNT
} th_dtype;

/* "float32" and so on; "?" for a value that is no element type. */
TH_API const char *th_dtype_name(th_dtype dtype);
/* Bytes of one element; 0 for a value that is no element type. */
TH_API size_t th_dtype_size(th_dtype dtype);

/* How matrix products of float32 tensors take their operands; products are summed, and everything is stored, in
 * float32. A bfloat16 number is the upper half of a float32: 8 digits of its 24. */
typedef enum th_precision {
    TH_PRECISION_FLOAT32,    /* as they are */
    TH_PRECISION_BFLOAT16X3, /* each as the sum of two bfloat16 numbers, in three products */
    TH_PRECISION_BFLOAT16    /* each rounded to a bfloat16 number */
} th_precision;

/* "float32", "bfloat16x3" or "bfloat16"; "?" for a value that is no precision. */
TH_API const char *th_precision_name(th_precision precision);

/* Outcome of a function that can fail. TH_OK is 0, so that `if (th_backward(loss, NULL) || th_optimizer_step(adam))` reads as
 * it should. */
typedef enum th_status {
    TH_OK = 0,
    TH_ERROR_SHAPE,    /* sizes, axes or numbers of dimensions that do not fit */
    TH_ERROR_TYPE,     /* element types that do not fit */
    TH_ERROR_INDEX,    /* an index outside its range */
    TH_ERROR_ARGUMENT, /* NULL where a value is needed, an option outside its range, another context's tensor */
    TH_ERROR_MEMORY,   /* the allocator said no, or the context's limit is reached */
    TH_ERROR_STATE,    /* right call, wrong moment: a consumed tape, a stale handle, a value changed before backward */
    TH_ERROR_FILE,     /* unreadable, unwritable or damaged */
    TH_ERROR_VALUE     /* numbers that must not be: a non-finite gradient */
} th_status;

/* Sizes of a shape or of anything counted per dimension: TH_SHAPE(2, 5, 8); TH_SCALAR is the shape without dimensions.
 */
typedef struct th_shape {
    int ndim;
    int64_t size[TH_MAX_DIMS];
} th_shape;

#define TH_COUNT_(...) TH_COUNT_PICK_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define TH_COUNT_PICK_(a, b, c, d, e, f, g, h, n, ...) n
#ifdef __cplusplus
#define TH_SHAPE(...) (th_shape{TH_COUNT_(__VA_ARGS__), {__VA_ARGS__}})
#define TH_SCALAR (th_shape{0, {0}})
#else
#define TH_SHAPE(...) ((th_shape){TH_COUNT_(__VA_ARGS__), {__VA_ARGS__}})
#define TH_SCALAR ((th_shape){0, {0}})
#endif
/* The same as the initializer of a static object, such as a sample's shape: { .shape = TH_SIZES(2, 3) }. */
#define TH_SIZES(...)                                                                                                  \
    {                                                                                                                  \
        TH_COUNT_(__VA_ARGS__),                                                                                        \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
/* Axes and orders of axes are written the same way: th_transpose(x, TH_AXES(0, 2, 1, 3)). */
#define TH_AXES(...) TH_SHAPE(__VA_ARGS__)
#define TH_ALL_AXES TH_SCALAR

/* Source locations. Every function with a location has a macro of its own name that wraps the call in one of these: the
 * caller's file and line are pushed before the arguments are evaluated and popped with the result, so that nested calls
 * keep their own line. A source that defines TAPEHEAD_NO_LOCATIONS before its first include sees the functions
 * alone; the library's own sources do, and errors in them name the user's line. */
TH_API void th_at_push(const char *file, int line);
TH_API th_tensor *th_at_pop(th_tensor *result);
TH_API th_status th_at_pop_status(th_status result) TH_MUST_CHECK;
TH_API void *th_at_pop_pointer(void *result);
TH_API double th_at_pop_number(double result);

#define TH_AT(call) (th_at_push(__FILE__, __LINE__), th_at_pop(call))
#define TH_AT_STATUS(call) (th_at_push(__FILE__, __LINE__), th_at_pop_status(call))
#define TH_AT_NUMBER(call) (th_at_push(__FILE__, __LINE__), th_at_pop_number(call))
#ifdef __cplusplus
#define TH_AT_POINTER(type, call) (th_at_push(__FILE__, __LINE__), static_cast<type *>(th_at_pop_pointer(call)))
#else
#define TH_AT_POINTER(type, call) (th_at_push(__FILE__, __LINE__), (type *)th_at_pop_pointer(call))
#endif

TH_END_DECLS

#endif

/* The memory of a guarded kernel: walls around arrays that it writes, checksums of arrays that it only reads. A finding
 * is a mistake of a kernel that a comparison of gradients would not show: see th_check_op. */
#ifndef TH_CHECKER_CHECK_OP_MEMORY_H
#define TH_CHECKER_CHECK_OP_MEMORY_H

#include "autograd/frame.h"

enum {
    TH_FINDING_TEXT = 400,
    TH_MAX_READ = TH_MAX_SAMPLE_INPUTS + 2 * TH_MAX_OUTPUTS,
    TH_MAX_GUARDED = TH_MAX_SAMPLE_INPUTS + TH_MAX_OUTPUTS,
    TH_MAX_PLANS = 4
};

/* An array that a kernel may write, and its memory during a run. */
typedef struct th_guarded {
    th_array *array;          /* the call's */
    th_array original;        /* as the driver passed it */
    th_array *same;           /* an array in the same memory (TH_OP_IN_PLACE, TH_OP_OVER_INPUT), or NULL */
    bool holds;               /* the kernel may read its values */
    unsigned char *wall;      /* [wall_bytes]: the elements, and memory that the kernel must not change */
    unsigned char *element;   /* the first element, within wall */
    unsigned char *result[2]; /* [bytes]: the elements after either run, contiguous */
    size_t wall_bytes, bytes;
} th_guarded;

/* A guarded operation, and what its last run showed. */
typedef struct th_guard {
    th_op op; /* first, so that a call's op is also its guard */
    const th_op *original;
    char finding[TH_FINDING_TEXT];  /* the first mistake of a kernel, or "" */
    th_scratch_map map;             /* of the last plan */
    int plans;                      /* plans made so far */
    uint64_t planned[TH_MAX_PLANS]; /* bytes that the first plans reserved */
    th_guarded guarded[TH_MAX_GUARDED];
    int count;
    unsigned char *memory;     /* [memory_bytes]: walls and results, then values for missing operands */
    unsigned char *missing[2]; /* [missing_bytes] */
    size_t memory_bytes, missing_bytes;
} th_guard;

/* Bytes of uninitialized memory: NaN in either floating type, or a small finite number. Missing operands have another
 * finite number, because a kernel that copies one has written. TH_WALL: bytes on each side of an array that the kernel
 * must not change. */
enum { TH_FILL = 0xFF, TH_OTHER_FILL = 0x3C, TH_MISSING_FILL = 0x3D, TH_WALL = 256 };

/* -- findings -- */
/* Notes a finding, unless there is one. */
void th_guard_note(th_guard *guard, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns "forward" or "backward". */
const char *th_kernel_name(bool backward);
/* Writes the name of an array of the call to text, and returns text: "x1", "output 0", "the gradient of x1", "the
 * gradient of output 0". */
const char *th_guard_name(const th_call *call, const th_array *array, char *text, size_t size);
#define TH_NAME(array) th_guard_name(call, (array), (char[64]){0}, 64)

/* -- elements of strided arrays as bytes -- */
enum { TH_AS_IT_IS = -1 };
/* Copies the elements to contiguous memory. Then overwrites them with the byte fill, unless it is TH_AS_IT_IS. */
void th_copy_elements_out(const th_array *array, unsigned char *from, unsigned char *to, int fill);
/* Copies them back. */
void th_copy_elements_in(const th_array *array, unsigned char *to, const unsigned char *from);
/* Computes how many elements the array extends before and behind its first one. */
void th_extent_of(const th_array *array, int64_t *before, int64_t *behind);
/* Returns whether all bytes have this value. */
bool th_bytes_are(const unsigned char *bytes, size_t count, int value);

/* -- arrays that a kernel may only read -- */
typedef struct th_read_only {
    const th_array *array[TH_MAX_READ];
    th_array before[TH_MAX_READ];
    uint64_t sum[TH_MAX_READ];
    int count;
} th_read_only;

/* Computes the checksums of all arrays that the kernel may only read. */
void th_read_only_begin(const th_guard *guard, const th_call *call, bool backward, th_read_only *r);
/* Notes the first array that changed since th_read_only_begin. */
void th_read_only_check(th_guard *guard, const th_call *call, bool backward, const th_read_only *r);

/* -- memory for arrays that it writes -- */
/* Moves everything that the kernel may write between walls. Without memory it moves nothing; the error is pending. */
void th_guard_surround(th_guard *guard, const th_call *call, bool backward);
/* Moves every array back to the driver's memory, with the values of the second run. */
void th_guard_move_back(th_guard *guard);
/* The operands that a kernel reads: the inputs, then the outputs and their gradients in backward. */
th_array *th_guard_operand(const th_call *call, int i);
int th_guard_operands(const th_call *call, bool backward);
/* Returns whether the data of an operand is NULL: backward did not save it, or it has no elements. */
bool th_is_missing(const th_array *array);
/* Returns the address at which a missing operand gets the bytes TH_MISSING_FILL (other) or TH_FILL. Integers and bool
 * are 0 or 1, because a kernel may use them as an index. */
void *th_guard_missing(const th_guard *guard, const th_array *array, bool other);
/* Frees the memory of the guard. */
void th_guard_free(th_guard *guard, th_context *ctx);

#endif

/* The memory of a guarded kernel: walls around arrays that it writes, checksums of arrays that it only reads. */
#ifndef TH_CHECKER_CHECK_OP_MEMORY_H
#define TH_CHECKER_CHECK_OP_MEMORY_H

#include "checker/check_op_guard.h"

/* Bytes of uninitialized memory: NaN in either floating type, or a small finite number. TH_WALL: bytes on each side of
 * an array that the kernel must not change. */
enum { TH_FILL = 0xFF, TH_OTHER_FILL = 0x3C, TH_WALL = 256 };

/* -- findings -- */
/* Notes a finding, unless there is one. */
void th_guard_note(th_guard *guard, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *th_kernel_name(bool backward);
/* Writes the name of an array of the call: "x1", "output 0", "the gradient of x1", "the gradient of output 0". */
const char *th_guard_name(const th_call *call, const th_array *array, char *text, size_t size);
#define TH_NAME(array) th_guard_name(call, (array), (char[64]){0}, 64)

/* -- elements of strided arrays as bytes -- */
enum { TH_AS_IT_IS = -1 };
/* Copies the elements to contiguous memory. Then overwrites them with the byte fill, unless it is TH_AS_IT_IS. */
void th_copy_elements_out(const th_array *array, unsigned char *from, unsigned char *to, int fill);
/* Copies them back. */
void th_copy_elements_in(const th_array *array, unsigned char *to, const unsigned char *from);
/* How many elements the array reaches before and behind its first one. */
void th_extent_of(const th_array *array, int64_t *before, int64_t *behind);
bool th_bytes_are(const unsigned char *bytes, size_t count, int value);

/* -- arrays that a kernel may only read -- */
typedef struct th_readers {
    const th_array *array[TH_MAX_READ];
    th_array before[TH_MAX_READ];
    uint64_t sum[TH_MAX_READ];
    int count;
} th_readers;

void th_look_at_readers(const th_guard *guard, const th_call *call, bool backward, th_readers *r);
/* Notes the first array that has changed since. */
void th_check_readers(th_guard *guard, const th_call *call, bool backward, const th_readers *r);

/* -- memory for arrays that it writes -- */
/* Moves everything that the kernel may write between walls. Without memory it moves nothing; the error is pending. */
void th_guard_surround(th_guard *guard, const th_call *call, bool backward);
/* Moves every array back to the driver's memory, with the values of the second run. */
void th_guard_move_back(th_guard *guard);
/* Whether an operand of backward was not saved: it is floating, and its data is NULL. */
bool th_is_unsaved(const th_array *array);

#endif

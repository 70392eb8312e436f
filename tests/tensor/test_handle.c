/* Handles: which stale ones are recognized, and the limits of their bits (tensor/handle_bits.h). The program
 * test_handle_32 is this file with the handles of 32 bits, on every processor. */
#include <math.h>
#include <stdlib.h>

#include "suite.h"
#include "tapehead/tapehead.h"
#include "tensor/attachment.h"
#include "tensor/context.h"
#include "tensor/handle_bits.h"

static th_context *ctx;

static void set_up(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1, .threads = 1});
}

static void tear_down(void)
{
    th_context_free(ctx);
}

static th_tensor *number(double value)
{
    return th_full(ctx, TH_FLOAT32, TH_SCALAR, value);
}

/* Asserts that t has ended. */
static void assert_stale(th_tensor *t)
{
    ck_assert(isnan(th_item(t)));
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_STATE);
    th_error_clear(ctx);
}

START_TEST(the_parts_of_a_handle_fill_it)
{
    const uint64_t bits = (uint64_t)(uintptr_t)number(1);
    ck_assert_uint_eq(bits >> (TH_HANDLE_BITS - 1), 1); /* no address of a program has this bit */
    ck_assert_uint_eq(bits >> (TH_HANDLE_TENSOR_BITS + 1), ctx->number);
    ck_assert_uint_eq(TH_HANDLE_CONTEXT_BITS + 1 + TH_HANDLE_TENSOR_BITS, TH_HANDLE_BITS);
}
END_TEST

/* Begins a step whose first tensor has this number. */
static void begin_step_at(uint64_t first)
{
    th_tape_clear(ctx);
    ctx->ended_step_tensors = first;
    th_step_begin(ctx);
}

START_TEST(step_tensors_are_recognized_until_their_numbers_repeat)
{
    const uint64_t numbers = (uint64_t)1 << TH_HANDLE_TENSOR_BITS;
    begin_step_at(7);
    th_tensor *old = number(1);
    begin_step_at(7 + numbers - 1); /* number 7 is not given again before the second tensor of this step */
    th_tensor *last = number(2);
    assert_stale(old);
    ck_assert_double_eq(th_item(last), 2);
    ck_assert_ptr_ne(last, old);
    ck_assert_ptr_eq(number(3), old);
}
END_TEST

START_TEST(a_step_continues_when_the_numbers_begin_again)
{
    th_tensor *t[8];
    begin_step_at(((uint64_t)1 << TH_HANDLE_TENSOR_BITS) - 4);
    for (int i = 0; i < 8; i++)
        t[i] = number(i);
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq(th_item(t[i]), i);
    begin_step_at(4);
    for (int i = 0; i < 8; i++)
        assert_stale(t[i]);
}
END_TEST

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

START_TEST(an_owned_tensor_never_gets_an_old_handle)
{
    const size_t reuses = (size_t)1 << (TH_HANDLE_TENSOR_BITS - TH_HANDLE_IMPL_BITS), count = 2 * reuses + 100;
    uintptr_t *handle = malloc(count * sizeof *handle);
    for (size_t i = 0; i < count; i++) {
        th_tensor *t = number((double)i);
        ck_assert_double_eq(th_item(t), (double)i);
        handle[i] = (uintptr_t)t;
        th_tensor_free(t);
    }
    assert_stale((th_tensor *)handle[0]);
    assert_stale((th_tensor *)handle[count - 1]);
    qsort(handle, count, sizeof *handle, by_address);
    for (size_t i = 1; i < count; i++)
        ck_assert(handle[i] != handle[i - 1]);
    free(handle);
}
END_TEST

#if TH_HANDLE_BITS == 32
START_TEST(the_largest_number_of_owned_tensors)
{
    enum { MAX = 1 << TH_HANDLE_IMPL_BITS };
    th_tensor **t = calloc(MAX + 1, sizeof(th_tensor *));
    int count = 0;
    while (count <= MAX && (t[count] = number(count)))
        count++;
    ck_assert_int_eq(count, MAX);
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_MEMORY);
    th_error_clear(ctx);
    th_tensor_free(t[77]);
    ck_assert_double_eq(th_item(number(5)), 5);
    assert_stale(t[77]);
    for (int i = 0; i < count; i++)
        if (i != 77)
            ck_assert_double_eq(th_item(t[i]), i);
    free(t);
}
END_TEST
#endif

START_TEST(a_freed_context_is_recognized_until_its_number_repeats)
{
    th_context *first = th_context_new(NULL);
    th_tensor *old = th_full(first, TH_FLOAT32, TH_SCALAR, 1);
    const uint32_t freed = first->number;
    th_context_free(first);
    for (int i = 1; i < TH_HANDLE_FIRST_CONTEXT && i < 1000; i++) {
        th_context *next = th_context_new(NULL);
        if (next->number == freed) { /* ctx has one of the numbers */
            ck_assert_int_ge(i, TH_HANDLE_FIRST_CONTEXT - 1);
            th_context_free(next);
            break;
        }
        ck_assert(isnan(th_item(old)));
        th_context_free(next);
    }
    th_error_clear(ctx);
}
END_TEST

static void release(th_context *context, void *object)
{
    (void)context;
    (void)object;
}

START_TEST(objects_keep_their_handles_when_the_numbers_begin_again)
{
    int object[4];
    void *handle[4];
    for (int i = 0; i < 4; i++) {
        ck_assert(th_attach_object(ctx, &object[i], release));
        if (i == 1)
            ctx->last_object_number = ((uint64_t)1 << (TH_HANDLE_TENSOR_BITS + 1)) - 2;
        handle[i] = th_object_handle(ctx, &object[i]);
        for (int j = 0; j < i; j++)
            ck_assert_ptr_ne(handle[i], handle[j]);
    }
    for (int i = 0; i < 4; i++) {
        ck_assert_ptr_eq(th_object_of(handle[i], release), &object[i]);
        ck_assert_ptr_eq(th_object_context(handle[i]), ctx);
        th_detach_object(ctx, &object[i]);
        ck_assert_ptr_null(th_object_of(handle[i], release));
    }
}
END_TEST

int main(void)
{
    TCase *handles = new_suite("handle", set_up, tear_down);
    tcase_add_test(handles, the_parts_of_a_handle_fill_it);
    tcase_add_test(handles, step_tensors_are_recognized_until_their_numbers_repeat);
    tcase_add_test(handles, a_step_continues_when_the_numbers_begin_again);
    tcase_add_test(handles, an_owned_tensor_never_gets_an_old_handle);
#if TH_HANDLE_BITS == 32
    tcase_add_test(handles, the_largest_number_of_owned_tensors);
#endif
    tcase_add_test(handles, a_freed_context_is_recognized_until_its_number_repeats);
    tcase_add_test(handles, objects_keep_their_handles_when_the_numbers_begin_again);
    return run_suites();
}

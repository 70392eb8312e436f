/* The storage types: rounding and loading against the package gguf and against arithmetic. Also the same bits with every
 * instruction set, copies, and refusals by every operation and function that does not read them. */
#include <math.h>
#include <string.h>

#include "kernels/machine/crc32c.h"
#include "kernels/storage/block_formats.h"
#include "tapehead/check.h"
#include "tapehead/tapehead.h"
#include "tensor/storage_types.h"

#include "instances.h"

#include "context.h"

/* The first types can be rounded to. */
static const th_dtype stored[] = {TH_BFLOAT16, TH_FLOAT16, TH_Q8_0, TH_Q4_0, TH_Q4_1, TH_Q5_0,   TH_Q5_1,
                                  TH_Q2_K,     TH_Q3_K,    TH_Q4_K, TH_Q5_K, TH_Q6_K, TH_IQ4_NL, TH_IQ4_XS};
enum { STORED = 4, ALL_STORED = sizeof stored / sizeof *stored };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

START_TEST(names_and_sizes)
{
    static const char *const names[] = {"bfloat16", "float16", "q8_0", "q4_0", "q4_1", "q5_0",   "q5_1",
                                        "q2_k",     "q3_k",    "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"};
    static const size_t sizes[] = {2, 2, 34, 18, 20, 22, 24, 84, 110, 144, 176, 210, 18, 136};
    static const int numbers[] = {1, 1, 32, 32, 32, 32, 32, 256, 256, 256, 256, 256, 32, 256};
    for (int i = 0; i < ALL_STORED; i++) {
        ck_assert_str_eq(th_dtype_name(stored[i]), names[i]);
        ck_assert_uint_eq(th_dtype_size(stored[i]), sizes[i]);
        ck_assert_int_eq(th_dtype_numbers(stored[i]), numbers[i]);
    }
    ck_assert_int_eq(th_dtype_numbers(TH_BOOL), 1);
    ck_assert_int_eq(th_dtype_numbers(TH_DTYPE_COUNT), 0);
    ck_assert_int_eq(th_dtype_numbers((th_dtype)-1), 0);
}
END_TEST

/* -- rounding -- */

enum { BLOCKS = 400 };

/* Numbers whose magnitude grows from block to block, by the generator of Numerical Recipes. */
static th_tensor *numbers(th_dtype dtype)
{
    static double values[BLOCKS * TH_BLOCK_NUMBERS];
    uint32_t state = 12345;
    for (int i = 0; i < BLOCKS * TH_BLOCK_NUMBERS; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (double)(float)ldexp((double)(int32_t)state, i / TH_BLOCK_NUMBERS % 40 - 61);
    }
    return th_cast(th_from_data(ctx, TH_FLOAT64, TH_SHAPE(BLOCKS, TH_BLOCK_NUMBERS), values), dtype);
}

static uint32_t checksum(th_tensor *t)
{
    ck_assert_msg(t != NULL, "%s", th_error_message(ctx));
    return th_crc32c(0, th_data_const(t), (size_t)th_numel(t) * th_dtype_size(th_dtype_of(t)));
}

/* The checksums and blocks are those of gguf.quants.quantize and dequantize, and of numpy's float16. */
START_TEST(rounding_equals_gguf)
{
    static const uint32_t bytes[] = {0x0f3e4898, 0xaf099e6a, 0xcf24b0ae, 0x677d999e},
                          loaded[] = {0xb73f2f87, 0x218393c0};
    static const uint8_t q8_0[34] = {2,  36,  16, 145, 102, 20, 248, 116, 136, 21, 110, 160, 126, 229, 46, 247, 103,
                                     21, 122, 7,  124, 109, 60, 3,   209, 206, 3,  26,  224, 176, 127, 61, 173, 5},
                         q4_0[18] = {243, 179, 7, 143, 2, 23, 73, 129, 191, 183, 129, 110, 160, 218, 5, 73, 210, 135};
    static const th_dtype from[] = {TH_FLOAT32, TH_FLOAT64};
    for (int f = 0; f < 2; f++) {
        for (int i = 0; i < STORED; i++)
            ck_assert_uint_eq(checksum(th_cast(numbers(from[f]), stored[i])), bytes[i]);
        const th_q8_0 *eight = th_data_const(th_cast(numbers(from[f]), TH_Q8_0));
        const th_q4_0 *four = th_data_const(th_cast(numbers(from[f]), TH_Q4_0));
        ck_assert_mem_eq(eight + 31, q8_0, sizeof q8_0);
        ck_assert_mem_eq(four + 31, q4_0, sizeof q4_0);
    }
    ck_assert_uint_eq(checksum(th_cast(th_cast(numbers(TH_FLOAT32), TH_Q8_0), TH_FLOAT32)), loaded[0]);
    ck_assert_uint_eq(checksum(th_cast(th_cast(numbers(TH_FLOAT32), TH_Q4_0), TH_FLOAT32)), loaded[1]);
}
END_TEST

/* The value of 16 bits: 1 sign, the exponent, `fraction` bits. */
static double value_of(uint16_t bits, int fraction)
{
    const int exponents = 1 << (15 - fraction), bias = exponents / 2 - 1;
    const int exponent = (bits & 0x7fff) >> fraction, rest = bits & ((1 << fraction) - 1);
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == exponents - 1)
        return rest ? NAN : sign * INFINITY;
    return sign * ldexp(rest + (exponent ? 1 << fraction : 0), (exponent ? exponent : 1) - bias - fraction);
}

START_TEST(all_16_bit_numbers_load_and_round_to_themselves)
{
    static uint16_t all[65536];
    for (int i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (int type = 0; type < 2; type++) {
        const int fraction = type == 0 ? 7 : 10;
        th_tensor *t = th_from_data(ctx, stored[type], TH_SHAPE(65536), all);
        static const th_dtype floating[] = {TH_FLOAT32, TH_FLOAT64};
        for (int f = 0; f < 2; f++) {
            th_tensor *loaded = th_cast(t, floating[f]);
            const float *single = th_data_const(loaded);
            const double *full = th_data_const(loaded);
            const uint16_t *back = th_data_const(th_cast(loaded, stored[type]));
            for (int i = 0; i < 65536; i++) {
                const double value = f == 0 ? (double)single[i] : full[i], expected = value_of(all[i], fraction);
                ck_assert_msg(same(value, expected), "%s 0x%04x is %a, not %a", th_dtype_name(stored[type]), i, value,
                              expected);
                const int quiet = isnan(expected) ? 1 << (fraction - 1) : 0;
                ck_assert_int_eq(back[i], i | quiet);
            }
        }
    }
}
END_TEST

static uint16_t rounded(double value, th_dtype dtype)
{
    uint16_t bits;
    th_round_to_storage_type(1, dtype, &bits, &value);
    return bits;
}

START_TEST(rounding_is_to_nearest_even)
{
    for (int type = 0; type < 2; type++) {
        const int fraction = type == 0 ? 7 : 10;
        const int largest = (0x7fff >> fraction << fraction) - 1;
        for (int i = 0; i < largest; i++) { /* between each number and the next */
            const double low = value_of((uint16_t)i, fraction), high = value_of((uint16_t)(i + 1), fraction);
            const double middle = low + (high - low) / 2;
            ck_assert_int_eq(rounded(middle, stored[type]), i + (i & 1));
            ck_assert_int_eq(rounded(nextafter(middle, 0), stored[type]), i);
            ck_assert_int_eq(rounded(-nextafter(middle, INFINITY), stored[type]), 0x8000 | (i + 1));
        }
        const double end = value_of((uint16_t)largest, fraction),
                     step = end - value_of((uint16_t)(largest - 1), fraction);
        ck_assert_int_eq(rounded(nextafter(end + step / 2, 0), stored[type]), largest);
        ck_assert_int_eq(rounded(end + step / 2, stored[type]), largest + 1); /* infinity */
        ck_assert_int_eq(rounded(-0x1p1000, stored[type]), 0x8000 | (largest + 1));
        ck_assert_int_eq(rounded(-0x1p-1070, stored[type]), 0x8000);
    }
}
END_TEST

/* -- blocks with unusual numbers -- */

START_TEST(a_block_with_a_non_finite_number_is_nan)
{
    static const float unusual[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++)
        for (int type = 2; type < STORED; type++) {
            float x[96];
            for (int j = 0; j < 96; j++)
                x[j] = (float)(j % 32 - 16);
            x[40 + i] = unusual[i];
            th_tensor *t = th_cast(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(96), x), stored[type]);
            const float *y = th_data_const(th_cast(t, TH_FLOAT32));
            for (int j = 0; j < 96; j++)
                ck_assert_msg(isnan(y[j]) == (j / 32 == 1) && (j / 32 == 1 || fabsf(y[j] - x[j]) <= 1.1f), "%d: %g", j,
                              (double)y[j]);
        }
}
END_TEST

START_TEST(tiny_and_huge_blocks)
{
    static const float sizes[] = {0, -0.0F, 0x1p-149F, 0x1p-126F, 0x1p-24F, 0x1p15F, 0x1.fffffep127F};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int type = 2; type < STORED; type++) {
            float x[32] = {sizes[i], -sizes[i], sizes[i] / 2};
            const float *y = th_data_const(
                th_cast(th_cast(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(32), x), stored[type]), TH_FLOAT32));
            for (int j = 0; j < 3; j++) {
                const bool fits = sizes[i] <= 0x1p15F;
                ck_assert_msg(!fits || fabsf(y[j] - x[j]) <= fabsf(sizes[i]) / 7 + 0x1p-20F, "%g became %g",
                              (double)x[j], (double)y[j]);
                ck_assert(fits || isinf(y[j]) || isnan(y[j])); /* the scale overflows, as in ggml */
            }
        }
}
END_TEST

/* -- layouts -- */

START_TEST(rows_in_any_layout_convert)
{
    for (int type = 0; type < STORED; type++)
        for (int odd = 0; odd < 2; odd++) {
            const int64_t width = odd && type < 2 ? 601 : 640, blocks = width / th_dtype_numbers(stored[type]);
            th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(3, width, 5));
            th_tensor *across = th_transpose(x, TH_AXES(2, 0, 1)); /* (5, 3, width) */
            th_tensor *t = th_cast(across, stored[type]), *plain = th_cast(th_contiguous(across), stored[type]);
            assert_shape(t, TH_SHAPE(5, 3, blocks));
            ck_assert_uint_eq(checksum(t), checksum(plain));
            /* rows of a slice, backward into strided memory */
            th_tensor *rows = th_slice(t, 0, 1, 5, 2);
            th_tensor *wide = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 3, 2 * width));
            th_tensor *every_second = th_slice(wide, 2, 1, 2 * width, 2);
            ck_assert_int_eq(th_copy_into(every_second, rows), TH_OK);
            th_tensor *expected = th_slice(th_cast(t, TH_FLOAT32), 0, 1, 5, 2);
            ck_assert_uint_eq(checksum(th_contiguous(every_second)), checksum(th_contiguous(expected)));
            th_tensor *copy = th_keep(rows);
            ck_assert_uint_eq(checksum(th_cast(copy, TH_FLOAT32)), checksum(th_contiguous(expected)));
            th_tensor_free(copy);
            th_tape_clear(ctx);
        }
    th_tensor *scalar = th_cast(th_ones(ctx, TH_FLOAT64, TH_SCALAR), TH_FLOAT16);
    ck_assert(th_item(th_cast(th_cast(scalar, TH_BFLOAT16), TH_FLOAT32)) == 1);
    assert_shape(th_cast(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, 64)), TH_Q4_0), TH_SHAPE(0, 2));
    assert_shape(th_cast(th_zeros(ctx, TH_Q8_0, TH_SHAPE(3, 0)), TH_FLOAT32), TH_SHAPE(3, 0));
    assert_shape(th_cast(th_zeros(ctx, TH_Q8_0, TH_SHAPE(3, 2)), TH_FLOAT16), TH_SHAPE(3, 64));
}
END_TEST

/* Returns n numbers of a type: rounded ones, or blocks of any bytes whose scales are 1.5 or -1.5. */
static const void *stored_numbers(th_dtype dtype, int64_t n)
{
    static unsigned char bytes[BLOCKS * TH_BLOCK_NUMBERS];
    const th_block_format *format = th_block_format_of(dtype);
    const size_t size = th_dtype_size(dtype);
    if (dtype <= TH_Q4_0)
        return th_data_const(th_cast(numbers(TH_FLOAT32), dtype));
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i * 2654435761u >> 16);
    for (int64_t i = 0; i < n / th_dtype_numbers(dtype); i++)
        for (int k = 0; k < format->scales; k++) {
            const uint16_t scale = (uint16_t)(0x3e00 | (bytes[i] & 1) << 15);
            memcpy(bytes + (size_t)i * size + format->scale + 2 * k, &scale, sizeof scale);
        }
    return bytes;
}

START_TEST(instruction_sets_load_the_same_bits)
{
    for (int type = 0; type < ALL_STORED; type++) {
        const int64_t n = BLOCKS * TH_BLOCK_NUMBERS;
        const void *data = stored_numbers(stored[type], n);
        static float single[2][BLOCKS * TH_BLOCK_NUMBERS];
        static double full[BLOCKS * TH_BLOCK_NUMBERS];
        for (int isa = 0; isa < ISAS; isa++) {
            if (!supported(isa))
                continue;
            for (int64_t count = 0; count <= n; count += count < 640 ? 32 : n - 640) {
                memset(single[isa > 0], 0, sizeof single[0]);
                f32[isa]->storage_load(count, (int)stored[type], data, 0, single[isa > 0]);
                f64[isa]->storage_load(count, (int)stored[type], data, 0, full);
                if (isa == 0 && count < n)
                    f32[0]->storage_load(n, (int)stored[type], data, 0, single[0]);
                ck_assert_mem_eq(single[isa > 0], single[0], (size_t)count * sizeof(float));
                for (int64_t i = 0; i < count; i++)
                    ck_assert((double)single[0][i] == full[i]);
                ck_assert(isa == 0 || count == n || single[1][count] == 0); /* nothing after the end is written */
                float part[TH_BLOCK_NUMBERS];
                if (count < n) {
                    f32[isa]->storage_load(TH_BLOCK_NUMBERS, (int)stored[type], data, count, part);
                    ck_assert_mem_eq(part, single[0] + count, sizeof part);
                }
            }
        }
    }
}
END_TEST

/* -- refusals -- */

START_TEST(every_other_operation_refuses_them)
{
    static const char *const readers[] = {"cast", "dense", "dense_cross_entropy", "embedding", "slice"};
    const th_op *op = th_op_at(_i);
    bool reads = false;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        reads |= strcmp(op->name, readers[i]) == 0;
    ck_assert_msg(reads == (op->storage != 0), "%s", op->name);
    const th_sample *sample = op->samples;
    if (sample == NULL || sample->name == NULL || sample->n_inputs > TH_MAX_INPUTS)
        return;
    for (int input = 0; input < sample->n_inputs; input++)
        for (int type = 0; type < ALL_STORED; type++) {
            th_tensor *inputs[TH_MAX_INPUTS];
            ck_assert_int_eq(th_sample_inputs(ctx, sample, TH_FLOAT32, 1, inputs), TH_OK);
            inputs[input] = th_zeros(ctx, stored[type], TH_SHAPE(2, 1));
            if (op->n_inputs != TH_ANY_INPUTS && (op->storage & TH_INPUT(input)))
                continue;
            expect_status(th_apply_check(op, sample->attributes, sample->n_inputs, inputs), TH_ERROR_TYPE, op->name);
            ck_assert_ptr_null(th_apply_n(op, sample->attributes, sample->n_inputs, inputs, NULL));
            expect_error(TH_ERROR_TYPE, th_dtype_name(stored[type]));
            th_tape_clear(ctx);
        }
}
END_TEST

START_TEST(functions_on_numbers_refuse_them)
{
    for (int type = 0; type < ALL_STORED; type++) {
        const th_dtype dtype = stored[type];
        const char *name = th_dtype_name(dtype);
        th_tensor *t = th_zeros(ctx, dtype, TH_SHAPE(1, 1));
        no_error();
        ck_assert(isnan(th_item(t)));
        expect_error(TH_ERROR_TYPE, name);
        ck_assert(isnan(th_get(t, TH_INDEX(0, 0))));
        expect_error(TH_ERROR_TYPE, name);
        expect_status(th_set(t, TH_INDEX(0, 0), 1), TH_ERROR_TYPE, name);
        expect_status(th_fill(t, 0), TH_ERROR_TYPE, name);
        expect_status(th_fill_uniform(t, 0, 1), TH_ERROR_TYPE, name);
        expect_status(th_fill_normal(t, 0, 1), TH_ERROR_TYPE, name);
        expect_status(th_fill_xavier_uniform(t, 1), TH_ERROR_TYPE, name);
        expect_status(th_print(t, stdout, NULL), TH_ERROR_TYPE, name);
        char text[10];
        ck_assert_int_eq(th_print_text(t, text, sizeof text, NULL), -1);
        expect_error(TH_ERROR_TYPE, name);
        assert_error(th_ones(ctx, dtype, TH_SHAPE(2)), TH_ERROR_TYPE, name);
        assert_error(th_full(ctx, dtype, TH_SHAPE(2), 2), TH_ERROR_TYPE, name);
        assert_error(th_arange(ctx, dtype, 0, 3, 1), TH_ERROR_TYPE, name);
        assert_error(th_uniform(ctx, dtype, TH_SHAPE(2), 0, 1), TH_ERROR_TYPE, name);
        assert_error(th_normal(ctx, dtype, TH_SHAPE(2), 0, 1), TH_ERROR_TYPE, name);
        assert_error(th_random_integers(ctx, dtype, TH_SHAPE(2), 0, 1), TH_ERROR_TYPE, name);
        assert_error(th_set_requires_gradient(t, true), TH_ERROR_TYPE, name);
        expect_status(th_set_default_dtype(ctx, dtype), TH_ERROR_TYPE, name);
        assert_error(th_cast(t, TH_INT32), TH_ERROR_TYPE, "int32");
        assert_error(th_cast(th_zeros(ctx, TH_BOOL, TH_SHAPE(32)), dtype), TH_ERROR_TYPE, "bool");
    }
    assert_error(th_cast(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 33)), TH_Q8_0), TH_ERROR_SHAPE, "(2, 33)");
    assert_error(th_cast(th_zeros(ctx, TH_FLOAT32, TH_SCALAR), TH_Q4_0), TH_ERROR_SHAPE, "an axis");
    assert_error(th_cast(th_zeros(ctx, TH_BFLOAT16, TH_SHAPE(31)), TH_Q4_0), TH_ERROR_SHAPE, "(31)");
}
END_TEST

START_TEST(copies_keep_the_bytes)
{
    for (int type = 0; type < ALL_STORED; type++) {
        const size_t size = th_dtype_size(stored[type]);
        unsigned char bytes[6 * 210], out[6 * 210];
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)(37 * i);
        th_tensor *t = th_from_data(ctx, stored[type], TH_SHAPE(2, 3), bytes);
        ck_assert_int_eq(th_copy_out(t, out, 6 * size), TH_OK);
        ck_assert_mem_eq(out, bytes, 6 * size);
        th_tensor *zeros = th_zeros(ctx, stored[type], TH_SHAPE(2, 3));
        ck_assert_int_eq(th_copy_into(zeros, t), TH_OK);
        ck_assert_mem_eq(th_data_const(zeros), bytes, 6 * size);
        ck_assert_int_eq(th_copy_in(zeros, bytes + size / 2, 5 * size), TH_ERROR_SHAPE);
        expect_error(TH_ERROR_SHAPE, th_dtype_name(stored[type]));
        th_tensor *column = th_slice(t, 1, 1, 2, 1); /* strided elements, most of 18 to 210 bytes */
        ck_assert_int_eq(th_copy_out(column, out, 2 * size), TH_OK);
        ck_assert_mem_eq(out, bytes + size, size);
        ck_assert_mem_eq(out + size, bytes + 4 * size, size);
        th_tensor *wrong = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 4));
        expect_status(th_copy_into(wrong, t), TH_ERROR_SHAPE, th_dtype_name(stored[type]));
        expect_status(th_copy_into(th_zeros(ctx, TH_INT64, TH_SHAPE(2, 3)), t), TH_ERROR_TYPE, "int64");
    }
}
END_TEST

/* The types after q4_0 are only read. */
START_TEST(numbers_are_not_rounded_to_the_other_types)
{
    th_module *model = th_dense_new(ctx, 256, 4, NULL);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    for (int type = STORED; type < ALL_STORED; type++) {
        const char *name = th_dtype_name(stored[type]);
        assert_error(th_cast(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 256)), stored[type]), TH_ERROR_TYPE, name);
        th_tensor *to = th_zeros(ctx, stored[type], TH_SHAPE(1, 1));
        th_tensor *from = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1, th_dtype_numbers(stored[type])));
        expect_status(th_copy_into(to, from), TH_ERROR_TYPE, name);
        expect_status(th_module_store(model, stored[type]), TH_ERROR_TYPE, name);
    }
    th_module_free(model);
}
END_TEST

START_TEST(a_cast_to_a_storage_type_ends_the_gradient)
{
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 32)), true);
    for (int type = 0; type < STORED; type++) {
        th_tensor *t = th_cast(x, stored[type]);
        ck_assert(!th_requires_gradient(t));
        ck_assert(!th_requires_gradient(th_cast(t, TH_FLOAT32)));
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("storage types", setup, close_context);
    tcase_add_test(tests, names_and_sizes);
    tcase_add_test(tests, rounding_equals_gguf);
    tcase_add_test(tests, all_16_bit_numbers_load_and_round_to_themselves);
    tcase_add_test(tests, rounding_is_to_nearest_even);
    tcase_add_test(tests, a_block_with_a_non_finite_number_is_nan);
    tcase_add_test(tests, tiny_and_huge_blocks);
    tcase_add_test(tests, rows_in_any_layout_convert);
    tcase_add_test(tests, instruction_sets_load_the_same_bits);
    tcase_add_loop_test(tests, every_other_operation_refuses_them, 0, th_op_count());
    tcase_add_test(tests, functions_on_numbers_refuse_them);
    tcase_add_test(tests, copies_keep_the_bytes);
    tcase_add_test(tests, numbers_are_not_rounded_to_the_other_types);
    tcase_add_test(tests, a_cast_to_a_storage_type_ends_the_gradient);
    return run_suites();
}

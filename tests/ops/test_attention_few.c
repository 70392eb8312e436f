/* Attention of few queries (a step of generation) has the bits of the same queries in a whole sequence, although it reads keys
 * and values in place. The tests have windows, groups of heads, strided operands, both types, and NaN at hidden keys. B sequences, H
 * heads, KV heads of keys and values, S keys. */
#include <math.h>
#include <string.h>

#include "tapehead/tapehead.h"

#include "context.h"

enum { B = 2, H = 4, KV = 2, S = 150 };
static const int64_t widths[] = {1, 3, 16, 32, 64, 80};

typedef struct operands {
    th_tensor *q, *k, *v;
} operands;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2});
    th_no_grad_begin(ctx);
}

static void teardown(void)
{
    th_no_grad_end(ctx);
    close_context();
}

/* (B, heads, S, width); split: a view of (B, S, heads width), as a projection gives it. */
static th_tensor *random_heads(th_dtype dtype, int64_t heads, int64_t width, bool split)
{
    if (!split)
        return th_randn(ctx, dtype, TH_SHAPE(B, heads, S, width));
    return th_swap_axes(th_randn(ctx, dtype, TH_SHAPE(B, S, heads, width)), 1, 2);
}

static th_tensor *attend(const operands *o, th_tensor *q, th_tensor *positions, const th_mask *kind)
{
    th_mask mask = *kind;
    mask.positions = positions;
    return th_scaled_dot_product_attention(q, o->k, o->v, &(th_attention_options){.mask = &mask});
}

/* Sets the keys and values that no query of positions first .. past - 1 sees to NaN. */
static operands hide(operands *o, int64_t first, int64_t past, const th_mask *mask)
{
    const int64_t begin = mask->window.given && first - mask->window.left > 0 ? first - mask->window.left : 0;
    operands hidden = {o->q, th_concat(&o->k, 1, 0), th_concat(&o->v, 1, 0)};
    for (int i = 0; i < 2; i++) {
        th_tensor *t = i ? hidden.v : hidden.k;
        if (begin > 0)
            ck_assert_int_eq(th_fill(th_slice(t, 2, 0, begin, 1), NAN), TH_OK);
        if (past < S)
            ck_assert_int_eq(th_fill(th_slice(t, 2, past, S, 1), NAN), TH_OK);
    }
    return hidden;
}

static void compare(operands *o, const th_mask *mask, const char *what)
{
    th_tensor *all = attend(o, o->q, NULL, mask);
    for (int64_t count = 1; count <= 5; count++)
        for (int64_t first = 0; first + count <= S; first += 37) {
            int64_t position[5];
            for (int64_t i = 0; i < count; i++)
                position[i] = first + i;
            th_tensor *positions = th_from_data(ctx, TH_INT64, TH_SHAPE(count), position);
            th_tensor *q = th_slice(o->q, 2, first, first + count, 1);
            th_tensor *expected = th_contiguous(th_slice(all, 2, first, first + count, 1));
            for (int hides = 0; hides < 2; hides++) {
                const operands used = hides ? hide(o, first, first + count, mask) : *o;
                th_tensor *got = th_contiguous(attend(&used, q, positions, mask));
                no_error();
                const size_t bytes = (size_t)th_numel(got) * th_dtype_size(th_dtype_of(got));
                ck_assert_msg(memcmp(th_data(got), th_data(expected), bytes) == 0,
                              "%s: %lld queries from %lld%s differ from the whole sequence", what, (long long)count,
                              (long long)first, hides ? ", NaN at hidden keys," : "");
            }
        }
}

START_TEST(few_queries_have_the_bits_of_all)
{
    static const th_mask masks[] = {{.causal = TH_CAUSAL_TOP_LEFT},
                                    {.causal = TH_CAUSAL_TOP_LEFT, .window = {true, 20, -1}},
                                    {.causal = TH_CAUSAL_TOP_LEFT, .window = {true, 0, -1}}};
    const int64_t width = widths[_i];
    for (int type = 0; type < 2; type++)
        for (int split = 0; split < 2; split++) {
            const th_dtype dtype = type ? TH_FLOAT64 : TH_FLOAT32;
            th_scope_begin(ctx, NULL);
            operands o = {random_heads(dtype, H, width, split), random_heads(dtype, KV, width, split),
                          random_heads(dtype, KV, width, split)};
            static const char *const names[] = {"causal", "window of 21", "window of 1"};
            for (int m = 0; m < 3; m++)
                compare(&o, &masks[m], names[m]);
            th_scope_end(ctx, NULL);
        }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("attention of few queries", setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, few_queries_have_the_bits_of_all, 0, (int)(sizeof widths / sizeof *widths));
    return run_suites();
}

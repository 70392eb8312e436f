/* Scopes that a forward leaves open, ends twice or opens too often. Afterwards the context continues with identical results. */
#include <math.h>

#include "tapehead/tapehead.h"

#include "misuse.h"

typedef struct careless {
    th_module base;
    bool returns_early;
    void (*before)(th_module *m);
} careless;

static th_tensor *careless_forward(th_module *m, th_tensor *x)
{
    const careless *c = (const careless *)m;
    if (c->before)
        c->before(m);
    return c->returns_early ? NULL : th_scale(x, 2);
}

static careless *new_careless(void)
{
    careless *c = th_module_new(ctx, sizeof *c, "careless", careless_forward);
    ck_assert_ptr_nonnull(c);
    return c;
}

/* A forward as a user writes it in C. */
static th_tensor *careless_function(careless *c, th_tensor *x, th_tensor *y)
{
    if (!th_module_begin(&c->base))
        return NULL;
    th_tensor *h = th_add(x, y);
    if (!h)
        return NULL;
    return th_module_end(&c->base, th_scale(h, 2));
}

START_TEST(tape_clear_closes_scopes_that_a_forward_left_open)
{
    careless *outer = new_careless(), *c = new_careless();
    ck_assert_ptr_nonnull(th_module_add(&outer->base, "inner", &c->base));
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), *wrong = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3));
    for (int i = 0; i < 200; i++) {
        if (i % 2) {
            th_scope_begin(ctx, "more");
            ck_assert(th_module_begin(&outer->base));
        }
        ck_assert_ptr_null(careless_function(c, x, wrong));
        if (i % 4 < 2) {
            expect_error(TH_ERROR_SHAPE, i % 2 ? "; in more.inner" : "; in inner");
            th_tape_clear(ctx);
        } else {
            th_tape_clear(ctx);
            th_error_clear(ctx);
        }
        assert_outside();
        th_tensor *y = careless_function(c, x, x);
        ck_assert_double_eq(th_get(y, TH_INDEX(1)), 4);
    }
}
END_TEST

START_TEST(a_module_closes_scopes_left_open_in_it)
{
    careless *outer = new_careless(), *inner = new_careless();
    ck_assert_ptr_nonnull(th_module_add(&outer->base, "inner", &inner->base));
    th_module_pin_evaluation(&inner->base, true);
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2));
    ck_assert(th_module_begin(&outer->base));
    th_scope_begin(ctx, NULL);
    ck_assert(th_module_begin(&inner->base));
    th_no_grad_begin(ctx);
    ck_assert(!th_is_training(ctx) && !th_is_recording(ctx));
    th_tensor *y = th_scale(x, 3);
    ck_assert_ptr_eq(th_module_end(&outer->base, y), y);
    ck_assert(th_is_training(ctx) && th_is_recording(ctx));
    ck_assert_double_eq(th_get(y, TH_INDEX(0)), 3);
    ck_assert_ptr_eq(th_module_end(&inner->base, y), y); /* too late, twice, and without a begin */
    ck_assert_ptr_eq(th_module_end(&outer->base, y), y);
    ck_assert_ptr_eq(th_scope_end(ctx, y), y);
    assert_outside();
}
END_TEST

START_TEST(an_extra_end_does_not_close_the_forward_around_it)
{
    careless *c = new_careless();
    ck_assert(th_module_begin(&c->base));
    th_scope_end(ctx, NULL);
    th_tensor *inside = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1));
    ck_assert_ptr_null(th_module_end(&c->base, NULL));
    ck_assert(isnan(th_item(inside)));
    expect_error(TH_ERROR_STATE, "was released when its scope ended");
    assert_outside();
}
END_TEST

static void end_around(th_module *m)
{
    ck_assert_ptr_null(th_module_end(m, NULL));
    ck_assert_ptr_null(th_module_end(m->parent, NULL));
    th_scope_end(m->ctx, NULL);
    th_tape_clear(m->ctx);
    ck_assert(!th_is_training(m->ctx));
}

START_TEST(a_forward_cannot_end_the_scopes_around_it)
{
    careless *outer = new_careless(), *inner = new_careless();
    ck_assert_ptr_nonnull(th_module_add(&outer->base, "inner", &inner->base));
    inner->before = end_around;
    th_module_pin_evaluation(&inner->base, true);
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2));
    for (int i = 0; i < 3; i++) {
        ck_assert(th_module_begin(&outer->base));
        ck_assert_double_eq(th_get(th_module_forward(&inner->base, x), TH_INDEX(1)), 2);
        ck_assert(th_is_training(ctx));
        th_tensor *inside = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1)), *y = th_scale(x, 3);
        ck_assert_ptr_eq(th_module_end(&outer->base, y), y);
        ck_assert_double_eq(th_get(y, TH_INDEX(0)), 3);
        ck_assert(isnan(th_item(inside)));
        expect_error(TH_ERROR_STATE, "was released when its scope ended");
        assert_outside();
    }
    th_module_free(&outer->base);
    no_error();
}
END_TEST

static void clear_tape(th_module *m)
{
    th_tape_clear(m->ctx);
    th_tensor *t = th_ones(m->ctx, TH_FLOAT32, TH_SHAPE(1));
    th_tape_clear(m->ctx);
    ck_assert(isnan(th_item(t))); /* created in a forward, so the step owned it */
    assert_error_of(m->ctx, TH_ERROR_STATE, "ended");
}

START_TEST(tape_clear_inside_a_forward_ends_its_operand)
{
    careless *c = new_careless();
    c->before = clear_tape;
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(1));
    ck_assert_double_eq(th_item(th_module_forward(&c->base, x)), 2); /* an owned operand survives th_tape_clear */
    ck_assert_ptr_null(th_module_forward(&c->base, th_scale(x, 1)));
    expect_error(TH_ERROR_STATE, "scale: input 0 belongs to a step that th_tape_clear ended");
    ck_assert_double_eq(th_item(th_module_evaluate(&c->base, x)), 2);
    ck_assert(th_is_recording(ctx) && th_is_training(ctx));
    assert_outside();
}
END_TEST

START_TEST(recording_is_on_again_after_a_failed_step)
{
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), *wrong = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3));
    for (int i = 0; i < 4; i++) {
        th_tape_clear(ctx);
        th_no_grad_begin(ctx);
        ck_assert_ptr_null(th_add(x, wrong)); /* without th_no_grad_end */
        if (i % 2)
            th_error_clear(ctx);
        th_tape_clear(ctx);
        th_error_clear(ctx);
        ck_assert(th_is_recording(ctx));
    }
    /* Recording that was off before the failed step stays off, and so does recording in a step that did not fail. */
    th_no_grad_begin(ctx);
    th_tape_clear(ctx);
    ck_assert(!th_is_recording(ctx));
    ck_assert_ptr_null(th_add(x, wrong));
    th_error_clear(ctx);
    th_tape_clear(ctx);
    ck_assert(!th_is_recording(ctx));
    th_no_grad_end(ctx);
    ck_assert(th_is_recording(ctx));
}
END_TEST

START_TEST(a_mode_set_after_an_early_return_stays)
{
    careless *c = new_careless();
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), *wrong = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3));
    ck_assert_ptr_null(careless_function(c, x, wrong));
    th_set_training(ctx, false);
    th_error_clear(ctx);
    th_tape_clear(ctx);
    ck_assert(!th_is_training(ctx));
    th_set_training(ctx, true);
    th_module_pin_evaluation(&c->base, true);
    ck_assert_ptr_null(careless_function(c, x, wrong));
    ck_assert(!th_is_training(ctx));
    th_error_clear(ctx);
    th_tape_clear(ctx);
    ck_assert(th_is_training(ctx));
}
END_TEST

START_TEST(a_module_that_returned_early_can_be_freed)
{
    careless *c = new_careless();
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), *wrong = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3));
    ck_assert_ptr_null(careless_function(c, x, wrong));
    th_module_free(&c->base); /* with the error pending */
    expect_error(TH_ERROR_SHAPE, "add");
    assert_outside();
    c = new_careless();
    ck_assert_ptr_null(careless_function(c, x, wrong));
    th_error_clear(ctx);
    th_module_free(&c->base);
    expect_error(TH_ERROR_STATE, "careless cannot be freed while its forward runs (th_tape_clear ends");
    th_tape_clear(ctx);
    th_module_free(&c->base);
    assert_outside();
}
END_TEST

START_TEST(too_many_scopes)
{
    for (int i = 0; i < 3; i++) {
        for (int depth = 0; depth < 70; depth++)
            th_scope_begin(ctx, "s");
        expect_error(TH_ERROR_STATE, "more than 64 scopes are open");
        ck_assert(!th_module_begin(&new_careless()->base));
        expect_error(TH_ERROR_STATE, "more than 64 scopes are open");
        for (int depth = 0; depth < 70; depth++)
            th_scope_end_all(ctx, NULL, 0);
        assert_outside();
    }
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("open_scopes", setup, close_context);
    tcase_add_test(tcase, tape_clear_closes_scopes_that_a_forward_left_open);
    tcase_add_test(tcase, a_module_closes_scopes_left_open_in_it);
    tcase_add_test(tcase, an_extra_end_does_not_close_the_forward_around_it);
    tcase_add_test(tcase, a_forward_cannot_end_the_scopes_around_it);
    tcase_add_test(tcase, tape_clear_inside_a_forward_ends_its_operand);
    tcase_add_test(tcase, recording_is_on_again_after_a_failed_step);
    tcase_add_test(tcase, a_mode_set_after_an_early_return_stays);
    tcase_add_test(tcase, a_module_that_returned_early_can_be_freed);
    tcase_add_test(tcase, too_many_scopes);
    return run_suites();
}

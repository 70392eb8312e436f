/* Tests of the profile: its counts, its table, its trace as JSON, and its memory: bounded, and never a reason for
 * training to fail. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory.h"
#include "tapehead/tapehead.h"

#include "context.h"

static test_memory memory;

static void setup(void)
{
    memory = (test_memory){0};
    ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
}

/* -- the profiled model: small, with a layer norm that backward recomputes -- */

enum { ROWS = 6, INPUTS = 5, WIDTH = 4 };

typedef struct net {
    th_module base;
    th_module *first, *norm, *second;
    th_tensor *shift; /* (WIDTH), broadcast */
} net;

static th_tensor *net_forward(th_module *m, th_tensor *x)
{
    net *n = (net *)m;
    th_tensor *h = th_module_forward(n->norm, th_module_forward(n->first, x));
    return th_add(th_module_forward(n->second, h), n->shift);
}

typedef struct training {
    th_module *model;
    th_optimizer *optimizer;
    th_tensor *x;
} training;

static training start(void)
{
    net *n = th_module_new(ctx, sizeof *n, "net", net_forward);
    n->first = th_module_add(&n->base, "first", th_dense_new(ctx, INPUTS, WIDTH, NULL));
    n->norm = th_module_add(&n->base, "norm", th_layer_norm_new(ctx, WIDTH, NULL));
    n->second = th_module_add(&n->base, "say \"\\\" in \xc3\xa9 \xe9\n", th_dense_new(ctx, WIDTH, WIDTH, NULL));
    n->shift = th_module_add_parameter(&n->base, "shift", TH_SHAPE(WIDTH));
    return (training){&n->base, th_adam_w_new(&n->base, &(th_adam_options){.learning_rate = 1e-2}),
                      th_zeros(ctx, TH_FLOAT32, TH_SHAPE(ROWS, INPUTS))};
}

static void step(const training *t)
{
    th_tensor *y = th_module_forward(t->model, t->x);
    th_tensor *loss = th_sum(th_mul(y, y), TH_ALL_AXES, NULL);
    ck_assert_msg(th_backward(loss, NULL) == TH_OK && th_optimizer_step(t->optimizer) == TH_OK, "%s",
                  th_error_message(ctx));
    th_tape_clear(ctx);
}

/* Returns the entry of an operation in a phase; one without calls if it does not exist. */
static th_profile_entry entry_of(const char *operation, th_profile_phase phase)
{
    th_profile_entry entry;
    for (int64_t i = 0; i < th_profile_count(ctx); i++) {
        ck_assert_int_eq(th_profile_entry_at(ctx, i, &entry), TH_OK);
        if (strcmp(entry.operation, operation) == 0 && entry.phase == phase)
            return entry;
    }
    return (th_profile_entry){.calls = 0};
}

/* -- a strict JSON parser: each function returns the end of what it parsed, or NULL -- */

static const char *value(const char *c);

static const char *space(const char *c)
{
    return c ? c + strspn(c, " \t\r\n") : NULL;
}

static const char *literal(const char *c, const char *text)
{
    c = space(c);
    return c && strncmp(c, text, strlen(text)) == 0 ? c + strlen(text) : NULL;
}

static const char *string(const char *c)
{
    c = literal(c, "\"");
    while (c && *c != '"') {
        if ((unsigned char)*c < 32)
            return NULL;
        if (*c == '\\' && c[1] == 'u')
            c = strspn(c + 2, "0123456789abcdef") >= 4 ? c + 6 : NULL;
        else if (*c == '\\')
            c = c[1] && strchr("\"\\/bfnrt", c[1]) ? c + 2 : NULL;
        else
            c++;
    }
    return c ? c + 1 : NULL;
}

static const char *number(const char *c)
{
    const char *begin = space(c), *end = begin + (*begin == '-');
    const size_t whole = strspn(end, "0123456789");
    end += whole;
    if (whole == 0)
        return NULL;
    return *end == '.' ? end + 1 + strspn(end + 1, "0123456789") : end;
}

static const char *members(const char *c, const char *close, bool named)
{
    if (literal(c, close))
        return literal(c, close);
    for (;;) {
        c = value(named ? literal(string(c), ":") : c);
        if (!literal(c, ","))
            return literal(c, close);
        c = literal(c, ",");
    }
}

static const char *value(const char *c)
{
    if (c == NULL)
        return NULL;
    if (literal(c, "{"))
        return members(literal(c, "{"), "}", true);
    if (literal(c, "["))
        return members(literal(c, "["), "]", false);
    return literal(c, "\"") ? string(c) : number(c);
}

/* Returns the text that a function writes. The caller frees it. */
static char *written(th_status (*write)(th_context *, FILE *))
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_int_eq(write(ctx, file), TH_OK);
    fclose(file);
    return text;
}

/* Returns the trace as text, after checking that it is JSON. The caller frees it. */
static char *trace(void)
{
    char *text = written(th_profile_write_trace_to);
    const char *end = space(value(text));
    ck_assert_msg(end && *end == 0, "no JSON: %s", text);
    return text;
}

static char *table(void)
{
    return written(th_profile_print);
}

/* -- the tests -- */

START_TEST(calls_times_and_work_are_counted)
{
    enum { STEPS = 3 };
    const training t = start();
    step(&t); /* not profiled */
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    for (int i = 0; i < STEPS; i++)
        step(&t);
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    step(&t); /* not profiled either */

    const th_profile_entry forward = entry_of("dense", TH_PROFILE_FORWARD);
    ck_assert_int_eq(forward.calls, 2 * STEPS);
    ck_assert_int_eq(forward.multiply_adds, STEPS * (ROWS * INPUTS * WIDTH + ROWS * WIDTH * WIDTH));
    /* x, weight, bias and y of both */
    ck_assert_int_eq(forward.bytes, STEPS * 4 *
                                        ((ROWS * INPUTS + WIDTH * INPUTS + WIDTH + ROWS * WIDTH) +
                                         (ROWS * WIDTH + WIDTH * WIDTH + WIDTH + ROWS * WIDTH)));
    ck_assert(forward.milliseconds > 0 && forward.gflops > 0);
    ck_assert_double_eq_tol(forward.gflops, 2e-6 * (double)forward.multiply_adds / forward.milliseconds,
                            1e-9 * forward.gflops);
    const th_profile_entry backward = entry_of("dense", TH_PROFILE_BACKWARD);
    ck_assert_int_eq(backward.calls, 2 * STEPS);
    /* x does not require a gradient */
    ck_assert_int_eq(backward.multiply_adds, STEPS * (ROWS * INPUTS * WIDTH + 2 * ROWS * WIDTH * WIDTH));
    ck_assert_int_eq(entry_of("layer_norm", TH_PROFILE_FORWARD).calls, STEPS);
    ck_assert_int_eq(entry_of("layer_norm", TH_PROFILE_RECOMPUTE).calls, STEPS);
    ck_assert_int_eq(entry_of("layer_norm", TH_PROFILE_BACKWARD).calls, STEPS);
    ck_assert_int_eq(entry_of("gradient sum", TH_PROFILE_BACKWARD).calls,
                     2 * STEPS); /* for the shift, and for the second factor of y * y */
    ck_assert_int_eq(entry_of("adam_w", TH_PROFILE_STEP).calls, STEPS);
    ck_assert_int_eq(entry_of("adam_w", TH_PROFILE_FORWARD).calls, 0);

    const th_profile_total total = th_profile_sum(ctx);
    double milliseconds = 0, share = 0, before = total.milliseconds;
    int64_t calls = 0;
    for (int64_t i = 0; i < th_profile_count(ctx); i++) {
        th_profile_entry entry;
        ck_assert_int_eq(th_profile_entry_at(ctx, i, &entry), TH_OK);
        ck_assert(entry.milliseconds <= before);
        before = entry.milliseconds;
        milliseconds += entry.milliseconds;
        share += entry.share;
        calls += entry.calls;
    }
    ck_assert_double_eq_tol(milliseconds, total.operations, 1e-6);
    ck_assert_double_eq_tol(total.operations + total.outside, total.milliseconds, 1e-6);
    ck_assert_double_eq_tol(share, total.operations / total.milliseconds, 1e-6);
    ck_assert(total.outside > 0 && total.overhead > 0);
    ck_assert_int_eq(calls, total.calls);
    ck_assert_int_eq(total.events, total.calls);
    ck_assert_int_eq(total.dropped, 0);
}
END_TEST

START_TEST(the_table_contains_operations_and_totals)
{
    const training t = start();
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    step(&t);
    char *running = table(); /* while the profile is running */
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    char *text = table();
    ck_assert_int_eq(count(text, "\ndense "), 2);
    ck_assert_int_eq(count(running, "\ndense "), 2);
    ck_assert_int_eq(count(text, "\nadam_w "), 1);
    ck_assert_int_eq(count(text, "\noutside operations "), 1);
    ck_assert_int_eq(count(text, "\ntotal "), 1);
    ck_assert_int_eq(count(text, "no room"), 0);
    ck_assert_int_eq(count(text, "\n"), (int)th_profile_count(ctx) + 4);
    free(text);
    free(running);
}
END_TEST

START_TEST(the_trace_is_json_with_any_names)
{
    const training t = start();
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    step(&t); /* clears the tape, which the trace does not need */
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    char *text = trace();
    ck_assert_int_eq(count(text, "\"ph\":\"X\""), (int)th_profile_sum(ctx).events);
    ck_assert_int_eq(count(text, "\"module\":\"say \\\"\\\\\\\" in \xc3\xa9 \xef\xbf\xbd\\n\""), 2);
    ck_assert_int_eq(count(text, "\"module\":\"norm\""), 3);
    ck_assert_int_eq(count(text, "\"cat\":\"recompute\""), 1);
    ck_assert_int_eq(count(text, "test_profile.c:"), (int)th_profile_sum(ctx).events);
    ck_assert_int_gt(count(text, "\"shapes\":\"float32 (6, 5), float32 (4, 5), float32 (4) -> float32 (6, 4)\""), 1);
    ck_assert_int_gt(count(text, "\"multiply_adds\":120"), 1);

    char path[] = "/tmp/test_profile_XXXXXX";
    close(mkstemp(path));
    ck_assert_int_eq(th_profile_write_trace(ctx, path), TH_OK);
    FILE *file = fopen(path, "r"); /* the trace replaces what was there */
    ck_assert_ptr_nonnull(file);
    char *written = calloc(1, strlen(text) + 2);
    ck_assert_uint_eq(fread(written, 1, strlen(text) + 1, file), strlen(text));
    ck_assert_str_eq(written, text);
    fclose(file);
    remove(path);
    free(written);
    free(text);
}
END_TEST

START_TEST(a_profile_of_nothing)
{
    ck_assert_int_eq(th_profile_count(ctx), 0);
    ck_assert(th_profile_sum(ctx).milliseconds == 0);
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    ck_assert_int_eq(th_profile_count(ctx), 0);
    char *text = table(), *events = trace();
    ck_assert_int_eq(count(text, "\n"), 4);
    ck_assert_int_eq(count(events, "\"ph\":\"X\""), 0);
    free(text);
    free(events);
    th_profile_entry entry;
    expect_status(th_profile_entry_at(ctx, 0, &entry), TH_ERROR_INDEX, "entry 0 of 0");
}
END_TEST

START_TEST(a_new_profile_replaces_the_previous_one)
{
    const training t = start();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
        step(&t);
        ck_assert_int_eq(th_profile_end(ctx), TH_OK);
        ck_assert_int_eq(entry_of("dense", TH_PROFILE_FORWARD).calls, 2);
    }
}
END_TEST

START_TEST(events_beyond_the_limit_are_counted_and_allocate_nothing)
{
    const training t = start();
    ck_assert_int_eq(th_profile_begin(ctx, &(th_profile_options){.max_events = 3}), TH_OK);
    step(&t);
    const int64_t calls = th_profile_sum(ctx).calls;
    step(&t);
    const size_t allocations = th_memory(ctx).allocations;
    for (int i = 0; i < 100; i++)
        step(&t);
    ck_assert_uint_eq(th_memory(ctx).allocations, allocations);
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    const th_profile_total total = th_profile_sum(ctx);
    ck_assert_int_eq(total.calls, 102 * calls);
    ck_assert_int_eq(total.events, 3);
    ck_assert_int_eq(total.dropped, 102 * calls - 3);
    char *text = table(), *events = trace();
    ck_assert_int_eq(count(text, "the trace was full"), 1);
    ck_assert_int_eq(count(events, "\"ph\":\"X\""), 3);
    free(text);
    free(events);
    ck_assert_int_eq(th_profile_begin(ctx, &(th_profile_options){.max_events = -1}), TH_OK);
    step(&t);
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    ck_assert_int_eq(th_profile_sum(ctx).events, 0);
    ck_assert_int_eq(th_profile_sum(ctx).calls, calls);
}
END_TEST

START_TEST(its_memory_is_freed)
{
    const training t = start();
    step(&t);
    step(&t);
    const size_t live = th_memory(ctx).live;
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    step(&t);
    ck_assert_uint_gt(th_memory(ctx).live, live);
    th_profile_free(ctx); /* while it runs */
    ck_assert_uint_eq(th_memory(ctx).live, live);
    step(&t);
    expect_status(th_profile_end(ctx), TH_ERROR_STATE, "profile_end");
    th_profile_free(ctx);
    th_profile_free(NULL);
}
END_TEST

START_TEST(training_continues_when_the_profile_has_no_memory)
{
    const training t = start();
    step(&t);
    step(&t);
    run_out(&memory);
    expect_status(th_profile_begin(ctx, NULL), TH_ERROR_MEMORY, "profile_begin");
    memory.fail_at = 0;
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    run_out(&memory);
    step(&t);
    expect_status(th_profile_end(ctx), TH_ERROR_MEMORY, "the profile's table is incomplete");
    memory.fail_at = 0;
    ck_assert_int_gt(th_profile_sum(ctx).dropped, 0);
    ck_assert_int_eq(th_profile_count(ctx), 0);
}
END_TEST

START_TEST(a_shapes_only_context_counts_without_time)
{
    th_context *c = ctx;
    ctx = th_context_new(&(th_context_options){.threads = 1, .shapes_only = true});
    const training t = start();
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    step(&t);
    ck_assert_int_eq(th_profile_end(ctx), TH_OK);
    const th_profile_entry forward = entry_of("dense", TH_PROFILE_FORWARD);
    ck_assert_int_eq(forward.calls, 2);
    ck_assert_int_eq(forward.multiply_adds, ROWS * INPUTS * WIDTH + ROWS * WIDTH * WIDTH);
    ck_assert(forward.milliseconds == 0 && forward.gflops == 0 && forward.bytes == 0);
    ck_assert(th_profile_sum(ctx).operations == 0);
    free(table());
    free(trace());
    th_context_free(ctx);
    ctx = c;
}
END_TEST

/* A shapes-only context can describe more work than int64_t can count. */
START_TEST(work_saturates_at_the_largest_number)
{
    th_context *c = th_context_new(&(th_context_options){.threads = 1, .shapes_only = true});
    const int64_t small = 1 << 24, large = 1 << 30; /* 2^78 multiply-adds */
    th_tensor *a = th_set_requires_gradient(th_zeros(c, TH_FLOAT32, TH_SHAPE(small, large)), true);
    th_tensor *b = th_set_requires_gradient(th_zeros(c, TH_FLOAT32, TH_SHAPE(large, small)), true);
    ck_assert_int_eq(th_profile_begin(c, NULL), TH_OK);
    th_tensor *y = th_add(th_matmul(a, b), th_matmul(a, b));
    ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    FILE *nowhere = fopen("/dev/null", "w");
    ck_assert_int_eq(th_tape_print(c, nowhere, NULL), TH_OK);
    fclose(nowhere);
    ck_assert(th_profile_sum(c).multiply_adds == INT64_MAX);
    ck_assert_int_eq(th_profile_end(c), TH_OK);
    th_context_free(c);
}
END_TEST

START_TEST(errors)
{
    th_profile_entry entry;
    expect_status(th_profile_print(ctx, stderr), TH_ERROR_STATE, "profile_print");
    expect_status(th_profile_write_trace(ctx, "/tmp/none"), TH_ERROR_STATE, "profile_write_trace");
    expect_status(th_profile_entry_at(ctx, 0, &entry), TH_ERROR_STATE, "profile_entry_at");
    ck_assert_int_eq(th_profile_end(ctx), TH_ERROR_STATE);
    ck_assert_ptr_nonnull(strstr(th_error_message(ctx), "profile_end: no profile is running; at test_profile.c:"));
    th_error_clear(ctx);
    expect_status(th_profile_begin(ctx, &(th_profile_options){.max_events = -2}), TH_ERROR_ARGUMENT, "profile_begin");
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_OK);
    ck_assert_int_eq(th_profile_begin(ctx, NULL), TH_ERROR_STATE);
    ck_assert_int_eq(th_profile_end(ctx), TH_ERROR_STATE); /* returns the pending error, and ends the profile */
    th_error_clear(ctx);
    expect_status(th_profile_end(ctx), TH_ERROR_STATE, "profile_end");

    expect_status(th_profile_print(ctx, NULL), TH_ERROR_ARGUMENT, "profile_print");
    expect_status(th_profile_write_trace(ctx, NULL), TH_ERROR_ARGUMENT, "profile_write_trace");
    expect_status(th_profile_write_trace_to(ctx, NULL), TH_ERROR_ARGUMENT, "profile_write_trace");
    expect_status(th_profile_write_trace(ctx, "/nowhere/at/all.json"), TH_ERROR_FILE, "profile_write_trace");
    expect_status(th_profile_write_trace(ctx, "/dev/full"), TH_ERROR_FILE,
                  "/dev/full could not be written in full: No space");
    FILE *full = fopen("/dev/full", "w");
    expect_status(th_profile_print(ctx, full), TH_ERROR_FILE, "profile_print");
    expect_status(th_profile_write_trace_to(ctx, full), TH_ERROR_FILE, "profile_write_trace");
    fclose(full);
    expect_status(th_profile_entry_at(ctx, -1, &entry), TH_ERROR_INDEX, "profile_entry_at");
    expect_status(th_profile_begin(NULL, NULL), TH_ERROR_ARGUMENT, "profile_begin: the context is NULL");
    expect_status(th_profile_end(NULL), TH_ERROR_ARGUMENT, "profile_end: the context is NULL");
    expect_status(th_profile_print(NULL, stderr), TH_ERROR_ARGUMENT, "profile_print: the context is NULL");
    ck_assert_int_eq(th_profile_count(NULL), 0);
    ck_assert_str_eq(th_profile_phase_name(TH_PROFILE_STEP), "step");
    ck_assert_str_eq(th_profile_phase_name(TH_PROFILE_EXCHANGE), "exchange");
    ck_assert_str_eq(th_profile_phase_name(TH_PROFILE_PHASE_COUNT), "?");
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("profile", setup, close_context);
    tcase_add_test(tcase, calls_times_and_work_are_counted);
    tcase_add_test(tcase, the_table_contains_operations_and_totals);
    tcase_add_test(tcase, the_trace_is_json_with_any_names);
    tcase_add_test(tcase, a_profile_of_nothing);
    tcase_add_test(tcase, a_new_profile_replaces_the_previous_one);
    tcase_add_test(tcase, events_beyond_the_limit_are_counted_and_allocate_nothing);
    tcase_add_test(tcase, its_memory_is_freed);
    tcase_add_test(tcase, training_continues_when_the_profile_has_no_memory);
    tcase_add_test(tcase, a_shapes_only_context_counts_without_time);
    if (sizeof(size_t) == 8) /* its sizes need 64 bits */
        tcase_add_test(tcase, work_saturates_at_the_largest_number);
    tcase_add_test(tcase, errors);
    return run_suites();
}

/* Programs about tensors and the settings of a context. */
#include "subjects.h"

#include <string.h>

/* -- creating -- */

static th_status create_filled(program_run *r)
{
    add_tensor(r, th_zeros(r->ctx, TH_FLOAT64, TH_SHAPE(2, 3)));
    add_tensor(r, th_ones(r->ctx, TH_BOOL, TH_SHAPE(4)));
    add_tensor(r, th_full(r->ctx, TH_INT64, TH_SHAPE(2, 2), 5));
    add_tensor(r, th_arange(r->ctx, TH_FLOAT32, -1, 1, 0.25));
    th_tensor *empty = th_empty(r->ctx, TH_FLOAT32, TH_SHAPE(3, 4));
    TRY(th_fill(empty, 2.5));
    add_tensor(r, empty);
    return th_error_code(r->ctx);
}

/* Draws from all streams. A failed call may have drawn numbers, so the seed is set first. */
static th_status create_random(program_run *r)
{
    th_set_seed(r->ctx, 11);
    add_tensor(r, th_uniform(r->ctx, TH_FLOAT32, TH_SHAPE(5), -1, 2));
    add_tensor(r, th_normal(r->ctx, TH_FLOAT64, TH_SHAPE(5), 1, 3));
    add_tensor(r, th_randn(r->ctx, TH_FLOAT32, TH_SHAPE(2, 5)));
    add_tensor(r, th_random_integers(r->ctx, TH_INT64, TH_SHAPE(9), -3, 4));
    th_tensor *t = th_empty(r->ctx, TH_FLOAT32, TH_SHAPE(4, 6));
    TRY(th_fill_uniform(t, -1, 1));
    add_tensor(r, t);
    TRY(th_fill_normal(t, 0, 2));
    add_tensor(r, t);
    TRY(th_fill_xavier_uniform(t, 1));
    add_tensor(r, t);
    TRY(th_fill_xavier_normal(t, 1));
    add_tensor(r, t);
    TRY(th_fill_kaiming_uniform(t, 1.4));
    add_tensor(r, t);
    TRY(th_fill_kaiming_normal(t, 1.4));
    add_tensor(r, t);
    return th_error_code(r->ctx);
}

/* More tensors than a page of handles has. */
static th_status create_many(program_run *r)
{
    th_tensor *last = NULL;
    for (int i = 0; i < 700 && th_error_code(r->ctx) == TH_OK; i++) {
        last = th_full(r->ctx, TH_FLOAT64, TH_SHAPE(64), i);
        th_tensor_free(i % 2 ? NULL : th_keep(last));
    }
    add_tensor(r, last);
    return th_error_code(r->ctx);
}

const program create_tensors = {.name = "create_tensors", .step = {create_filled, create_random, create_many}};

/* -- reading and writing -- */

static th_status access_setup(program_run *r)
{
    r->tensor[0] = th_zeros(r->ctx, TH_FLOAT32, TH_SHAPE(3, 4));
    r->tensor[1] = th_zeros(r->ctx, TH_INT32, TH_SHAPE(4));
    return th_error_code(r->ctx);
}

static th_status access_elements(program_run *r)
{
    th_tensor *t = r->tensor[0];
    double all[12];
    float some[12];
    TRY(th_set(t, TH_INDEX(1, 2), 7));
    add_number(r, th_get(t, TH_INDEX(1, 2)));
    for (int i = 0; i < 12; i++)
        some[i] = (float)i / 3;
    TRY(th_copy_in(t, some, sizeof some));
    th_tensor *wide = th_cast(t, TH_FLOAT64), *turned = th_swap_axes(wide, 0, 1);
    TRY(th_copy_out(turned, all, sizeof all));
    add_bytes(r, all, sizeof all);
    float *data = th_data(t);
    data[3] = -1;
    add_number(r, ((const float *)th_data_const(t))[3]);
    TRY(th_copy_into(r->tensor[1], th_select(t, 0, 1)));
    add_tensor(r, r->tensor[1]);
    add_number(r, th_item(th_select(r->tensor[1], 0, 2)));
    return th_error_code(r->ctx);
}

static th_status access_properties(program_run *r)
{
    th_tensor *t = th_set_axes(r->tensor[0], "BT"), *view = th_transpose(t, TH_AXES(1, 0));
    if (t == NULL || view == NULL)
        return th_error_code(r->ctx);
    add_text(r, th_axes_of(view));
    add_text(r, th_dtype_name(th_dtype_of(t)));
    add_number(r, (double)th_dtype_size(TH_INT64));
    add_number(r, (double)(th_ndim(t) + 10 * th_size(t, 1) + 100 * th_numel(t) + 1000 * th_stride(view, 0)));
    add_number(r, (double)th_shape_of(view).size[0] + 10 * th_is_contiguous(view) + 20 * th_shares_memory(t, view) +
                      40 * (th_context_of(t) == r->ctx));
    return th_error_code(r->ctx);
}

static th_status access_print(program_run *r)
{
    char text[512];
    TRY(th_print(r->tensor[0], r->out, &(th_print_options){.precision = 2}));
    TRY(th_print(th_reshape(th_arange(r->ctx, TH_FLOAT64, 0, 2000, 1), TH_SHAPE(40, 50)), r->out, NULL));
    add_output(r);
    if (th_print_text(th_swap_axes(r->tensor[0], 0, 1), text, sizeof text, NULL) < 0)
        return th_error_code(r->ctx);
    add_text(r, text);
    return th_error_code(r->ctx);
}

const program access_tensors = {
    .name = "access_tensors", .setup = access_setup, .step = {access_elements, access_properties, access_print}};

/* -- views and copies -- */

static th_status views_setup(program_run *r)
{
    r->tensor[0] = leaf(r, TH_SHAPE(2, 3, 4), 1);
    r->tensor[1] = leaf(r, TH_SHAPE(1, 3), 2);
    return th_error_code(r->ctx);
}

static th_status views_of(program_run *r)
{
    th_tensor *x = r->tensor[0], *parts[2] = {NULL, NULL};
    add_tensor(r, th_reshape(x, TH_SHAPE(6, -1)));
    add_tensor(r, th_reshape(th_transpose(x, TH_AXES(2, 0, 1)), TH_SHAPE(24)));
    add_tensor(r, th_slice(th_swap_axes(x, 0, 2), 0, 1, -1, 2));
    add_tensor(r, th_select(x, 1, -1));
    add_tensor(r, th_expand(r->tensor[1], TH_SHAPE(2, 3)));
    add_tensor(r, th_squeeze(th_unsqueeze(x, 1), 1));
    TRY(th_split(x, 2, 2, (const int64_t[]){1, 3}, parts));
    add_tensor(r, parts[1]);
    add_tensor(r, th_detach(x));
    return th_error_code(r->ctx);
}

static th_status views_backward(program_run *r)
{
    th_tensor *x = r->tensor[0], *both[2] = {th_select(x, 0, 0), th_contiguous(th_select(x, 0, 1))};
    th_tensor *y = th_add(th_concat(both, 2, 0),
                          th_repeat(th_expand(th_swap_axes(r->tensor[1], 0, 1), TH_SHAPE(3, 4)), TH_SHAPE(2, 1)));
    th_tensor *stacked = th_stack(both, 2, 2);
    TRY(th_backward(
        th_add(th_sum(th_mul(y, y), TH_ALL_AXES, NULL), th_sum(th_cast(stacked, TH_FLOAT32), TH_ALL_AXES, NULL)),
        NULL));
    for (int i = 0; i < 2; i++) {
        add_tensor(r, th_gradient(r->tensor[i]));
        th_empty_gradient(r->tensor[i]);
    }
    return th_error_code(r->ctx);
}

const program views = {.name = "views", .setup = views_setup, .step = {views_of, views_backward}};

/* -- the settings of a context -- */

static th_status settings_change(program_run *r)
{
    th_context *ctx = r->ctx;
    TRY(th_set_default_dtype(ctx, TH_FLOAT64));
    TRY(th_set_precision(ctx, TH_PRECISION_BFLOAT16X3));
    TRY(th_set_threads(ctx, th_threads(ctx)));
    add_text(r, th_precision_name(th_precision_of(ctx)));
    add_text(r, th_precision_time(ctx, TH_PRECISION_BFLOAT16) > 0 ? "measured" : "not measured");
    add_tensor(r, th_one_hot(integers(r, TH_SHAPE(3), 4, 1), 4));
    add_number(r, th_default_dtype(ctx));
    TRY(th_set_default_dtype(ctx, TH_FLOAT32));
    TRY(th_set_precision(ctx, TH_PRECISION_FLOAT32));
    th_set_training(ctx, false);
    th_set_fusion(ctx, false);
    th_keep_values(ctx, true);
    th_no_grad_begin(ctx);
    add_number(r, th_is_training(ctx) + 2 * th_has_fusion(ctx) + 4 * th_is_recording(ctx));
    th_no_grad_end(ctx);
    th_set_training(ctx, true);
    th_set_fusion(ctx, true);
    th_keep_values(ctx, false);
    th_set_step(ctx, 17);
    add_number(r, (double)th_step(ctx));
    return th_error_code(ctx);
}

static th_status settings_describe(program_run *r)
{
    add_number(r, strstr(th_build_info(r->ctx), th_version()) != NULL);
    add_number(r, th_team_size(r->ctx) >= 1);
    th_memory_reset_peak(r->ctx);
    add_number(r, th_memory(r->ctx).peak == th_memory(r->ctx).live);
    return th_error_code(r->ctx);
}

static th_status settings_error(program_run *r)
{
    if (th_add(numbers(r, TH_SHAPE(2), 1), numbers(r, TH_SHAPE(3), 1)) != NULL ||
        th_error_code(r->ctx) == TH_ERROR_MEMORY)
        return th_error_code(r->ctx);
    add_text(r, th_error_text(r->ctx));
    add_number(r, strstr(th_error_message(r->ctx), th_error_location(r->ctx)) != NULL);
    th_error_clear(r->ctx);
    return th_error_code(r->ctx);
}

/* Forecasts the memory in a second context. */
static th_status settings_forecast(program_run *r)
{
    th_context *forecast = th_context_new(&(th_context_options){.shapes_only = true, .threads = 1});
    if (forecast == NULL) {
        snprintf(r->other_text, sizeof r->other_text, "out of memory for a context");
        return TH_ERROR_MEMORY;
    }
    (void)th_matmul(th_empty(forecast, TH_FLOAT32, TH_SHAPE(64, 64)), th_empty(forecast, TH_FLOAT32, TH_SHAPE(64, 64)));
    const th_status status = th_error_code(forecast);
    if (status == TH_OK)
        add_number(r, (double)th_memory(forecast).live);
    snprintf(r->other_text, sizeof r->other_text, "%s", th_error_text(forecast));
    th_context_free(forecast);
    return status;
}

const program settings = {.name = "settings",
                          .step = {settings_change, settings_describe, settings_error, settings_forecast}};

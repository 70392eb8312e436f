/* Programs that write and read files of numbers and pictures, and watch a run: profile, progress, logs. */
#include "subjects.h"

#include <string.h>

/* -- arrays of NumPy -- */

static th_status npy_written(program_run *r)
{
    th_tensor *t = numbers(r, TH_SHAPE(4, 3), 91);
    TRY(th_npy_write(th_swap_axes(t, 0, 1), in_folder(r, "array.npy")));
    TRY(th_npy_write_to(t, r->out));
    TRY(th_npy_write_to(integers(r, TH_SHAPE(5), 9, 92), r->out));
    rewind(r->out);
    add_tensor(r, th_npy_read_from(r->ctx, r->out));
    add_tensor(r, th_npy_read_from(r->ctx, r->out));
    return th_error_code(r->ctx);
}

static th_status npy_read(program_run *r)
{
    add_tensor(r, th_npy_read(r->ctx, in_folder(r, "array.npy")));
    return th_error_code(r->ctx);
}

const program npy = {.name = "npy", .step = {npy_written, npy_read}};

/* -- whole files -- */

static th_status whole_file_written(program_run *r)
{
    TRY(th_file_write(r->ctx, in_folder(r, "report.txt"), "second\n", 7));
    add_file(r, in_folder(r, "report.txt"));
    return th_error_code(r->ctx);
}

static th_status whole_file_read(program_run *r)
{
    th_text text = {0};
    const th_status status = th_file_read(r->ctx, in_folder(r, "report.txt"), 100, &text);
    add_bytes(r, text.bytes, text.count);
    th_text_free(&text);
    return status;
}

static bool add_piece(void *r, const void *bytes, size_t count)
{
    add_bytes(r, bytes, count);
    return true;
}

/* A build without zlib or libzstd refuses the data, at each repetition. */
static th_status decompressed(program_run *r)
{
    static const unsigned char gzip[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x4b, 0x4c,
                                         0xe2, 0x02, 0x00, 0x3e, 0x98, 0x4a, 0x01, 0x03, 0x00, 0x00, 0x00};
    static const unsigned char zstd[] = {0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x03, 0x19, 0x00,
                                         0x00, 0x61, 0x62, 0x0a, 0x3a, 0x09, 0x86, 0x75};
    th_status status = th_decompress(r->ctx, th_compression_name(gzip, sizeof gzip), gzip, sizeof gzip, add_piece, r);
    if (status == TH_OK)
        status = th_decompress(r->ctx, th_compression_name(zstd, sizeof zstd), zstd, sizeof zstd, add_piece, r);
    if (status == TH_ERROR_FILE)
        th_error_clear(r->ctx);
    return status == TH_ERROR_FILE ? TH_OK : status;
}

const program whole_files = {.name = "whole_files", .step = {whole_file_written, whole_file_read, decompressed}};

/* -- pictures -- */

static th_status pictures_curves(program_run *r)
{
    static const double y[6] = {3, 2, 1.5, 1.2, 1.1, 1};
    const th_curve curves[] = {{"loss", 6, NULL, y}, {"validation", 4, y, y + 1}};
    const th_chart_options options = {.title = "Loss <1>", .x_label = "step", .y_label = "loss", .log_y = true};
    const th_panel panels[] = {{curves, 2, options}, {curves, 1, {.title = "second"}}};
    TRY(th_picture_curves(r->ctx, in_folder(r, "curves.svg"), curves, 2, &options));
    add_file(r, in_folder(r, "curves.svg"));
    TRY(th_picture_panels(r->ctx, in_folder(r, "panels.svg"), panels, 2, "both"));
    add_file(r, in_folder(r, "panels.svg"));
    return th_error_code(r->ctx);
}

static th_status pictures_heatmaps(program_run *r)
{
    th_tensor *weights = th_softmax(numbers(r, TH_SHAPE(2, 3, 4), 93), 2);
    TRY(th_picture_heatmaps(weights, in_folder(r, "weights.svg"),
                            &(th_heatmap_options){.title = "weights", .row_letters = "abc", .row_label = "query"}));
    add_file(r, in_folder(r, "weights.svg"));
    return th_error_code(r->ctx);
}

const program pictures = {.name = "pictures", .step = {pictures_curves, pictures_heatmaps}};

/* -- pages -- */

static th_status pages_setup(program_run *r)
{
    r->tensor[0] = leaf(r, TH_SHAPE(3, 4), 94);
    return th_error_code(r->ctx);
}

/* Writes a page of attention and a dense layer. */
static th_status pages_written(program_run *r)
{
    th_keep_values(r->ctx, true);
    th_tensor *x = th_set_name(r->tensor[0], "x");
    th_empty_gradient(x);
    const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    th_tensor *o = th_scaled_dot_product_attention(x, x, x, &(th_attention_options){.mask = &causal});
    th_tensor *loss = th_mean(th_set_name(th_dense(o, x, NULL), "y"), TH_ALL_AXES, NULL);
    TRY(th_backward(loss, NULL));
    TRY(th_tape_write_html(r->ctx, in_folder(r, "tape.html"), &(th_html_options){.title = "first <1>"}));
    add_file(r, in_folder(r, "tape.html"));
    th_keep_values(r->ctx, false);
    return th_error_code(r->ctx);
}

const program pages = {.name = "pages", .setup = pages_setup, .step = {pages_written}};

/* -- the profile -- */

static th_status profile_setup(program_run *r)
{
    r->model = th_dense_new(r->ctx, 6, 6, NULL);
    r->optimizer = th_sgd_new(r->model, &(th_sgd_options){.learning_rate = 0.01});
    return th_error_code(r->ctx);
}

static th_status profile_measured(program_run *r)
{
    for (th_parameter_iterator p = th_module_parameters(r->model); th_parameter_next(&p);)
        th_empty_gradient(p.tensor);
    th_profile_free(r->ctx);
    TRY(th_profile_begin(r->ctx, &(th_profile_options){.max_events = 2000}));
    th_tensor *x = numbers(r, TH_SHAPE(5, 6), 94);
    for (int i = 0; i < 20; i++)
        x = th_tanh(th_module_forward(r->model, x));
    th_status status = th_backward(th_mean(x, TH_ALL_AXES, NULL), NULL);
    (void)th_optimizer_set_learning_rate(r->optimizer, 0); /* the step can be repeated: it changes nothing */
    if (status == TH_OK)
        status = th_optimizer_step(r->optimizer);
    const th_status ended = th_profile_end(r->ctx);
    add_number(r, th_module_crc32c(r->model));
    return status != TH_OK ? status : ended;
}

static th_status profile_read(program_run *r)
{
    int64_t calls = 0, known = 0;
    for (int64_t i = 0; i < th_profile_count(r->ctx); i++) {
        th_profile_entry entry;
        TRY(th_profile_entry_at(r->ctx, i, &entry));
        calls += entry.calls;
        known += strcmp(th_profile_phase_name(entry.phase), "?") != 0;
    }
    add_number(r, calls == th_profile_sum(r->ctx).calls);
    add_number(r, known == th_profile_count(r->ctx));
    TRY(th_profile_print(r->ctx, r->out));
    TRY(th_profile_write_trace_to(r->ctx, r->out));
    return th_profile_write_trace(r->ctx, in_folder(r, "trace.timed"));
}

const program profile = {.name = "profile", .setup = profile_setup, .step = {profile_measured, profile_read}};

/* -- the progress line -- */

static th_status progress_shown(program_run *r)
{
    th_progress *bar = th_progress_new(
        r->ctx, &(th_progress_options){.file = r->out, .steps = 4, .units_per_step = 10, .plain_every = 1});
    if (bar == NULL)
        return th_error_code(r->ctx);
    th_progress_show(bar, "accuracy", 0.5);
    for (int64_t step = 0; step < 4; step++)
        th_progress_update(bar, step, 1.0 / (double)(step + 1));
    th_progress_note(bar, "half of %d", 8);
    add_number(r, 1);
    return th_progress_end(bar);
}

const program progress = {.name = "progress", .step = {progress_shown}};

/* -- logs -- */

/* Records of a step that fails are written by its repetition, because the log begins anew. */
static th_status log_written(program_run *r)
{
    th_json_log *log = th_json_log_open(r->ctx, in_folder(r, "log.jsonl"), NULL);
    if (log == NULL)
        return th_error_code(r->ctx);
    th_status status = TH_OK;
    for (int64_t step = 0; step < 6 && status == TH_OK; step++) {
        const th_log_field fields[] = {{"loss/train", 1.0 / (double)(step + 1), NULL}, {"sample", 0, "To \xff be\n"}};
        status = th_json_log_write(log, step, fields, 2);
    }
    th_json_log_close(log);
    return status;
}

static th_status log_continued(program_run *r)
{
    th_json_log *log =
        th_json_log_open(r->ctx, in_folder(r, "log.jsonl"), &(th_log_options){.resume = true, .step = 3});
    if (log == NULL)
        return th_error_code(r->ctx);
    const th_log_field fields[] = {{"loss/train", 0.5, NULL}};
    const th_status status = th_json_log_write(log, 4, fields, 1);
    th_json_log_close(log);
    return status;
}

static th_status log_read(program_run *r)
{
    add_tensor(r, th_json_log_series(r->ctx, in_folder(r, "log.jsonl"), "loss/train"));
    return th_error_code(r->ctx);
}

/* In the folder `events`, because the name of each file contains the time. */
static th_status events_written(program_run *r)
{
    th_event_log *log = th_event_log_open(r->ctx, in_folder(r, "events"), &(th_log_options){.resume = true, .step = 1});
    if (log == NULL)
        return th_error_code(r->ctx);
    const th_log_field fields[] = {{"loss/train", 2, NULL}, {"sample", 0, "text"}};
    const th_status status = th_event_log_write(log, 2, fields, 2);
    th_event_log_close(log);
    add_number(r, 1);
    return status;
}

const program logs = {.name = "logs", .step = {log_written, log_continued, log_read, events_written}};

/* Logs, curves and samples of a run: see report.h. */
#include "report.h"

#include <string.h>

#include "sample.h"
#include "schedules.h"
#include "settings.h"
#include "shared/system.h"

th_status report_open(report *r, th_context *ctx, const char *run, bool resume, int64_t step, bool quiet)
{
    const th_log_options options = {.resume = resume, .step = step};
    const th_progress_options line = {stderr, .steps = chosen.steps, .begin = step, .unit = "tokens",
                                      .units_per_step = chosen.batch_from > 0 ? 0 : tokens_of_steps(0, 1)};
    *r = (report){.ctx = ctx,
                  .answer_end = -1,
                  .start_time = monotonic_seconds(),
                  .log_time = monotonic_seconds(),
                  .logged_step = step};
    r->log = th_json_log_open(ctx, path_in(run, "log.jsonl"), &options);
    r->events = th_event_log_open(ctx, run, &options);
    r->bar = quiet ? NULL : th_progress_new(ctx, &line);
    note_precision_time(ctx, r->bar);
    return th_error_code(ctx);
}

static th_status log_fields(report *r, int64_t step, const th_log_field *fields, int count)
{
    if (th_json_log_write(r->log, step, fields, count))
        return th_error_code(r->ctx);
    return th_event_log_write(r->events, step, fields, count);
}

th_status report_step(report *r, const th_optimizer *optimizer)
{
    const int64_t step = th_step(r->ctx);
    const double loss = th_optimizer_loss(optimizer);
    th_progress_update(r->bar, step - 1, loss);
    if (step % chosen.log_every != 0)
        return TH_OK;
    const double seconds = monotonic_seconds();
    const double tokens = (double)tokens_of_steps(r->logged_step, step);
    const th_log_field fields[] = {{"loss/train", loss, NULL},
                                   {"learning_rate", th_optimizer_learning_rate(optimizer), NULL},
                                   {"gradient_norm", th_optimizer_gradient_norm(optimizer), NULL},
                                   {"tokens_per_second", tokens / (seconds - r->log_time), NULL}};
    r->log_time = seconds;
    r->logged_step = step;
    return log_fields(r, step, fields, 4);
}

void report_pause(report *r)
{
    r->pause_start = monotonic_seconds();
}

void report_resume(report *r)
{
    r->log_time += monotonic_seconds() - r->pause_start;
}

/* Makes a curve from a tensor of points from the log. */
static th_curve make_curve(th_tensor *series, const char *name)
{
    const int64_t count = series ? th_size(series, 1) : 0;
    const double *number = count > 0 ? th_data_const(series) : NULL;
    return (th_curve){.name = name, .count = count, .x = number, .y = count > 0 ? number + count : NULL};
}

static th_status draw_curves(th_context *ctx, const char *run)
{
    static const char *const names[] = {"loss/train", "loss/validation", "learning_rate", "gradient_norm",
                                        "tokens_per_second"};
    static const char *const labels[] = {"training", "validation", NULL, NULL, NULL};
    enum { CURVES = sizeof names / sizeof *names };
    const char *log = path_in(run, "log.jsonl");
    th_tensor *series[CURVES];
    th_curve curve[CURVES];
    for (int i = 0; i < CURVES; i++) {
        series[i] = th_json_log_series(ctx, log, names[i]);
        curve[i] = make_curve(series[i], labels[i]);
    }
    const th_panel panels[] = {
        {&curve[0], 2, {.title = "Loss", .x_label = "step", .y_label = "nats per token"}},
        {&curve[2], 1, {.title = "Learning rate", .x_label = "step", .y_from_zero = true}},
        {&curve[3], 1, {.title = "Norm of the gradient, before clipping", .x_label = "step", .y_from_zero = true}},
        {&curve[4], 1, {.title = "Tokens per second", .x_label = "step", .y_from_zero = true}},
    };
    const th_status status = th_picture_panels(ctx, path_in(run, "curves.svg"), panels, 4, run);
    for (int i = 0; i < CURVES; i++)
        th_tensor_free(series[i]);
    return status;
}

th_status report_evaluation(report *r, const char *run, int64_t step, double loss)
{
    const th_log_field field = {"loss/validation", loss, NULL};
    th_progress_note(r->bar, "step %lld  validation loss %.4f", (long long)step, loss);
    if (log_fields(r, step, &field, 1))
        return th_error_code(r->ctx);
    return draw_curves(r->ctx, run);
}

th_status report_sample(report *r, const char *run, int64_t step, th_module *model, th_tokenizer *tokenizer)
{
    if (chosen.sample_tokens == 0)
        return TH_OK;
    const int64_t end_tokens[] = {r->answer_end, chosen.end_token};
    const int first = r->answer_end < 0, last = chosen.end_token < 0 ? 1 : 2; /* those that are tokens */
    const sample_options options = {.generate = {.max_new_tokens = chosen.sample_tokens,
                                                 .temperature = chosen.temperature,
                                                 .seed = (uint64_t)chosen.seed},
                                    .question = &r->question,
                                    .end_tokens = end_tokens + first,
                                    .n_end_tokens = last - first};
    char name[64], *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL)
        give_up(PROGRAM, "out of memory");
    th_status status = generate_sample(model, tokenizer, chosen.prompt, &options, memory, NULL);
    if (fclose(memory) != 0)
        give_up(PROGRAM, "out of memory");
    if (status == TH_OK) {
        snprintf(name, sizeof name, "step_%07lld.txt", (long long)step);
        create_folder(path_in(run, "samples"));
        status = th_file_write(r->ctx, path_in(path_in(run, "samples"), name), text, strlen(text));
    }
    if (status == TH_OK)
        status = log_fields(r, step, &(th_log_field){"sample", 0, text}, 1);
    free(text);
    return status;
}

th_status report_close(report *r, double *seconds)
{
    *seconds = monotonic_seconds() - r->start_time;
    const th_status status = th_progress_end(r->bar);
    th_event_log_close(r->events);
    th_json_log_close(r->log);
    th_token_list_free(&r->question);
    return status;
}

/* Prints advice for another training, because the validation loss was lowest at `step`. */
static void print_advice(double step)
{
    if (step == 0)
        fprintf(stderr,
                PROGRAM ": best.safetensors is the model as it was at the start; try a lower learning rate, --lr %g "
                        "instead of %g\n",
                chosen.lr / 10, chosen.lr);
    else
        fprintf(stderr,
                PROGRAM
                ": best.safetensors is the model of step %.0f; try --steps %.0f, more --dropout than %g, or more "
                "text\n",
                step, step, chosen.dropout);
}

th_status report_progress(th_context *ctx, const char *run)
{
    th_tensor *series = th_json_log_series(ctx, path_in(run, "log.jsonl"), "loss/validation");
    const th_curve loss = make_curve(series, NULL);
    const int64_t last = loss.count - 1;
    int64_t best = 0;
    for (int64_t i = 1; i <= last; i++)
        if (loss.y[i] < loss.y[best])
            best = i;
    if (last > 0 && best == 0)
        printf(PROGRAM ": the validation loss did not improve: it was %.4f at the start and %.4f at the end\n",
               loss.y[0], loss.y[last]);
    else if (last > 0 && best == last)
        printf(PROGRAM ": the validation loss improved from %.4f to %.4f\n", loss.y[0], loss.y[last]);
    else if (last > 0)
        printf(PROGRAM ": the validation loss improved from %.4f to %.4f at step %.0f; it was %.4f at the end\n",
               loss.y[0], loss.y[best], loss.x[best], loss.y[last]);
    if (last > 0 && best != last && (best == 0 || loss.y[last] > loss.y[0] || loss.y[last] > 1.01 * loss.y[best]))
        print_advice(loss.x[best]);
    th_tensor_free(series);
    return th_error_code(ctx);
}

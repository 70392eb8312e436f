/* The progress line. It measures time and writes text; it does not depend on the training code. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "platform/system.h"
#include "tapehead/progress.h"
#include "tensor/context.h"
#include "tensor/format.h"

enum { MAX_FIGURES = 4, FIGURE_NAME_SIZE = 32 };

struct th_progress {
    th_context *ctx;
    th_progress_options options;
    char unit[FIGURE_NAME_SIZE];
    bool terminal, line_open, write_failed;
    int figures;
    char figure_name[MAX_FIGURES][FIGURE_NAME_SIZE];
    double figure[MAX_FIGURES];
    int64_t steps_done;
    int64_t last_written; /* the value of steps_done on the last line */
    double loss;
    double start, last_shown_time; /* seconds */
};

static double seconds_now(void)
{
    return 1e-9 * (double)th_nanoseconds_now();
}

static void release_progress(th_context *ctx, void *object)
{
    th_release(ctx, object, sizeof(th_progress));
}

th_progress *th_progress_new(th_context *ctx, const th_progress_options *options)
{
    if (ctx == NULL || th_failed(ctx))
        return NULL;
    if (options == NULL || options->file == NULL || options->steps < 0 || options->begin < 0 ||
        options->units_per_step < 0 || options->plain_every < 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "progress", "a file must be given, and no number may be negative");
        return NULL;
    }
    th_progress *bar = th_allocate(ctx, sizeof *bar);
    if (bar == NULL || !th_attach_object(ctx, bar, release_progress)) {
        th_release(ctx, bar, sizeof *bar);
        th_fail_memory(ctx, "progress", sizeof *bar);
        return NULL;
    }
    *bar = (th_progress){.ctx = ctx,
                         .options = *options,
                         .steps_done = options->begin,
                         .last_written = options->begin,
                         .start = seconds_now(),
                         .last_shown_time = -1};
    snprintf(bar->unit, sizeof bar->unit, "%s", options->unit ? options->unit : "samples");
    if (bar->options.plain_every == 0)
        bar->options.plain_every = options->steps == 0 ? 100 : options->steps < 20 ? 1 : options->steps / 20;
    bar->terminal = th_is_terminal(options->file);
    return bar;
}

/* Appends a number in few characters: 950, 12.3k, 1.3M. */
static void append_count(char *text, size_t size, double count)
{
    static const char suffix[] = {' ', 'k', 'M', 'G', 'T'};
    int power = 0;
    while (count >= 999.5 && power < 4) {
        count /= 1000;
        power++;
    }
    th_append(text, size, power == 0 ? "%.0f" : count < 9.95 ? "%.1f%c" : "%.0f%c", count, suffix[power]);
}

static void format_line(const th_progress *bar, char *text, size_t size)
{
    const int64_t steps = bar->options.steps;
    const double seconds = seconds_now() - bar->start, done = (double)(bar->steps_done - bar->options.begin);
    text[0] = 0;
    if (steps > 0) {
        int digits = 1;
        for (int64_t n = steps; n >= 10; n /= 10)
            digits++;
        th_append(text, size, "step %*lld/%lld %3.0f%%", digits, (long long)bar->steps_done, (long long)steps,
                  100.0 * (double)bar->steps_done / (double)steps);
    } else {
        th_append(text, size, "step %lld", (long long)bar->steps_done);
    }
    th_append(text, size, "  loss %.4f", bar->loss);
    for (int i = 0; i < bar->figures; i++)
        th_append(text, size, "  %s %.3f", bar->figure_name[i], bar->figure[i]);
    if (bar->options.units_per_step > 0 && seconds > 0) {
        th_append(text, size, "  ");
        append_count(text, size, done * (double)bar->options.units_per_step / seconds);
        th_append(text, size, " %s/s", bar->unit);
    }
    if (steps > bar->steps_done && done > 0) {
        const double seconds_left = ceil(seconds / done * (double)(steps - bar->steps_done));
        const long long remaining = seconds_left < 1e9 ? (long long)seconds_left : 1000000000;
        if (remaining >= 3600)
            th_append(text, size, "  %lld:%02lld:%02lld left", remaining / 3600, remaining / 60 % 60, remaining % 60);
        else
            th_append(text, size, "  %lld:%02lld left", remaining / 60, remaining % 60);
    }
}

static void write_line(th_progress *bar, bool last)
{
    char text[512];
    format_line(bar, text, sizeof text);
    FILE *file = bar->options.file;
    const int columns = bar->terminal ? th_terminal_columns(file) : 0;
    if (columns > 0 && columns < (int)sizeof text)
        text[columns - 1] = 0; /* a line that wraps cannot be rewritten */
    const int written =
        bar->terminal ? fprintf(file, "\r\033[K%s%s", text, last ? "\n" : "") : fprintf(file, "%s\n", text);
    bar->write_failed |= written < 0 || fflush(file) != 0;
    bar->line_open = bar->terminal && !last;
    bar->last_written = bar->steps_done;
}

void th_progress_show(th_progress *bar, const char *name, double value)
{
    if (bar == NULL || name == NULL)
        return;
    int i = 0;
    while (i < bar->figures && strncmp(bar->figure_name[i], name, FIGURE_NAME_SIZE - 1) != 0)
        i++;
    if (i == MAX_FIGURES)
        return;
    if (i == bar->figures) {
        snprintf(bar->figure_name[i], FIGURE_NAME_SIZE, "%s", name);
        bar->figures++;
    }
    bar->figure[i] = value;
}

void th_progress_update(th_progress *bar, int64_t step, double loss)
{
    if (bar == NULL)
        return;
    bar->steps_done = step < INT64_MAX ? step + 1 : step;
    bar->loss = loss;
    const double time = seconds_now();
    const bool due = bar->terminal ? bar->last_shown_time < 0 || time - bar->last_shown_time >= 0.1
                                   : step % bar->options.plain_every == 0;
    if (!due)
        return;
    bar->last_shown_time = time;
    write_line(bar, false);
}

void th_progress_note(th_progress *bar, const char *format, ...)
{
    if (bar == NULL || format == NULL)
        return;
    FILE *file = bar->options.file;
    bool written = !bar->line_open || fputs("\r\033[K", file) >= 0;
    va_list arguments;
    va_start(arguments, format);
    written = vfprintf(file, format, arguments) >= 0 && written;
    va_end(arguments);
    written = fputc('\n', file) != EOF && written;
    bar->write_failed |= !written || fflush(file) != 0;
    const bool reopen = bar->line_open;
    bar->line_open = false;
    if (reopen)
        write_line(bar, false);
}

th_status th_progress_end(th_progress *bar)
{
    if (bar == NULL)
        return TH_OK;
    th_context *ctx = bar->ctx;
    if (bar->line_open || bar->last_written != bar->steps_done)
        write_line(bar, true);
    const th_status status =
        bar->write_failed ? th_fail(ctx, TH_ERROR_FILE, "progress", "the progress line could not be written") : TH_OK;
    th_detach_object(ctx, bar);
    release_progress(ctx, bar);
    return status;
}

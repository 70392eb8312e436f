/* event_log FOLDER: writes event files for TensorBoard, of a run that is interrupted after step 6 and resumed from
 * step 4 to step 10. */
#include "driver.h"

static void write_steps(th_event_log *log, int64_t from, int64_t to, double loss, const char *sample)
{
    for (int64_t step = from; step <= to; step++) {
        const th_log_field fields[] = {{"loss/train", loss / (double)step, NULL}, {"sample", 0, sample}};
        if (th_event_log_write(log, step, fields, 2))
            return;
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    th_context *ctx = th_context_new(NULL);
    write_steps(th_event_log_open(ctx, argv[1], NULL), 1, 6, 1, "not yet");
    const th_log_options options = {.resume = true, .step = 4};
    write_steps(th_event_log_open(ctx, argv[1], &options), 5, 10, 100, "to be \xe2\x80\xa6");
    driver_check(ctx);
    th_context_free(ctx);
}

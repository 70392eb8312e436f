/* Reads a profile: its totals, its entries by decreasing time, and both as a printed table. */
#include <inttypes.h>

#include "autograd/profile.h"
#include "tensor/format.h"

static const char *const phase_name[TH_PROFILE_PHASE_COUNT] = {"forward", "backward", "recompute", "step", "exchange"};

const char *th_profile_phase_name(th_profile_phase phase)
{
    return phase >= 0 && phase < TH_PROFILE_PHASE_COUNT ? phase_name[phase] : "?";
}

bool th_profile_readable(th_context *ctx, const char *operation)
{
    if (!th_usable_context(ctx, operation))
        return false;
    if (ctx->profile == NULL)
        th_fail(ctx, TH_ERROR_STATE, operation, "there is no profile (th_profile_begin)");
    return ctx->profile != NULL;
}

int64_t th_profile_event_count(const th_context *ctx)
{
    return ctx->profile->table.events.count;
}

const th_profile_event *th_profile_event_at(const th_context *ctx, int64_t index)
{
    return th_pool_at(&ctx->profile->table.events, index);
}

int64_t th_profile_count(const th_context *ctx)
{
    return ctx && ctx->profile ? ctx->profile->table.tallies.count : 0;
}

th_profile_total th_profile_sum(const th_context *ctx)
{
    th_profile_total total = {0};
    const th_profile *p = ctx ? ctx->profile : NULL;
    if (p == NULL)
        return total;
    int64_t in_operations = 0;
    for (int64_t i = 0; i < p->table.tallies.count; i++) {
        const th_profile_tally *tally = th_pool_at(&p->table.tallies, i);
        in_operations += tally->nanoseconds;
        total.calls += tally->calls;
        total.multiply_adds = th_add_work(total.multiply_adds, tally->multiply_adds);
    }
    const int64_t total_time = (ctx->profiling ? th_nanoseconds_now() : p->end) - p->begin - p->overhead;
    total.milliseconds = 1e-6 * (double)total_time;
    total.operations = 1e-6 * (double)in_operations;
    total.outside = 1e-6 * (double)(total_time - in_operations);
    total.overhead = 1e-6 * (double)p->overhead;
    total.events = p->table.events.count;
    total.dropped = p->table.dropped;
    return total;
}

th_status th_profile_entry_at(th_context *ctx, int64_t index, th_profile_entry *entry)
{
    if (!th_profile_readable(ctx, "profile_entry_at"))
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    if (entry == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "profile_entry_at", "the entry is NULL");
    const th_profile_tally *tally = th_profile_tally_at_rank(&ctx->profile->table, index);
    if (tally == NULL)
        return th_fail(ctx, TH_ERROR_INDEX, "profile_entry_at", "entry %" PRId64 " of %" PRId64, index,
                       th_profile_count(ctx));
    const double total_milliseconds = th_profile_sum(ctx).milliseconds,
                 milliseconds = 1e-6 * (double)tally->nanoseconds;
    *entry = (th_profile_entry){
        .operation = tally->operation,
        .phase = tally->phase,
        .calls = tally->calls,
        .milliseconds = milliseconds,
        .share = total_milliseconds > 0 ? milliseconds / total_milliseconds : 0,
        .multiply_adds = tally->multiply_adds,
        .gflops = tally->nanoseconds > 0 ? 2 * (double)tally->multiply_adds / (double)tally->nanoseconds : 0,
        .bytes = tally->bytes,
    };
    return TH_OK;
}

/* -- as text -- */

/* Prints a rate, or a dash if it is 0. */
static void print_rate(FILE *file, double rate)
{
    if (rate > 0)
        th_format_to(file, " %8.1f", rate);
    else
        fprintf(file, " %8s", "-");
}

static void print_entry(FILE *file, const th_profile_entry *entry)
{
    th_format_to(file, "%-30s %-9s %9" PRId64 " %11.3f %6.1f %%", entry->operation, th_profile_phase_name(entry->phase),
                 entry->calls, entry->milliseconds, 100 * entry->share);
    print_rate(file, entry->gflops);
    print_rate(file, entry->milliseconds > 0 ? 1e-6 * (double)entry->bytes / entry->milliseconds : 0);
    fputc('\n', file);
}

static void print_total(FILE *file, const char *what, double milliseconds, double whole)
{
    th_format_to(file, "%-50s %11.3f %6.1f %%\n", what, milliseconds, whole > 0 ? 100 * milliseconds / whole : 0);
}

th_status th_profile_print(th_context *ctx, FILE *file)
{
    if (!th_profile_readable(ctx, "profile_print"))
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    if (file == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "profile_print", "the file is NULL");
    fprintf(file, "%-30s %-9s %9s %11s %8s %8s %8s\n", "operation", "phase", "calls", "ms", "share", "GF/s", "GB/s");
    for (int64_t i = 0; i < th_profile_count(ctx); i++) {
        th_profile_entry entry;
        if (th_profile_entry_at(ctx, i, &entry) != TH_OK)
            return ctx->error;
        print_entry(file, &entry);
    }
    const th_profile_total total = th_profile_sum(ctx);
    print_total(file, "outside operations", total.outside, total.milliseconds);
    print_total(file, "total", total.milliseconds, total.milliseconds);
    th_format_to(file, "%" PRId64 " calls, %" PRId64 " multiply-adds; recording them took %.3f ms more", total.calls,
                 total.multiply_adds, total.overhead);
    if (total.dropped)
        fprintf(file, "; the trace was full for %" PRId64 " of the calls", total.dropped);
    fputc('\n', file);
    if (fflush(file) != 0 || ferror(file))
        return th_fail(ctx, TH_ERROR_FILE, "profile_print", "writing failed");
    return TH_OK;
}
